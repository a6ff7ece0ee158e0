//! Number of executions of a fuzz target; small by default.
//!
//! SHOAL_FUZZ_SECONDS sets the seconds of each target, SHOAL_FUZZ_EXECUTIONS its inputs,
//! SHOAL_FUZZ_SEED its seed. No time is asserted. CI runs every target for 5 s; run the full
//! counts by hand: `SHOAL_FUZZ_EXECUTIONS=10000000 cargo test -p shoal-codec -p shoal-table
//! -p shoal-position-log fuzz_`, and with `-p shoal-service --lib fuzz_`.

use std::fmt::Display;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Counts the executions of a fuzz target, up to a number or for a time.
#[derive(Debug)]
pub struct Bound {
    end: Option<Instant>,
    left: u64,
    done: u64,
}

/// A variable of the environment as a number.
fn set<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} is {text}: {error}")))
}

impl Bound {
    /// As set in the environment, or `small` executions.
    #[must_use]
    pub fn new(small: u64) -> Self {
        let seconds = set("SHOAL_FUZZ_SECONDS").map(Duration::from_secs_f64);
        let left = set("SHOAL_FUZZ_EXECUTIONS").unwrap_or(small);
        Self { end: seconds.map(|seconds| Instant::now() + seconds), left, done: 0 }
    }

    /// True if there is one more execution.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.end {
            // At least one.
            Some(end) => self.done == 0 || Instant::now() < end,
            None => self.done < self.left,
        }
    }

    /// True if there is one more execution; counts it.
    pub fn goes_on(&mut self) -> bool {
        let goes_on = self.is_open();
        self.done += u64::from(goes_on);
        goes_on
    }

    /// Executions so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }
}

/// The seed of a target, printed to reproduce a failure.
#[must_use]
pub fn fuzz_seed(usual: u64) -> u64 {
    let seed = set("SHOAL_FUZZ_SEED").unwrap_or(usual);
    println!("SHOAL_FUZZ_SEED={seed}");
    seed
}
