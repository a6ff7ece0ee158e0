//! Which kind of query comes next?
//!
//! A seeded stream of kinds by weight. Where a query looks is the workload's own
//! [`window`](crate::Workload::window); how many queries come with the updates is the caller's.

use std::str::FromStr;

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::WorkloadError;
use crate::random::{Domain, stream, unit};

/// What a query asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// Everything in a rectangle.
    Range,
    /// The nearest objects to a point.
    Nearest,
    /// One object by its number.
    Get,
}

/// Weights of the kinds; the default asks ranges only. Read from `range:nearest:get`, as
/// `80:10:10`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryWeights {
    /// Weight of [`QueryKind::Range`].
    pub range: f64,
    /// Weight of [`QueryKind::Nearest`].
    pub nearest: f64,
    /// Weight of [`QueryKind::Get`].
    pub get: f64,
}

/// An endless stream of query kinds.
#[derive(Debug)]
pub struct QueryMix {
    weights: QueryWeights,
    random: Xoshiro256PlusPlus,
}

impl QueryMix {
    /// The stream of a seed and a shard.
    ///
    /// # Errors
    ///
    /// A weight below 0, not finite, or none above 0.
    pub fn new(weights: QueryWeights, seed: u64, shard: u32) -> Result<Self, WorkloadError> {
        let all = [weights.range, weights.nearest, weights.get];
        let legal = all.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !legal || all.iter().sum::<f64>() <= 0.0 {
            return Err(refuse(&format!("{}:{}:{}", all[0], all[1], all[2])));
        }
        Ok(Self { weights, random: stream(seed, Domain::Kinds, u64::from(shard)) })
    }

    /// The next kind.
    pub fn next_kind(&mut self) -> QueryKind {
        let QueryWeights { range, nearest, get } = self.weights;
        let place = unit(&mut self.random) * (range + nearest + get);
        if place < range {
            QueryKind::Range
        } else if place < range + nearest || get <= 0.0 {
            QueryKind::Nearest
        } else {
            QueryKind::Get
        }
    }
}

impl Default for QueryWeights {
    fn default() -> Self {
        Self { range: 1.0, nearest: 0.0, get: 0.0 }
    }
}

impl FromStr for QueryWeights {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let weights: Vec<f64> = text.split(':').map_while(|weight| weight.parse().ok()).collect();
        match weights[..] {
            [range, nearest, get] if text.matches(':').count() == 2 => {
                Ok(Self { range, nearest, get })
            }
            _ => Err(refuse(text)),
        }
    }
}

fn refuse(text: &str) -> WorkloadError {
    WorkloadError::Parameter {
        parameter: "query weights",
        value: format!("`{text}`"),
        range: "three numbers range:nearest:get from 0 on, one above 0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_by_their_weights() {
        let weights = "70:20:10".parse().unwrap();
        let mut mix = QueryMix::new(weights, 6, 0).unwrap();
        let mut counts = [0_u32; 3];
        for _ in 0..100_000 {
            counts[mix.next_kind() as usize] += 1;
        }
        for (count, expected) in counts.iter().zip([70_000, 20_000, 10_000]) {
            assert!(count.abs_diff(expected) < 700, "seed 6: {counts:?}");
        }
        let mut ranges = QueryMix::new(QueryWeights::default(), 6, 0).unwrap();
        assert!((0..1_000).all(|_| ranges.next_kind() == QueryKind::Range));
    }

    #[test]
    fn illegal_weights_are_refused() {
        for text in ["", "1", "1:2", "1:2:3:4", "a:1:1", "1:1:b"] {
            assert!(text.parse::<QueryWeights>().is_err(), "{text}");
        }
        for text in ["0:0:0", "-1:1:1", "NaN:1:1", "inf:0:0"] {
            assert!(QueryMix::new(text.parse().unwrap(), 1, 0).is_err(), "{text}");
        }
    }
}
