//! Finds the clients whose requests are little beside those of others: such a client waits least.
//!
//! Fair shares alone do not help a client that asks for less than its share: it would wait for the
//! cycle in progress and for its own, both as long as the others' work makes them. While it waits
//! beside others with more than a short cycle takes, its jobs have a cycle of their own (at most
//! every second one), and all cycles are short for a while (`cycle_pace.rs`).

use std::collections::HashMap;
use tokio::time::{Duration, Instant};

use crate::limits::{LIGHT_CLIENT_SHARE, LIGHT_CYCLE_ROWS_MIN};
use crate::shares::Party;

/// Recent work is halved after this time.
const HALF_LIFE: Duration = Duration::from_millis(500);
/// Parties with less recent work are forgotten.
const WORK_MIN: u64 = 16;
/// Maximum number of parties; beyond it, half of them are forgotten.
const PARTIES_MAX: usize = 1 << 14;

/// See the file's head. Work is counted in rows, as in the queues of the planner.
#[derive(Debug)]
pub(super) struct LightClients {
    /// Recent work of each party.
    recent: HashMap<Party, u64>,
    /// Its sum.
    sum: u64,
    halved: Instant,
    /// Known work that waits.
    waiting: u64,
}

impl LightClients {
    pub(super) fn new(now: Instant) -> Self {
        Self { recent: HashMap::new(), sum: 0, halved: now, waiting: 0 }
    }

    /// Work waits.
    pub(super) fn wait(&mut self, work: u64) {
        self.waiting += work;
    }

    /// Work that waited is done for a party.
    pub(super) fn take(&mut self, party: Party, work: u64) {
        self.waiting = self.waiting.saturating_sub(work);
        self.add(party, work);
    }

    /// Work that did not wait is done for a party.
    pub(super) fn add(&mut self, party: Party, work: u64) {
        *self.recent.entry(party).or_default() += work;
        self.sum += work;
    }

    /// Forgets what is not recent.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.recent.len() > PARTIES_MAX || now - self.halved >= HALF_LIFE {
            // After a long pause nothing is left to halve.
            self.halved = if self.recent.is_empty() { now } else { self.halved + HALF_LIFE };
            self.recent.retain(|_, work| {
                *work /= 2;
                *work >= WORK_MIN
            });
            self.sum = self.recent.values().sum();
        }
    }

    /// Whether a party with this work is light: beside it, more than a short cycle takes waits.
    pub(super) fn is_light(&self, party: Party, work: u64) -> bool {
        let parties = self.recent.len().max(1) as u64;
        let recent = self.recent.get(&party).copied().unwrap_or_default();
        self.waiting > LIGHT_CYCLE_ROWS_MIN as u64
            && (recent + work) * LIGHT_CLIENT_SHARE * parties <= self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Requester;

    fn party(port: u16) -> Party {
        Requester::at(port).party()
    }

    #[test]
    fn a_client_with_little_beside_much_is_light() {
        let mut clients = LightClients::new(Instant::now());
        for port in 1..=4 {
            clients.wait(50_000);
            clients.take(party(port), 30_000);
        }
        let (most, small) = (30_000 / LIGHT_CLIENT_SHARE, party(9));
        assert!(clients.is_light(small, most) && !clients.is_light(small, most + 1));
        // Those that caused the work are not, also with a small job.
        assert!(!clients.is_light(party(1), 1));
        // What a light client had lately counts, and it is one of the clients.
        clients.add(small, 1_000);
        let mean = 121_000 / 5;
        assert!(clients.is_light(small, mean / LIGHT_CLIENT_SHARE - 1_000));
        assert!(!clients.is_light(small, mean / LIGHT_CLIENT_SHARE - 999));
        // While little waits, all clients wait as briefly.
        clients.take(party(1), 80_000 - LIGHT_CYCLE_ROWS_MIN as u64);
        assert!(!clients.is_light(small, 1));
    }

    #[test]
    fn clients_of_the_same_size_are_not_light() {
        let mut clients = LightClients::new(Instant::now());
        for port in 0..1_000 {
            clients.wait(200);
            clients.take(party(port), 100);
        }
        assert!((0..1_000).all(|port| !clients.is_light(party(port), 100)));
    }

    #[test]
    fn work_is_forgotten_and_with_it_its_clients() {
        let now = Instant::now();
        let mut clients = LightClients::new(now);
        clients.add(party(1), 64 * WORK_MIN);
        clients.advance(now + HALF_LIFE * 6);
        assert_eq!((clients.sum, clients.recent.len()), (WORK_MIN, 1));
        clients.advance(now + HALF_LIFE * 7);
        assert_eq!((clients.sum, clients.recent.len()), (0, 0));
        // Also if all come at once, or after a long pause.
        for port in 0..=u16::MAX {
            clients.add(party(port), 2 * WORK_MIN);
        }
        clients.add(party(7), 1_000 * WORK_MIN);
        clients.advance(now + HALF_LIFE * 7);
        assert!(clients.recent.len() <= PARTIES_MAX && clients.recent.contains_key(&party(7)));
        clients.advance(now + HALF_LIFE * 1_000_000_000);
        assert!(clients.recent.is_empty());
    }
}
