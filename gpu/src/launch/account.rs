//! Budgets of device memory: the bytes that may still be allocated.
//!
//! A fleet charges two accounts, its own and the one that all fleets of a device share, so that no
//! byte is granted twice. Both grant a request or neither does. Accounts only count: an allocation
//! that they grant can still fail if the device has too little memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shoal_engine::EngineError;

/// Bytes used, and their limit.
#[derive(Debug)]
pub(crate) struct Account {
    /// The owner, for errors.
    name: &'static str,
    budget_bytes: u64,
    used_bytes: AtomicU64,
}

impl Account {
    /// The account of all fleets of a device.
    pub(crate) fn of_device(budget_bytes: u64) -> Self {
        Self::new("the device's memory for all fleets", budget_bytes)
    }

    fn of_fleet(budget_bytes: u64) -> Self {
        Self::new("the fleet's memory on the device", budget_bytes)
    }

    fn new(name: &'static str, budget_bytes: u64) -> Self {
        Self { name, budget_bytes, used_bytes: AtomicU64::new(0) }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Replaces a charge of `old_bytes` by `new_bytes`. If that exceeds the limit, fails and
    /// changes nothing.
    fn exchange(&self, old_bytes: u64, new_bytes: u64) -> Result<(), EngineError> {
        let after = |used: u64| {
            let after = (used - old_bytes).checked_add(new_bytes)?;
            (new_bytes <= old_bytes || after <= self.budget_bytes).then_some(after)
        };
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used_bytes.fetch_update(success, failure, after).map(drop).map_err(|used_bytes| {
            EngineError::OutOfMemory {
                budget: self.name,
                budget_bytes: self.budget_bytes,
                needed_bytes: new_bytes - old_bytes,
                left_bytes: self.budget_bytes - used_bytes,
            }
        })
    }
}

/// The accounts that a fleet charges. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    device: Arc<Account>,
    fleet: Arc<Account>,
}

impl Accounts {
    /// The accounts of a new fleet with a budget of `budget_bytes` out of the device's account.
    pub(crate) fn new(device: Arc<Account>, budget_bytes: u64) -> Self {
        Self { device, fleet: Arc::new(Account::of_fleet(budget_bytes)) }
    }

    /// Bytes that the fleet uses.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.fleet.used_bytes()
    }

    /// Replaces `old_bytes` by `new_bytes`, in both accounts or in neither.
    pub(crate) fn exchange(&self, old_bytes: u64, new_bytes: u64) -> Result<(), EngineError> {
        self.device.exchange(old_bytes, new_bytes)?;
        self.fleet.exchange(old_bytes, new_bytes).inspect_err(|_| {
            // A decrease is always granted.
            let _ = self.device.exchange(new_bytes, old_bytes);
        })
    }

    /// Returns `bytes` to both accounts.
    pub(crate) fn give_back(&self, bytes: u64) {
        // The request takes nothing, so it cannot fail.
        let _ = self.exchange(bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    fn left(result: Result<(), EngineError>) -> Option<(&'static str, u64, u64)> {
        match result {
            Err(EngineError::OutOfMemory { budget, needed_bytes, left_bytes, .. }) => {
                Some((budget, needed_bytes, left_bytes))
            }
            other => {
                other.unwrap();
                None
            }
        }
    }

    #[test]
    fn a_budget_ends_at_its_last_byte_and_is_named() {
        let device = Arc::new(Account::of_device(100));
        let (small, large) = (Accounts::new(device.clone(), 30), Accounts::new(device, 100));
        assert_eq!(left(small.exchange(0, 30)), None);
        let of_fleet = ("the fleet's memory on the device", 1, 0);
        assert_eq!(left(small.exchange(0, 1)), Some(of_fleet));
        // Bytes refused to one fleet are available to the other.
        assert_eq!(left(large.exchange(0, 70)), None);
        let of_device = ("the device's memory for all fleets", 1, 0);
        assert_eq!(left(large.exchange(0, 1)), Some(of_device));
        small.give_back(30);
        assert_eq!(
            left(large.exchange(70, 101)),
            Some(("the device's memory for all fleets", 31, 30))
        );
        assert_eq!((small.used_bytes(), large.used_bytes()), (0, 70));
        assert_eq!(left(large.exchange(70, 100)), None);
        assert_eq!(left(small.exchange(0, 1)), Some(of_device));
    }

    #[test]
    fn growing_needs_but_the_difference() {
        let fleet = Accounts::new(Arc::new(Account::of_device(1_000)), 100);
        fleet.exchange(0, 90).unwrap();
        assert_eq!(left(fleet.exchange(90, 100)), None);
        assert_eq!(
            left(fleet.exchange(100, 101)),
            Some(("the fleet's memory on the device", 1, 0))
        );
        assert_eq!(left(fleet.exchange(100, 10)), None);
        assert_eq!(fleet.used_bytes(), 10);
        assert_eq!(left(fleet.exchange(0, u64::MAX)).map(|(_, needed, _)| needed), Some(u64::MAX));
    }

    #[test]
    fn errors_say_which_budget_and_what_is_left_of_it() {
        let fleet = Accounts::new(Arc::new(Account::of_device(1_000)), 100);
        fleet.exchange(0, 60).unwrap();
        let error = fleet.exchange(0, 50).unwrap_err().to_string();
        for part in ["the fleet's memory on the device", "50 bytes", "40 of 100"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let device = Arc::new(Account::of_device(10_000));
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let device = device.clone();
                scope.spawn(move || {
                    let (fleet, mut random) =
                        (Accounts::new(device.clone(), 6_000), Random::new(seed));
                    let mut held = 0;
                    for _ in 0..50_000 {
                        let wanted = random.below(7_000);
                        if fleet.exchange(held, wanted).is_ok() {
                            held = wanted;
                        }
                        assert!(fleet.used_bytes() == held && held <= 6_000);
                        assert!(device.used_bytes() <= 10_000);
                    }
                    fleet.give_back(held);
                });
            }
        });
        assert_eq!(device.used_bytes(), 0);
    }
}
