//! How much of a core the thread of a fleet's history uses: its configured share, and more while
//! cores are idle.
//!
//! The used part grows by a fraction of the idle cores, so that the histories of several fleets do
//! not claim the same core, and shrinks by the whole shortfall. Idle time is that of the machine
//! if `/proc/stat` reports it, so that other processes count.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Cores that are left idle.
const LEFT_IDLE: f64 = 0.5;
/// Least time between two measurements of idle time: many ticks of the system's clock.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Computes how long a thread must rest to use only its part of a core.
#[derive(Debug)]
pub(super) struct Pace {
    /// The configured share of a core, above 0; the least part that the thread uses.
    share: f64,
    /// Part of a core that the thread uses now, from `share` to 1.
    taken: f64,
    /// Cores that the process may use.
    cores: f64,
    last: Times,
}

/// Times since the start of the machine or the process.
#[derive(Clone, Copy, Debug)]
struct Times {
    at: Instant,
    /// CPU time of this process, seconds.
    process: f64,
    /// Idle time of all cores of the machine, seconds, if the system reports it.
    idle: Option<f64>,
}

impl Pace {
    /// A share in percent of a core, above 0.
    pub(super) fn new(percent: u32) -> Self {
        let share = f64::from(percent) / 100.0;
        let cores = available_parallelism().map_or(1, NonZero::get) as f64;
        Self { share, taken: share, cores, last: Times::now() }
    }

    /// How long the thread must rest after it worked for `worked`.
    pub(super) fn rest(&mut self, worked: Duration) -> Duration {
        if self.last.at.elapsed() >= LOOK_AFTER {
            let now = Times::now();
            self.adapt(now.idle_since(&self.last, self.cores));
            self.last = now;
        }
        worked.mul_f64(1.0 / self.taken - 1.0)
    }

    /// Adjusts the used part of a core to the number of idle cores.
    fn adapt(&mut self, idle: f64) {
        let spare = idle - LEFT_IDLE;
        let more = if spare > 0.0 { spare / self.cores } else { spare };
        self.taken = (self.taken + more).clamp(self.share, 1.0);
    }
}

impl Times {
    fn now() -> Self {
        let process = clock_gettime(ClockId::ProcessCPUTime);
        let stat = std::fs::read_to_string("/proc/stat");
        Self {
            at: Instant::now(),
            process: process.tv_sec as f64 + process.tv_nsec as f64 / 1e9,
            idle: stat.ok().and_then(|stat| idle_seconds(&stat)),
        }
    }

    /// Average number of idle cores since `then`: the lesser of the process's unused cores and the
    /// machine's idle cores.
    fn idle_since(&self, then: &Self, cores: f64) -> f64 {
        let passed = self.at.duration_since(then.at).as_secs_f64();
        let of_process = cores - (self.process - then.process) / passed;
        let of_machine = self.idle.zip(then.idle).map(|(now, then)| (now - then) / passed);
        of_machine.map_or(of_process, |idle| idle.min(of_process))
    }
}

/// Idle seconds: the fourth number in the first line of `/proc/stat` (proc(5)), which counts ticks.
/// The fifth number, time spent waiting for a disk, does not count as idle.
fn idle_seconds(stat: &str) -> Option<f64> {
    let numbers = stat.strip_prefix("cpu ")?.lines().next()?;
    let ticks: f64 = numbers.split_ascii_whitespace().nth(3)?.parse().ok()?;
    Some(ticks / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_idle_that_neither_the_process_nor_the_machine_uses() {
        let then = Times { at: Instant::now(), process: 5.0, idle: Some(70.0) };
        let at = then.at + Duration::from_secs(2);
        let idle = |process, idle: Option<f64>, cores| {
            let now = Times { at, process: 5.0 + process, idle: idle.map(|idle| 70.0 + idle) };
            now.idle_since(&then, cores)
        };
        assert_eq!(idle(1.0, Some(3.0), 2.0), 1.5);
        // Another process takes both cores.
        assert_eq!(idle(0.5, Some(0.0), 2.0), 0.0);
        // The process may use two cores of sixteen.
        assert_eq!(idle(3.0, Some(28.0), 2.0), 0.5);
        // The system does not say what is idle.
        assert_eq!(idle(3.0, None, 2.0), 0.5);
    }

    #[test]
    fn it_takes_its_share_or_grows_into_what_is_idle() {
        let mut pace = Pace { cores: 2.0, ..Pace::new(25) };
        let mut taken = |idle| {
            pace.adapt(idle);
            pace.taken
        };
        assert_eq!([0.0, 0.5, -3.0].map(&mut taken), [0.25; 3]);
        assert_eq!([1.5, 1.0, 0.75, 9.0].map(&mut taken), [0.75, 1.0, 1.0, 1.0]);
        assert_eq!([0.25, 0.0, 0.0].map(taken), [0.75, 0.25, 0.25]);
        pace.taken = 0.25;
        assert_eq!(pace.rest(Duration::from_millis(60)).as_millis(), 180);
        pace.taken = 1.0;
        assert_eq!(pace.rest(Duration::from_millis(60)).as_millis(), 0);
    }

    #[test]
    fn the_idle_time_is_read() {
        let ticks = clock_ticks_per_second() as f64;
        let text = "cpu  10 20 30 400 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(idle_seconds(text), Some(400.0 / ticks));
        for text in ["", "cpu", "cpu  1 2 3\n4", "intr 5 6 7 8 9", "cpu  1 2 3 x 5"] {
            assert_eq!(idle_seconds(text), None, "{text}");
        }
    }
}
