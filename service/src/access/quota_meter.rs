//! Limits the rate of a quota by a token bucket that holds the amount of one second.
//!
//! A request is served while the bucket is not overdrawn, however large it is; later ones wait
//! until it has been refilled. So the average is the rate, whatever the sizes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeteredQuota {
    /// Rows that are reported or removed.
    Rows,
    /// Queries.
    Queries,
    /// Bytes of answers.
    AnswerBytes,
}

impl MeteredQuota {
    /// Name of the quota in token files, claims and errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows_per_second",
            Self::Queries => "queries_per_second",
            Self::AnswerBytes => "answer_bytes_per_second",
        }
    }
}

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct QuotaMeter(Mutex<Option<State>>);

#[derive(Debug)]
struct State {
    balance: f64,
    at: Instant,
}

impl QuotaMeter {
    /// Takes an amount; if the bucket is overdrawn, fails with the time until it is not.
    pub(super) fn take(&self, rate: u64, amount: u64, now: Instant) -> Result<(), Duration> {
        let rate = rate as f64;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state.get_or_insert(State { balance: rate, at: now });
        let passed = now.saturating_duration_since(state.at).as_secs_f64();
        // Never more than the amount of one second, also after the rate was lowered.
        state.balance = (state.balance + passed * rate).min(rate);
        state.at = now;
        if state.balance < 0.0 {
            let wait_s = if rate > 0.0 { -state.balance / rate } else { f64::INFINITY };
            return Err(Duration::from_secs_f64(wait_s.clamp(0.001, 60.0)));
        }
        if rate == 0.0 && amount > 0 {
            return Err(Duration::from_secs(60));
        }
        state.balance -= amount as f64;
        Ok(())
    }

    /// Whether the bucket holds the amount of one second, as a new one does.
    pub(super) fn is_full(&self, rate: u64, now: Instant) -> bool {
        // Taking 0 refills the bucket up to `now`.
        let _ = self.take(rate, 0, now);
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().is_some_and(|state| state.balance >= rate as f64)
    }

    /// Charges an amount that was already used, even if that overdraws the bucket.
    pub(super) fn charge(&self, rate: u64, amount: u64, now: Instant) {
        // Taking 0 refills the bucket up to `now`.
        let _ = self.take(rate, 0, now);
        if let Some(state) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            state.balance -= amount as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    #[test]
    fn the_average_is_the_rate_whatever_the_sizes() {
        let meter = QuotaMeter::default();
        let start = Instant::now();
        let (mut now, mut taken, mut random) = (start, 0, Random::new(1));
        while now < start + Duration::from_secs(1_000) {
            let amount = random.below(700);
            match meter.take(100, amount, now) {
                Ok(()) => taken += amount,
                Err(wait) => now += wait,
            }
        }
        // A bucket and the last request beyond it.
        assert!((100_000..=100_000 + 100 + 700).contains(&taken), "{taken}");
    }

    #[test]
    fn an_idle_token_saves_a_second_and_a_rate_of_zero_allows_nothing() {
        let meter = QuotaMeter::default();
        let start = Instant::now();
        assert_eq!(meter.take(10, 10, start), Ok(()));
        let later = start + Duration::from_secs(100);
        assert_eq!(meter.take(10, 11, later), Ok(()));
        assert_eq!(meter.take(10, 1, later), Err(Duration::from_millis(100)));
        meter.charge(10, 9, later);
        assert_eq!(meter.take(10, 1, later), Err(Duration::from_secs(1)));
        assert!(QuotaMeter::default().take(0, 1, start).is_err());
    }
}
