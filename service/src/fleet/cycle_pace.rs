//! How many rows a cycle takes and how much work it does for queries, so that no cycle is long.
//!
//! A request waits for the cycle in progress and for its own. Longer cycles cost little less per
//! row, so under load the rows of a cycle follow the time that rows have taken lately. The work of
//! queries is an estimate, so it follows the time that it has taken, too.

use std::time::{Duration, Instant};

use crate::limits::{
    CYCLE_PACE_ROWS_MIN, CYCLE_PACE_WORK_MIN, CYCLE_QUERY_TIME_MS, CYCLE_QUERY_WORK, CYCLE_TIME_MS,
    LIGHT_CLIENT_MS, LIGHT_CYCLE_ROWS_MIN, LIGHT_CYCLE_TIME_MS,
};

/// The time of queries is forgotten by half in this time.
const QUERY_MEMORY_SECONDS: f64 = 10.0;
const WORK_MIN: f64 = CYCLE_PACE_WORK_MIN as f64;

/// See the file's head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CyclePace {
    /// Nanoseconds of a row, on average over some cycles; 0 before the first.
    row_ns: f64,
    /// The same for a unit of work of queries.
    work_ns: f64,
    /// When it last learned.
    learned: Option<Instant>,
    /// Until when cycles are short for light clients.
    short_until: Option<Instant>,
}

impl CyclePace {
    /// A light client waits now.
    pub(super) fn saw_light_client(&mut self, now: Instant) {
        self.short_until = Some(now + Duration::from_millis(LIGHT_CLIENT_MS));
    }

    /// Whether cycles are short now, for light clients.
    pub(super) fn is_short(self, now: Instant) -> bool {
        self.short_until.is_some_and(|until| now < until)
    }

    /// Rows that are expected to take [`CYCLE_TIME_MS`], at least [`CYCLE_PACE_ROWS_MIN`]; twice as
    /// many if there are sessions, because a cycle costs a message for each of them. Fewer in a short
    /// cycle: see [`LIGHT_CYCLE_TIME_MS`].
    pub(super) fn rows_max(self, has_sessions: bool, is_short: bool) -> usize {
        let (time_ms, least) = if is_short {
            (LIGHT_CYCLE_TIME_MS, LIGHT_CYCLE_ROWS_MIN)
        } else {
            (CYCLE_TIME_MS, CYCLE_PACE_ROWS_MIN)
        };
        // A quotient beyond the range of integers becomes the largest one.
        let rows = time_ms as f64 * 1e6 / self.row_ns;
        let rows_max = (rows as usize).max(least);
        if has_sessions { rows_max.saturating_mul(2) } else { rows_max }
    }

    /// The limit of the work of queries: a test of each of the fleet's objects within
    /// [`CYCLE_QUERY_WORK`], or what is expected to take [`CYCLE_QUERY_TIME_MS`] if that is less, at
    /// least [`CYCLE_PACE_WORK_MIN`].
    pub(super) fn query_work_max(self, objects: u64) -> u64 {
        let (least, most) = CYCLE_QUERY_WORK;
        let work_max = (objects + objects / 4).clamp(least, most);
        // As above.
        let work = CYCLE_QUERY_TIME_MS as f64 * 1e6 / self.work_ns;
        (work as u64).clamp(CYCLE_PACE_WORK_MIN, work_max)
    }

    /// Learns from a cycle that had this many rows, did this work for queries and ends now.
    pub(super) fn learn(&mut self, rows: usize, query_work: u64, time: Duration, now: Instant) {
        // Queries that need more than the limit do no work in cycles, which then say nothing: the
        // limit rises with time.
        let since = self.learned.replace(now).map_or(Duration::ZERO, |last| now - last);
        self.work_ns *= (-since.as_secs_f64() / QUERY_MEMORY_SECONDS).exp2();
        let time_ns = time.as_nanos() as f64;
        // Much work of queries says little about the cost of a row, and the reverse. Messages stay
        // whole, so a cycle may have half of its rows. It must count all the same, or the least
        // number would be kept for ever; so with work.
        let least = if self.is_short(now) { LIGHT_CYCLE_ROWS_MIN } else { CYCLE_PACE_ROWS_MIN };
        if query_work <= rows as u64 {
            if rows >= least / 2 {
                average(&mut self.row_ns, time_ns / rows as f64);
            }
        } else if query_work >= CYCLE_PACE_WORK_MIN / 2 {
            let rows_ns = rows as f64 * self.row_ns;
            let target_ns = CYCLE_QUERY_TIME_MS as f64 * 1e6;
            let queries_ns = (time_ns - rows_ns).max(0.0);
            // No more than what leads to the least limit, which one slow cycle may not keep.
            let work_ns = (queries_ns / query_work as f64).min(target_ns / WORK_MIN);
            // A short cycle may have spent its time on anything, and one with rows on these: it is
            // no reason to limit work.
            let has_few_rows = rows as u64 * 64 <= query_work;
            let knows_rows = rows_ns > 0.0 && rows_ns < time_ns / 2.0;
            let is_slow = queries_ns > target_ns && (has_few_rows || knows_rows);
            if is_slow || work_ns < self.work_ns {
                average(&mut self.work_ns, work_ns);
            }
        }
    }
}

/// Changes an average of some cycles by the next one; 0 is none yet.
fn average(mean: &mut f64, next: f64) {
    *mean = if *mean == 0.0 { next } else { (3.0 * *mean + next) / 4.0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_time_of_rows_alone() {
        let (ms, at) = (Duration::from_millis, Instant::now());
        let mut pace = CyclePace::default();
        assert_eq!(pace.rows_max(false, false), usize::MAX);
        // Says nothing: few rows, or many queries beside them.
        pace.learn(CYCLE_PACE_ROWS_MIN / 2 - 1, 0, ms(900), at);
        pace.learn(100_000, 100_001, ms(900), at);
        assert_eq!(pace.rows_max(false, false), usize::MAX);
        pace.learn(100_000, 50, ms(CYCLE_TIME_MS), at);
        assert_eq!(
            [false, true].map(|sessions| pace.rows_max(sessions, false)),
            [100_000, 200_000]
        );
        for _ in 0..40 {
            pace.learn(100_000, 0, ms(CYCLE_TIME_MS / 2), at);
        }
        assert!(
            (199_000..=200_000).contains(&pace.rows_max(false, false)),
            "{}",
            pace.rows_max(false, false)
        );
        // Short cycles have their own limits.
        let of_short = 200_000 * LIGHT_CYCLE_TIME_MS as usize / CYCLE_TIME_MS as usize;
        assert!(pace.rows_max(false, true).abs_diff(of_short) < 1_000);
        for _ in 0..40 {
            pace.learn(100_000, 0, ms(1_000), at);
        }
        assert_eq!(pace.rows_max(false, false), CYCLE_PACE_ROWS_MIN);
        assert_eq!(pace.rows_max(false, true), LIGHT_CYCLE_ROWS_MIN);
        // Cycles of messages that do not fill the least number lead back.
        for _ in 0..40 {
            pace.learn(CYCLE_PACE_ROWS_MIN - 1_000, 0, ms(1), at);
        }
        assert!(
            pace.rows_max(false, false) > 5 * CYCLE_PACE_ROWS_MIN,
            "{}",
            pace.rows_max(false, false)
        );
    }

    #[test]
    fn cycles_are_short_for_a_while_after_a_light_client() {
        let (mut pace, at) = (CyclePace::default(), Instant::now());
        assert!(!pace.is_short(at));
        pace.saw_light_client(at);
        assert!(pace.is_short(at + Duration::from_millis(LIGHT_CLIENT_MS - 1)));
        // They teach what rows cost.
        let time = Duration::from_millis(LIGHT_CYCLE_TIME_MS);
        pace.learn(LIGHT_CYCLE_ROWS_MIN / 2 - 1, 0, time, at);
        assert_eq!(pace.rows_max(false, true), usize::MAX);
        pace.learn(2 * LIGHT_CYCLE_ROWS_MIN, 0, time, at);
        assert_eq!(pace.rows_max(false, true), 2 * LIGHT_CYCLE_ROWS_MIN);
        assert!(!pace.is_short(at + Duration::from_millis(LIGHT_CLIENT_MS)));
    }

    #[test]
    fn the_work_of_queries_follows_its_time_if_that_is_long() {
        let (ms, at) = (Duration::from_millis, Instant::now());
        let (least, most) = CYCLE_QUERY_WORK;
        let mut pace = CyclePace::default();
        let of = [0, 8 << 20, 1 << 40].map(|objects| pace.query_work_max(objects));
        assert_eq!(of, [least, 10 << 20, most]);
        // Says nothing: little work, little time.
        pace.learn(0, CYCLE_PACE_WORK_MIN / 2 - 1, ms(900), at);
        pace.learn(0, CYCLE_PACE_WORK_MIN, ms(CYCLE_QUERY_TIME_MS), at);
        assert_eq!(pace.query_work_max(0), least);
        // The rows of the cycle took a part of its time.
        pace.learn(100_000, 0, ms(4), at);
        pace.learn(100_000, 2 << 20, ms(4 + 2 * CYCLE_QUERY_TIME_MS), at);
        assert!((1_u64 << 20).abs_diff(pace.query_work_max(0)) <= 1, "{}", pace.query_work_max(0));
        for _ in 0..40 {
            pace.learn(0, 1 << 20, ms(900), at);
        }
        assert!(pace.query_work_max(1 << 40) - CYCLE_PACE_WORK_MIN < 16);
        // Half of it is forgotten in ten seconds, if the cycles say nothing.
        let mut idle = pace;
        idle.learn(0, 0, ms(1), at + Duration::from_secs(10));
        assert!((1_u64 << 20).abs_diff(idle.query_work_max(0)) <= 1 << 10);
        // One slow cycle is enough, but does not last.
        let mut hit = CyclePace::default();
        hit.learn(0, CYCLE_PACE_WORK_MIN, ms(9_000), at);
        assert!(hit.query_work_max(0) - CYCLE_PACE_WORK_MIN < 16);
        // Rows whose cost is not known yet may be what took the time.
        let mut unknown = CyclePace::default();
        unknown.learn(10_000, CYCLE_PACE_WORK_MIN, ms(900), at);
        assert_eq!(unknown.query_work_max(0), least);
        for _ in 0..40 {
            pace.learn(0, CYCLE_PACE_WORK_MIN, ms(CYCLE_QUERY_TIME_MS / 4), at);
        }
        let work_max = pace.query_work_max(0);
        assert!((2_u64 << 20).abs_diff(work_max) < 8 << 10, "{work_max}");
    }
}
