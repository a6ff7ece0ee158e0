//! The intended send times of messages at a given rate.
//!
//! They are fixed before the run, and latency counts from them: a delayed sender does not hide the
//! waiting time of later messages (no coordinated omission).

use std::time::Duration;

use tokio::time::Instant;

/// Send times of one connection's messages at a fixed rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    per_second: f64,
    /// Offset in units from the first connection, so that connections do not send simultaneously.
    lag: f64,
}

impl Pace {
    /// The pace of connection `connection` of `connections`, which sends about `per_message` units
    /// in each message and `per_second` units (above 0) a second.
    #[must_use]
    pub fn new(per_message: u32, per_second: f64, connection: u32, connections: u32) -> Self {
        let lag = f64::from(per_message) * f64::from(connection) / f64::from(connections);
        Self { per_second, lag }
    }

    /// The intended moment of the message after `units` (rows, queries).
    #[must_use]
    pub fn intended(&self, start: Instant, units: u64) -> Instant {
        let after_s = (units as f64 + self.lag) / self.per_second;
        // If the rate is so low that the delay overflows, the message is never due.
        let after = Duration::try_from_secs_f64(after_s).unwrap_or(FAR);
        start.checked_add(after).unwrap_or_else(|| start + FAR)
    }

    /// Units due after `seconds`.
    #[must_use]
    pub fn units_within(&self, seconds: f64) -> u64 {
        (seconds * self.per_second - self.lag).max(0.0) as u64
    }
}

/// A delay that means never.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_follow_the_rate_and_do_not_drift() {
        let start = Instant::now();
        let pace = Pace::new(100, 1_000.0, 0, 1);
        assert_eq!(pace.intended(start, 0), start);
        assert_eq!(pace.intended(start, 1_000), start + Duration::from_secs(1));
        assert_eq!(pace.intended(start, 1_050), start + Duration::from_millis(1_050));
        let day = pace.intended(start, 86_400_000) - start;
        assert_eq!(day, Duration::from_secs(86_400));
        assert_eq!(pace.units_within(1.5), 1_500);
    }

    #[test]
    fn connections_share_the_interval_evenly() {
        let start = Instant::now();
        let moments: Vec<_> = (0..4)
            .map(|connection| Pace::new(10, 10.0, connection, 4).intended(start, 0) - start)
            .collect();
        let expected: Vec<_> = (0..4).map(|quarter| Duration::from_millis(250 * quarter)).collect();
        assert_eq!(moments, expected);
        assert_eq!(Pace::new(10, 10.0, 3, 4).units_within(0.7), 0);
        assert_eq!(Pace::new(10, 10.0, 3, 4).units_within(1.75), 10);
    }

    #[test]
    fn a_vanishing_rate_never_comes() {
        let start = Instant::now();
        let pace = Pace::new(1, 1e-300, 0, 1);
        assert!(pace.intended(start, 1) >= start + FAR);
    }
}
