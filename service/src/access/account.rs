//! The usage of one token, summed over all its connections and calls, and its quotas, which may
//! change while it is in use.
//!
//! A listed token's account is found by the token's name. A signed token's account is found by the
//! token's subject, so that a subject with a new token keeps its account.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::grant::Quotas;
use super::quota_meter::{MeteredQuota, QuotaMeter};
use crate::error::ServiceError;
use crate::limits::{BUSY_RETRY_MS, QUOTA_WAIT_MS_MAX};

/// Unused accounts are removed when the number of accounts reaches a power of two, from this one
/// on.
const PRUNED_FROM: usize = 1 << 10;

/// A quota of things held at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedQuota {
    Connections,
    Streams,
    Regions,
}

impl CountedQuota {
    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::Regions => "regions",
        }
    }
}

/// See the file's head.
#[derive(Debug)]
pub struct Account {
    id: u64,
    name: Box<str>,
    quotas: Mutex<StatedQuotas>,
    rows: QuotaMeter,
    queries: QuotaMeter,
    answer_bytes: QuotaMeter,
    held: [AtomicU64; 3],
    /// Held while a fleet is counted and created.
    creating: tokio::sync::Mutex<()>,
}

/// A held amount of a counted quota; dropping it returns the amount.
#[derive(Debug)]
pub(crate) struct Counted {
    account: Arc<Account>,
    quota: CountedQuota,
    amount: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.account.held[self.quota as usize].fetch_sub(self.amount, Ordering::Relaxed);
    }
}

impl Counted {
    /// Returns a part of the amount to the account.
    pub(crate) fn release(&mut self, amount: u64) {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        self.account.held[self.quota as usize].fetch_sub(amount, Ordering::Relaxed);
    }

    /// Takes over the amount of `other`, which has the same account and quota.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl Account {
    /// Number that is unique among the accounts of the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Name of the account in audit records.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn quotas(&self) -> Quotas {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner).quotas
    }

    /// Changes the quotas, unless a newer token has stated them.
    fn set_quotas(&self, stated: StatedQuotas) {
        let mut current = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
        if stated.at >= current.at {
            *current = stated;
        }
    }

    /// Whether nobody uses the account and a new one would have the same balances.
    fn is_idle(self: &Arc<Self>, now: Instant) -> bool {
        let quotas = [MeteredQuota::Rows, MeteredQuota::Queries, MeteredQuota::AnswerBytes];
        let mut meters = quotas.into_iter().filter_map(|quota| self.meter(quota));
        Arc::strong_count(self) == 1 && meters.all(|(meter, rate)| meter.is_full(rate, now))
    }

    /// Adds an amount to what the token holds; dropping the result returns it.
    ///
    /// # Errors
    /// [`ServiceError::Quota`].
    pub(crate) fn hold(
        self: &Arc<Self>,
        quota: CountedQuota,
        amount: u64,
    ) -> Result<Counted, ServiceError> {
        let quotas = self.quotas();
        let limit = match quota {
            CountedQuota::Connections => quotas.connections,
            CountedQuota::Streams => quotas.streams,
            CountedQuota::Regions => quotas.regions,
        };
        let held = self.held[quota as usize].fetch_add(amount, Ordering::Relaxed) + amount;
        let counted = Counted { account: self.clone(), quota, amount };
        match limit {
            Some(limit) if held > limit => Err(over(quota.name(), limit, BUSY_RETRY_MS)),
            _ => Ok(counted),
        }
    }

    fn meter(&self, quota: MeteredQuota) -> Option<(&QuotaMeter, u64)> {
        let quotas = self.quotas();
        let (meter, rate) = match quota {
            MeteredQuota::Rows => (&self.rows, quotas.rows_per_second),
            MeteredQuota::Queries => (&self.queries, quotas.queries_per_second),
            MeteredQuota::AnswerBytes => (&self.answer_bytes, quotas.answer_bytes_per_second),
        };
        Some((meter, rate?))
    }

    /// Takes an amount without waiting; fails if the quota is used up.
    ///
    /// # Errors
    /// [`ServiceError::Quota`].
    pub(crate) fn take(&self, quota: MeteredQuota, amount: u64) -> Result<(), ServiceError> {
        let Some((meter, rate)) = self.meter(quota) else { return Ok(()) };
        let taken = meter.take(rate, amount, Instant::now());
        taken.map_err(|wait| over(quota.name(), rate, wait.as_millis() as u64))
    }

    /// Waits until an amount can be taken.
    pub(crate) async fn wait(&self, quota: MeteredQuota, amount: u64) {
        while let Some((meter, rate)) = self.meter(quota) {
            let Err(wait) = meter.take(rate, amount, Instant::now()) else { return };
            // The quota may be raised meanwhile.
            tokio::time::sleep(wait.min(Duration::from_millis(QUOTA_WAIT_MS_MAX))).await;
        }
    }

    /// Charges an amount that was already used.
    pub(crate) fn charge(&self, quota: MeteredQuota, amount: u64) {
        if let Some((meter, rate)) = self.meter(quota) {
            meter.charge(rate, amount, Instant::now());
        }
    }

    /// Whether a quota has no limit.
    pub(crate) fn is_free(&self, quota: MeteredQuota) -> bool {
        self.meter(quota).is_none()
    }

    /// Checks the quota of fleets; `count` returns how many exist. No other fleet of this account
    /// is created until the returned guard is dropped.
    ///
    /// # Errors
    /// [`ServiceError::Quota`].
    pub(crate) async fn may_create(
        &self,
        count: impl FnOnce() -> usize,
    ) -> Result<tokio::sync::MutexGuard<'_, ()>, ServiceError> {
        let creating = self.creating.lock().await;
        match self.quotas().fleets {
            Some(limit) if count() as u64 >= limit => Err(over("fleets", limit, BUSY_RETRY_MS)),
            _ => Ok(creating),
        }
    }
}

fn over(quota: &'static str, limit: u64, retry_ms: u64) -> ServiceError {
    ServiceError::Quota { quota, limit, retry_ms: retry_ms.max(1) }
}

/// The quotas of an account.
#[derive(Clone, Copy, Debug)]
struct StatedQuotas {
    quotas: Quotas,
    /// When the token that states them became valid, seconds since 1970; 0 for a listed token.
    at: u64,
}

/// The accounts that are in use or have used more than their quotas, by name.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    by_name: Mutex<HashMap<Box<str>, Arc<Account>>>,
    last: AtomicU64,
}

impl Accounts {
    /// Returns the account of a name, creating it if there is none, and sets its quotas.
    pub(super) fn get(&self, name: &str, quotas: Quotas) -> Arc<Account> {
        self.of_token(name, quotas, 0)
    }

    /// As [`Accounts::get`], for a token that became valid at `at`, seconds since 1970. The newest
    /// token that was seen states the quotas, so that an older one does not bring back its own.
    pub(super) fn of_token(&self, name: &str, quotas: Quotas, at: u64) -> Arc<Account> {
        let stated = StatedQuotas { quotas, at };
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = by_name.get(name) {
            account.set_quotas(stated);
            return account.clone();
        }
        if by_name.len() >= PRUNED_FROM && by_name.len().is_power_of_two() {
            let now = Instant::now();
            by_name.retain(|_, account| !account.is_idle(now));
        }
        let account = Arc::new(Account {
            id: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            name: name.into(),
            quotas: Mutex::new(stated),
            rows: QuotaMeter::default(),
            queries: QuotaMeter::default(),
            answer_bytes: QuotaMeter::default(),
            held: Default::default(),
            creating: tokio::sync::Mutex::default(),
        });
        by_name.insert(name.into(), account.clone());
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_is_dropped() {
        let accounts = Accounts::default();
        let quotas = Quotas { streams: Some(2), ..Quotas::default() };
        let account = accounts.get("a", quotas);
        let mut one = account.hold(CountedQuota::Streams, 1).unwrap();
        let two = account.hold(CountedQuota::Streams, 1).unwrap();
        assert!(account.hold(CountedQuota::Streams, 1).is_err());
        assert!(account.hold(CountedQuota::Connections, 100).is_ok());
        one.merge(two);
        one.release(1);
        assert!(account.hold(CountedQuota::Streams, 1).is_ok());
        // The same account, with other quotas.
        let same = accounts.get("a", Quotas { streams: Some(1), ..Quotas::default() });
        assert_eq!(same.id(), account.id());
        assert!(same.hold(CountedQuota::Streams, 1).is_err());
        drop(one);
        assert!(same.hold(CountedQuota::Streams, 1).is_ok());
        assert_ne!(accounts.get("b", quotas).id(), account.id());
    }

    #[test]
    fn accounts_that_nobody_uses_are_forgotten() {
        let accounts = Accounts::default();
        for name in 0..10 * PRUNED_FROM {
            accounts.get(&name.to_string(), Quotas::default());
        }
        assert!(accounts.by_name.lock().unwrap().len() <= 2 * PRUNED_FROM);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_nobody_uses_keeps_its_debt() {
        let accounts = Accounts::default();
        let quotas = Quotas { rows_per_second: Some(10), ..Quotas::default() };
        accounts.get("a", quotas).take(MeteredQuota::Rows, 1_000).unwrap();
        let fill = || {
            for name in 0..2 * PRUNED_FROM {
                accounts.get(&name.to_string(), Quotas::default());
            }
        };
        fill();
        assert!(accounts.get("a", quotas).take(MeteredQuota::Rows, 1).is_err());
        let before = accounts.get("a", quotas).id();
        tokio::time::advance(Duration::from_secs(200)).await;
        fill();
        assert_ne!(accounts.get("a", quotas).id(), before, "paid back and forgotten");
    }

    #[test]
    fn the_newest_token_states_the_quotas() {
        let accounts = Accounts::default();
        let quotas = |streams| Quotas { streams: Some(streams), ..Quotas::default() };
        let account = accounts.of_token("jwt:a", quotas(5), 100);
        accounts.of_token("jwt:a", quotas(3), 200);
        assert_eq!(account.quotas(), quotas(3));
        accounts.of_token("jwt:a", quotas(5), 100);
        assert_eq!(account.quotas(), quotas(3), "an older one does not raise them");
        accounts.of_token("jwt:a", quotas(4), 200);
        assert_eq!(account.quotas(), quotas(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_the_quota_allows_more() {
        let accounts = Accounts::default();
        let account = accounts.get("a", Quotas { rows_per_second: Some(10), ..Quotas::default() });
        account.take(MeteredQuota::Rows, 40).unwrap();
        let error = account.take(MeteredQuota::Rows, 1).unwrap_err();
        let expected = "quota rows_per_second of the token is 10: retry in 3000 ms";
        assert_eq!(error.to_string(), expected);
        let start = Instant::now();
        account.wait(MeteredQuota::Rows, 1).await;
        assert!(start.elapsed() >= Duration::from_secs(3));
        account.wait(MeteredQuota::Queries, u64::MAX).await;
    }
}
