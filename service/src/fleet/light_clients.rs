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
use crate::shares::{NextJob, Party};

/// Recent work is halved after this time.
const HALF_LIFE: Duration = Duration::from_millis(500);
/// Parties with less recent work are forgotten.
const WORK_MIN: u64 = 4;
/// Maximum number of parties; while there are more, recent work is halved.
const PARTIES_MAX: usize = 1 << 14;
/// Work of queries in the engine that costs about as much as a row: tests of a position against a
/// rectangle.
const TESTS_PER_ROW: u64 = 16;

/// See the file's head. Work is counted in rows; what is known of queries before the engine runs
/// them, mostly their number, counts like rows.
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

    /// Known work begins to wait.
    pub(super) fn wait(&mut self, work: u64) {
        self.waiting += work;
    }

    /// Known work of a party no longer waits: a cycle takes it.
    pub(super) fn take(&mut self, party: Party, work: u64) {
        self.waiting -= work;
        self.add(party, work);
    }

    /// The engine did this work for queries of a party.
    pub(super) fn charge(&mut self, party: Party, tests: u64) {
        self.add(party, tests / TESTS_PER_ROW);
    }

    fn add(&mut self, party: Party, work: u64) {
        if work == 0 {
            return;
        }
        let recent = self.recent.entry(party).or_default();
        self.squares -= square(*recent);
        *recent += work;
        self.squares += square(*recent);
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
            self.squares = self.recent.values().map(|work| square(*work)).sum();
        }
    }

    /// Whether the party of a job is light: more waits beside the job than a short cycle takes, and
    /// with the job the party has little beside the mean. The mean is weighted by work, so that many
    /// other light parties do not lower it.
    pub(super) fn is_light(&self, NextJob { party, work }: NextJob) -> bool {
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

    fn is_light(clients: &LightClients, port: u16, work: u64) -> bool {
        clients.is_light(NextJob { party: party(port), work })
    }

    #[test]
    fn a_client_with_little_beside_much_is_light() {
        let mut clients = LightClients::new(Instant::now());
        for port in 1..=4 {
            clients.wait(50_000);
            clients.take(party(port), 30_000);
        }
        let (most, small) = (30_000 / LIGHT_CLIENT_SHARE, 9);
        assert!(is_light(&clients, small, most) && !is_light(&clients, small, most + 1));
        // Those that caused the work are not, also with a small job.
        assert!(!is_light(&clients, 1, 1));
        // What a light client had lately counts.
        clients.add(party(small), most - 1_000);
        assert!(is_light(&clients, small, 900) && !is_light(&clients, small, 1_000));
        // Other light clients change little, however many they are.
        (100..10_000).for_each(|port| clients.add(party(port), 1));
        assert!(is_light(&clients, 10, most / 2));
        // While little waits, all clients wait as briefly.
        clients.take(party(1), 80_000 - LIGHT_CYCLE_ROWS_MIN as u64);
        assert!(!is_light(&clients, 10, 1));
    }

    #[test]
    fn a_job_does_not_wait_beside_itself() {
        let mut clients = LightClients::new(Instant::now());
        clients.add(party(1), 1_000_000);
        let job = LIGHT_CYCLE_ROWS_MIN as u64 + 1;
        clients.wait(job);
        assert!(!is_light(&clients, 2, job));
        clients.wait(job);
        assert!(is_light(&clients, 2, job));
    }

    #[test]
    fn work_of_queries_counts_as_rows_of_the_same_cost() {
        let mut clients = LightClients::new(Instant::now());
        clients.wait(50_000);
        clients.charge(party(1), TESTS_PER_ROW * 100_000);
        // A flood of rows beside much work of queries.
        clients.add(party(2), 90_000);
        assert!(!is_light(&clients, 2, 10));
        assert!(is_light(&clients, 3, 64));
    }

    #[test]
    fn clients_of_the_same_size_are_not_light() {
        let mut clients = LightClients::new(Instant::now());
        for port in 0..1_000 {
            clients.wait(200);
            clients.take(party(port), 100);
        }
        assert!((0..1_000).all(|port| !is_light(&clients, port, 100)));
    }

    #[test]
    fn work_is_forgotten_and_with_it_its_clients() {
        let now = Instant::now();
        let mut clients = LightClients::new(now);
        clients.add(party(1), 64 * WORK_MIN);
        clients.add(party(2), 0);
        clients.advance(now + HALF_LIFE * 6);
        assert_eq!((clients.sum, clients.recent.len()), (WORK_MIN, 1));
        assert_eq!(clients.squares, square(WORK_MIN));
        clients.advance(now + HALF_LIFE * 7);
        assert_eq!((clients.sum, clients.squares, clients.recent.len()), (0, 0, 0));
        // Also if very many come at once, or after a long pause.
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
