//! Finds the clients whose requests are little beside those of others: such a client waits least.
//!
//! Fair shares alone do not help a client that asks for less than its share: it would wait for the
//! cycle in progress and for its own, both as long as the others' work makes them. While it waits
//! beside more than a short cycle takes, its jobs have a cycle of their own (at most every second
//! one), and cycles take fewer rows for a while (`cycle_pace.rs`). A client is found when it is next
//! in the queue of changes or queries, which those with little work are.

use std::collections::HashMap;
use tokio::time::{Duration, Instant};

use crate::limits::{LIGHT_CLIENT_SHARE, LIGHT_CYCLE_ROWS_MIN};
use crate::shares::Party;

/// Recent work is halved after this time.
const HALF_LIFE: Duration = Duration::from_millis(500);
/// Parties with less recent work are forgotten.
const WORK_MIN: u64 = 4;
/// Maximum number of parties; while there are more, recent work is halved.
const PARTIES_MAX: usize = 1 << 14;
/// Work of queries that costs as much as a row: tests of a position against a rectangle.
const TESTS_PER_ROW: u64 = 16;

/// Work in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowWork(u64);

impl RowWork {
    pub(super) fn of_rows(rows: u64) -> Self {
        Self(rows)
    }

    /// The same for work of queries.
    pub(super) fn of_tests(tests: u64) -> Self {
        Self(tests.div_ceil(TESTS_PER_ROW))
    }
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct LightClients {
    /// Recent work of each party.
    recent: HashMap<Party, u64>,
    /// Its sum, and that of its squares.
    sum: u64,
    squares: u128,
    halved: Instant,
    /// Known work that waits.
    waiting: u64,
}

impl LightClients {
    pub(super) fn new(now: Instant) -> Self {
        Self { recent: HashMap::new(), sum: 0, squares: 0, halved: now, waiting: 0 }
    }

    /// Work begins to wait.
    pub(super) fn wait(&mut self, work: RowWork) {
        self.waiting += work.0;
    }

    /// Work of a party no longer waits: a cycle takes it.
    pub(super) fn take(&mut self, party: Party, work: RowWork) {
        self.waiting -= work.0;
        self.add(party, work);
    }

    /// Work of a party was done that was not known while it waited.
    pub(super) fn add(&mut self, party: Party, work: RowWork) {
        if work.0 == 0 {
            return;
        }
        let recent = self.recent.entry(party).or_default();
        self.squares -= square(*recent);
        *recent += work.0;
        self.squares += square(*recent);
        self.sum += work.0;
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
            self.squares = self.recent.values().map(|work| square(*work)).sum();
        }
    }

    /// Whether a party is light that has a job with this work: beside the job, more waits than a
    /// short cycle takes, and with it the party has little beside the mean. The mean is weighted by
    /// work, so that many other light parties do not lower it.
    pub(super) fn is_light(&self, party: Party, RowWork(work): RowWork) -> bool {
        let recent = self.recent.get(&party).copied().unwrap_or_default();
        let scaled = u128::from(recent + work) * u128::from(LIGHT_CLIENT_SHARE);
        self.waiting > LIGHT_CYCLE_ROWS_MIN as u64 + work
            && scaled * u128::from(self.sum) <= self.squares
    }
}

fn square(work: u64) -> u128 {
    u128::from(work) * u128::from(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Requester;

    fn party(port: u16) -> Party {
        Requester::at(port).party()
    }

    fn rows(rows: u64) -> RowWork {
        RowWork::of_rows(rows)
    }

    #[test]
    fn a_client_with_little_beside_much_is_light() {
        let mut clients = LightClients::new(Instant::now());
        for port in 1..=4 {
            clients.wait(rows(50_000));
            clients.take(party(port), rows(30_000));
        }
        let (most, small) = (30_000 / LIGHT_CLIENT_SHARE, party(9));
        assert!(clients.is_light(small, rows(most)) && !clients.is_light(small, rows(most + 1)));
        // Those that caused the work are not, also with a small job.
        assert!(!clients.is_light(party(1), rows(1)));
        // What a light client had lately counts.
        clients.add(small, rows(most - 1_000));
        assert!(clients.is_light(small, rows(900)) && !clients.is_light(small, rows(1_000)));
        // Other light clients change little, however many they are.
        (100..10_000).for_each(|port| clients.add(party(port), rows(1)));
        assert!(clients.is_light(party(10), rows(most / 2)));
        // While little waits, all clients wait as briefly.
        clients.take(party(1), rows(80_000 - LIGHT_CYCLE_ROWS_MIN as u64));
        assert!(!clients.is_light(party(10), rows(1)));
    }

    #[test]
    fn a_job_does_not_wait_beside_itself() {
        let mut clients = LightClients::new(Instant::now());
        clients.add(party(1), rows(1_000_000));
        let job = LIGHT_CYCLE_ROWS_MIN as u64 + 1;
        clients.wait(rows(job));
        assert!(!clients.is_light(party(2), rows(job)));
        clients.wait(rows(job));
        assert!(clients.is_light(party(2), rows(job)));
    }

    #[test]
    fn queries_count_as_rows_of_the_same_cost() {
        let mut clients = LightClients::new(Instant::now());
        clients.wait(rows(50_000));
        clients.add(party(1), RowWork::of_tests(TESTS_PER_ROW * 100_000));
        // A flood of rows beside much work of queries.
        clients.add(party(2), rows(90_000));
        assert!(!clients.is_light(party(2), rows(10)));
        assert!(clients.is_light(party(3), RowWork::of_tests(64)));
    }

    #[test]
    fn clients_of_the_same_size_are_not_light() {
        let mut clients = LightClients::new(Instant::now());
        for port in 0..1_000 {
            clients.wait(rows(200));
            clients.take(party(port), rows(100));
        }
        assert!((0..1_000).all(|port| !clients.is_light(party(port), rows(100))));
    }

    #[test]
    fn work_is_forgotten_and_with_it_its_clients() {
        let now = Instant::now();
        let mut clients = LightClients::new(now);
        clients.add(party(1), rows(64 * WORK_MIN));
        clients.add(party(2), rows(0));
        clients.advance(now + HALF_LIFE * 6);
        assert_eq!((clients.sum, clients.recent.len()), (WORK_MIN, 1));
        assert_eq!(clients.squares, square(WORK_MIN));
        clients.advance(now + HALF_LIFE * 7);
        assert_eq!((clients.sum, clients.squares, clients.recent.len()), (0, 0, 0));
        // Also if very many come at once, or after a long pause.
        for port in 0..=u16::MAX {
            clients.add(party(port), rows(2 * WORK_MIN));
        }
        clients.add(party(7), rows(1_000 * WORK_MIN));
        clients.advance(now + HALF_LIFE * 7);
        assert!(clients.recent.len() <= PARTIES_MAX && clients.recent.contains_key(&party(7)));
        clients.advance(now + HALF_LIFE * 1_000_000_000);
        assert!(clients.recent.is_empty());
    }
}
