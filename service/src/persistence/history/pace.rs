//! How much of a core the history takes: its share, or more while cores are idle.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Cores that it leaves idle if it takes more than its share.
const LEFT_IDLE: f64 = 0.5;

/// A thread that rests according to what the machine and the process did since its last rest.
#[derive(Debug)]
pub(super) struct Pace {
    /// Of a core, above 0.
    share: f64,
    /// Cores that the process may use.
    cores: f64,
    last: Times,
}

/// Sums of seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    now: Instant,
    /// Of the cores, by this process.
    process: f64,
    /// Of a core, by this thread.
    thread: f64,
    /// Of all cores of the machine without work, where the system says so.
    idle: Option<f64>,
}

impl Pace {
    /// For this thread, with a share in percent of a core, above 0.
    pub(super) fn new(percent: u32) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self { share: f64::from(percent) / 100.0, cores: cores as f64, last: Times::now() }
    }

    /// How long to rest after so much work.
    pub(super) fn rest(&mut self, worked: Duration) -> Duration {
        let now = Times::now();
        let free = now.free_cores(&self.last, self.cores);
        self.last = now;
        rest(worked, self.share, free)
    }
}

/// The rest of a thread that has a share of a core, while so many cores are free.
fn rest(worked: Duration, share: f64, free: f64) -> Duration {
    worked.mul_f64(1.0 / (free - LEFT_IDLE).clamp(share, 1.0) - 1.0)
}

impl Times {
    fn now() -> Self {
        let seconds = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        Self {
            now: Instant::now(),
            process: seconds(ClockId::ProcessCPUTime),
            thread: seconds(ClockId::ThreadCPUTime),
            idle: std::fs::read_to_string("/proc/stat").ok().and_then(|text| idle_seconds(&text)),
        }
    }

    /// Cores that this thread had or could have had since then.
    fn free_cores(&self, then: &Self, cores: f64) -> f64 {
        let passed = self.now.duration_since(then.now).as_secs_f64().max(1e-3);
        let own = (self.thread - then.thread) / passed;
        let of_process = cores - ((self.process - then.process) / passed - own);
        let idle = self.idle.zip(then.idle).map(|(now, then)| (now - then) / passed + own);
        idle.map_or(of_process, |idle| idle.min(of_process))
    }
}

/// The idle time in the first line of `/proc/stat` (proc(5)), whose fourth number it is in ticks;
/// the fifth is time in which a disk was waited for.
fn idle_seconds(stat: &str) -> Option<f64> {
    let mut numbers = stat.strip_prefix("cpu ")?.split_ascii_whitespace().skip(3);
    let mut next = || numbers.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times after a second.
    fn second(process: f64, thread: f64, idle: Option<f64>) -> (Times, Times) {
        let then = Times { now: Instant::now(), process: 5.0, thread: 4.0, idle: Some(70.0) };
        let now = Times {
            now: then.now + Duration::from_secs(1),
            process: 5.0 + process,
            thread: 4.0 + thread,
            idle: idle.map(|idle| 70.0 + idle),
        };
        (now, then)
    }

    #[test]
    fn cores_are_free_that_neither_the_process_nor_the_machine_uses() {
        let free = |process, thread, idle, cores| {
            let (now, then) = second(process, thread, idle);
            (now.free_cores(&then, cores) * 100.0).round() / 100.0
        };
        // Nothing else runs, on a machine of two cores.
        assert_eq!(free(0.2, 0.2, Some(1.8), 2.0), 2.0);
        // Live traffic takes one and a half.
        assert_eq!(free(1.7, 0.2, Some(0.3), 2.0), 0.5);
        // Another process takes both.
        assert_eq!(free(0.2, 0.2, Some(0.0), 2.0), 0.2);
        // The process may use two cores of sixteen.
        assert_eq!(free(1.5, 0.25, Some(14.0), 2.0), 0.75);
        // The system does not say what is idle.
        assert_eq!(free(1.5, 0.25, None, 2.0), 0.75);
    }

    #[test]
    fn it_takes_its_share_or_what_is_free() {
        let rests = |share, free| rest(Duration::from_millis(60), share, free).as_millis();
        assert_eq!([-0.3, 0.0, 0.75].map(|free| rests(0.25, free)), [180; 3]);
        assert_eq!([1.0, 1.25, 1.5, 16.0].map(|free| rests(0.25, free)), [60, 20, 0, 0]);
        assert_eq!([0.0, 2.0].map(|free| rests(1.0, free)), [0, 0]);
    }

    #[test]
    fn the_idle_time_is_read() {
        let ticks = clock_ticks_per_second() as f64;
        let text = "cpu  10 20 30 400 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(idle_seconds(text), Some(405.0 / ticks));
        for text in ["", "cpu", "cpu  1 2 3 4", "intr 5 6 7 8 9", "cpu  1 2 3 x 5"] {
            assert_eq!(idle_seconds(text), None, "{text}");
        }
    }
}
