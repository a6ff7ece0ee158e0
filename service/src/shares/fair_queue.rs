//! A queue that serves tokens in turn, then the connections of a token, weighted by the work that
//! they cause.
//!
//! Weighted fair queueing with the virtual time of WF2Q+ (Bennett, Zhang: INFOCOM 1996), at both
//! levels. Each token or connection has a virtual time, which its work advances; the one whose next
//! job would end at the least time is served next. The current time advances by the work that is
//! done, divided by the number of those that have jobs, and is never before the least of their
//! times. One that was idle begins at the current time: it has no credit, and a small job waits
//! little longer than for the job that is being done, however many large ones came before. The jobs
//! of one connection stay in order.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use super::client::{Party, Requester};

/// Number of keys without jobs that are kept, in addition to the number of keys with jobs.
const IDLE_MAX: usize = 1 << 10;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct FairQueue<J> {
    parties: Turns<Party, Turns<Requester, Line<J>>>,
    jobs: usize,
}

/// The party of the job that is served next, and the part of its work that is known in advance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextJob {
    pub(crate) party: Party,
    pub(crate) work: u64,
}

/// The jobs of one connection, each with the part of its work that is known in advance.
type Line<J> = VecDeque<(u64, Requester, J)>;

/// A collection of jobs that decides their order.
trait Jobs: Default {
    type Job;

    fn front(&self) -> Option<&Self::Job>;
    /// The work of the first job that is known in advance.
    fn front_work(&self) -> Option<u64>;
    /// Removes the first job; returns its work, its client and the job.
    fn pop(&mut self) -> Option<(u64, Requester, Self::Job)>;
    fn push(&mut self, work: u64, client: Requester, job: Self::Job);
    fn push_front(&mut self, work: u64, client: Requester, job: Self::Job);
    /// See [`FairQueue::charge`].
    fn charge(&mut self, client: Requester, work: u64, beside: usize);
    /// Drops the jobs that are not wanted; returns how many.
    fn retain(&mut self, is_wanted: &mut impl FnMut(&Self::Job) -> bool) -> usize;
}

impl<J> Jobs for Line<J> {
    type Job = J;

    fn front(&self) -> Option<&J> {
        VecDeque::front(self).map(|(.., job)| job)
    }

    fn front_work(&self) -> Option<u64> {
        VecDeque::front(self).map(|(work, ..)| *work)
    }

    fn pop(&mut self) -> Option<(u64, Requester, J)> {
        self.pop_front()
    }

    fn push(&mut self, work: u64, client: Requester, job: J) {
        self.push_back((work, client, job));
    }

    fn push_front(&mut self, work: u64, client: Requester, job: J) {
        VecDeque::push_front(self, (work, client, job));
    }

    fn charge(&mut self, _client: Requester, _work: u64, _beside: usize) {}

    fn retain(&mut self, is_wanted: &mut impl FnMut(&J) -> bool) -> usize {
        let before = self.len();
        VecDeque::retain(self, |(.., job)| is_wanted(job));
        before - self.len()
    }
}

/// The key by which clients are distinguished: the party or the connection.
trait Key: Copy + Ord + Hash {
    fn of(client: Requester) -> Self;
}

impl Key for Requester {
    fn of(client: Requester) -> Self {
        client
    }
}

impl Key for Party {
    fn of(client: Requester) -> Self {
        client.party()
    }
}

/// Jobs that are served in turn by a key.
#[derive(Debug)]
struct Turns<K, Q> {
    waiting: HashMap<K, Waiting<Q>>,
    /// Keys with jobs: virtual time at the end of the first job, order of arrival, key.
    order: BTreeSet<(u64, u64, K)>,
    /// Virtual times of the keys with jobs.
    times: BTreeSet<(u64, K)>,
    /// The current virtual time.
    now: u64,
    /// Work that was done but has not advanced the current time yet.
    done: u64,
    arrivals: u64,
}

/// The jobs of a key.
#[derive(Debug)]
struct Waiting<Q> {
    jobs: Q,
    time: u64,
    arrival: u64,
}

/// Places of a key with jobs.
#[derive(Clone, Copy, PartialEq)]
struct Places<K> {
    in_order: (u64, u64, K),
    in_times: (u64, K),
}

impl<Q: Jobs> Waiting<Q> {
    /// The places of its key in [`Turns::order`] and [`Turns::times`], if it has jobs.
    fn places<K: Copy>(&self, key: K) -> Option<Places<K>> {
        let end = self.time.saturating_add(self.jobs.front_work()?);
        Some(Places { in_order: (end, self.arrival, key), in_times: (self.time, key) })
    }
}

impl<K, Q> Default for Turns<K, Q> {
    fn default() -> Self {
        let (order, times) = (BTreeSet::new(), BTreeSet::new());
        Self { waiting: HashMap::new(), order, times, now: 0, done: 0, arrivals: 0 }
    }
}

impl<K: Key, Q: Jobs> Turns<K, Q> {
    /// Changes the jobs and times of a key, and its place in the order.
    fn update(&mut self, key: K, change: impl FnOnce(&mut Waiting<Q>)) {
        let now = self.now;
        let idle = || Waiting { jobs: Q::default(), time: now, arrival: 0 };
        let waiting = self.waiting.entry(key).or_insert_with(idle);
        let before = waiting.places(key);
        change(waiting);
        let after = waiting.places(key);
        if before == after {
            return;
        }
        if let Some(Places { in_order, in_times }) = before {
            self.order.remove(&in_order);
            self.times.remove(&in_times);
        }
        if let Some(after) = after {
            self.enter(after);
        }
    }

    fn enter(&mut self, Places { in_order, in_times }: Places<K>) {
        self.order.insert(in_order);
        self.times.insert(in_times);
    }

    /// Advances the current time by work that `keys` keys shared.
    fn advance(&mut self, work: u64, keys: usize) {
        let keys = keys as u64;
        self.done = self.done.saturating_add(work);
        self.now = self.now.saturating_add(self.done / keys);
        self.done %= keys;
        if let Some((least, _)) = self.times.first() {
            self.now = self.now.max(*least);
        }
    }

    fn add(&mut self, client: Requester, add: impl FnOnce(&mut Q)) {
        self.forget_idle();
        self.arrivals += 1;
        let (now, arrival) = (self.now, self.arrivals);
        self.update(K::of(client), |waiting| {
            if waiting.jobs.front().is_none() {
                (waiting.time, waiting.arrival) = (waiting.time.max(now), arrival);
            }
            add(&mut waiting.jobs);
        });
    }

    /// The virtual time of the key that is served next.
    fn next_time(&self) -> Option<u64> {
        let (.., key) = self.order.first()?;
        self.waiting.get(key).map(|waiting| waiting.time)
    }

    /// If there are many keys without jobs, forgets at least the half with the least virtual time.
    /// Advances the current time to at least the virtual time of every forgotten key, so that no
    /// key gains by being forgotten.
    fn forget_idle(&mut self) {
        if self.waiting.len() <= 2 * self.order.len() + IDLE_MAX {
            return;
        }
        let idle = self.waiting.values().filter(|waiting| waiting.jobs.front().is_none());
        let mut times: Vec<u64> = idle.map(|waiting| waiting.time).collect();
        let middle = times.len() / 2;
        let now = self.now.max(*times.select_nth_unstable(middle).1);
        self.now = now;
        self.waiting.retain(|_, waiting| waiting.jobs.front().is_some() || waiting.time > now);
    }
}

impl<K: Key, Q: Jobs> Jobs for Turns<K, Q> {
    type Job = Q::Job;

    fn front(&self) -> Option<&Q::Job> {
        let (.., key) = self.order.first()?;
        self.waiting.get(key)?.jobs.front()
    }

    fn front_work(&self) -> Option<u64> {
        let (.., key) = self.order.first()?;
        self.waiting.get(key)?.jobs.front_work()
    }

    fn pop(&mut self) -> Option<(u64, Requester, Q::Job)> {
        let (end, _, key) = *self.order.first()?;
        let keys = self.order.len();
        self.arrivals += 1;
        let arrival = self.arrivals;
        let mut popped = None;
        self.update(key, |waiting| {
            popped = waiting.jobs.pop();
            (waiting.time, waiting.arrival) = (end, arrival);
        });
        let (work, ..) = popped.as_ref()?;
        self.advance(*work, keys);
        popped
    }

    fn push(&mut self, work: u64, client: Requester, job: Q::Job) {
        self.add(client, |jobs| jobs.push(work, client, job));
    }

    fn push_front(&mut self, work: u64, client: Requester, job: Q::Job) {
        self.add(client, |jobs| jobs.push_front(work, client, job));
    }

    fn charge(&mut self, client: Requester, work: u64, beside: usize) {
        let mut has_jobs = false;
        self.update(K::of(client), |waiting| {
            has_jobs = waiting.jobs.front().is_some();
            waiting.jobs.charge(client, work, beside);
            waiting.time = waiting.time.saturating_add(work);
        });
        self.advance(work, self.order.len() + usize::from(!has_jobs) + beside);
    }

    fn retain(&mut self, is_wanted: &mut impl FnMut(&Q::Job) -> bool) -> usize {
        let mut dropped = 0;
        self.order.clear();
        self.times.clear();
        let mut places = Vec::with_capacity(self.waiting.len());
        for (key, waiting) in &mut self.waiting {
            dropped += waiting.jobs.retain(is_wanted);
            places.extend(waiting.places(*key));
        }
        places.into_iter().for_each(|places| self.enter(places));
        dropped
    }
}

impl<J> Default for FairQueue<J> {
    fn default() -> Self {
        Self { parties: Turns::default(), jobs: 0 }
    }
}

impl<J> FairQueue<J> {
    /// True if there are no jobs.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Adds a job after the other jobs of its client.
    pub(crate) fn push(&mut self, client: Requester, work: u64, job: J) {
        self.parties.push(work, client, job);
        self.jobs += 1;
    }

    /// Adds a job before the other jobs of its client.
    pub(crate) fn push_front(&mut self, client: Requester, work: u64, job: J) {
        self.parties.push_front(work, client, job);
        self.jobs += 1;
    }

    /// The virtual time of the party that is served next.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.parties.next_time()
    }

    /// The job that is served next.
    pub(crate) fn next(&self) -> Option<NextJob> {
        let (.., party) = self.parties.order.first()?;
        Some(NextJob { party: *party, work: self.parties.front_work()? })
    }

    /// Takes the next job if it is suitable; otherwise leaves it in the queue.
    pub(crate) fn pop_if(
        &mut self,
        is_suitable: impl FnOnce(&J) -> bool,
    ) -> Option<(Requester, J)> {
        if !self.parties.front().is_some_and(is_suitable) {
            return None;
        }
        let (_, client, job) = self.parties.pop()?;
        self.jobs -= 1;
        Some((client, job))
    }

    /// Takes the next job.
    pub(crate) fn pop(&mut self) -> Option<(Requester, J)> {
        self.pop_if(|_| true)
    }

    /// Adds work of a client that became known only after the job was taken, and was done beside
    /// this number of other jobs that were taken. Jobs that came meanwhile are added before: the
    /// work of a client that was alone delays none of its later jobs.
    pub(crate) fn charge(&mut self, client: Requester, work: u64, beside: usize) {
        self.parties.charge(client, work, beside);
    }

    /// Drops the jobs that are not wanted any more.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&J) -> bool) {
        self.jobs -= self.parties.retain(&mut is_wanted);
    }
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;

    /// Clients and jobs in the order of service.
    fn served(queue: &mut FairQueue<u32>) -> Vec<(Requester, u32)> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn clients_are_served_in_turn_by_their_work() {
        let mut queue = FairQueue::default();
        let (heavy, light) = (Requester::at(1), Requester::at(2));
        (0..4).for_each(|job| queue.push(heavy, 100, job));
        (10..14).for_each(|job| queue.push(light, 40, job));
        let order: Vec<u32> = served(&mut queue).into_iter().map(|(_, job)| job).collect();
        // Their ends: 40, 80, 100, 120, 160, 200.
        assert_eq!(order, [10, 11, 0, 12, 13, 1, 2, 3]);
        assert!(queue.is_empty() && queue.next_time().is_none());
    }

    #[test]
    fn small_jobs_pass_large_ones_but_not_for_ever() {
        let mut queue = FairQueue::<u32>::default();
        for port in 0..10 {
            queue.push(Requester::at(port), 1_000, port.into());
        }
        // Also after large jobs were done that waited together with others.
        for small in 20..23 {
            queue.push(Requester::at(small), 5, small.into());
            assert_eq!(queue.pop(), Some((Requester::at(small), small.into())));
            assert!(queue.pop().is_some_and(|(_, job)| job < 10));
        }
        // Clients that come one after another with small jobs: together they have the share of one.
        let mut is_small = |port: u16| {
            queue.push(Requester::at(port), 100, port.into());
            queue.pop().is_some_and(|(_, job)| job == u32::from(port))
        };
        let small = (100..500).take_while(|port| is_small(*port)).count();
        assert!((40..56).contains(&small), "{small}: seven jobs of 1,000 wait");
    }

    #[test]
    fn clients_that_always_have_jobs_get_the_same_work() {
        for (seed, are_known) in (31..).zip([Some(true), Some(false), None]) {
            share_work(&mut Random::new(seed), are_known);
        }
    }

    /// Serves clients whose jobs differ in size. Their work is known in advance, is charged, or
    /// both.
    fn share_work(random: &mut Random, is_known: Option<bool>) {
        let (clients, most) = (7_u16, 1_000_u64);
        let (mut queue, mut done) = (FairQueue::default(), vec![0_u64; usize::from(clients)]);
        // A job is its work and the part that is known. One waits while another is done.
        for client in 0..clients {
            (0..2).for_each(|_| queue.push(Requester::at(client), 1, (1, 1)));
        }
        for _ in 0..10_000 {
            let (client, (work, known)) = queue.pop().unwrap();
            let number = (0..clients).find(|number| Requester::at(*number) == client).unwrap();
            queue.charge(client, work - known, 0);
            done[usize::from(number)] += work;
            // Clients differ in the size of their jobs.
            let work = 1 + random.below(most >> number);
            let known = match is_known {
                Some(true) => work,
                Some(false) => 0,
                None => random.below(work + 1),
            };
            queue.push(client, known, (work, known));
            let (least, greatest) = (done.iter().min().unwrap(), done.iter().max().unwrap());
            assert!(greatest - least <= 3 * most, "{is_known:?}: {done:?}");
        }
        assert!(done.iter().all(|done| *done > 10 * most), "{done:?}");
    }

    #[test]
    fn a_client_that_returns_begins_at_the_present() {
        let mut queue = FairQueue::default();
        let (busy, other) = (Requester::at(1), Requester::at(2));
        queue.push(busy, 1_000, 0);
        queue.push(busy, 1_000, 1);
        assert_eq!(queue.pop(), Some((busy, 0)));
        assert_eq!(queue.next_time(), Some(1_000));
        // A returning client neither waits because the busy one was served nor has a credit.
        queue.push(other, 10, 2);
        queue.charge(other, 5, 0);
        queue.push(other, 10, 3);
        assert_eq!(queue.pop(), Some((other, 2)));
        assert_eq!(queue.next_time(), Some(1_015));
        queue.charge(other, 2_000, 0);
        assert_eq!(queue.pop(), Some((busy, 1)));
        assert_eq!(queue.pop_if(|job| *job != 3), None);
        queue.push_front(other, 10, 4);
        assert_eq!(served(&mut queue), [(other, 4), (other, 3)]);
    }

    #[test]
    fn clients_that_left_are_forgotten() {
        let mut queue = FairQueue::default();
        for port in 0..5_000 {
            queue.push(Requester::at(port), 1, port.into());
            queue.pop();
        }
        queue.push(Requester::at(1), 1, 1);
        queue.push(Requester::at(2), 1, 2);
        queue.retain(|job| *job == 2);
        assert_eq!(served(&mut queue), [(Requester::at(2), 2)]);
        let known = queue.parties.waiting.len();
        assert!(known <= IDLE_MAX + 2, "{known}");
    }

    #[test]
    fn tokens_are_served_in_turn_then_their_connections() {
        let mut queue = FairQueue::default();
        // A token with three connections, one with a single one.
        for (port, job) in [(1, 0), (1, 1), (2, 10), (2, 11), (3, 20)] {
            queue.push(Requester::of_token(7, port), 100, job);
        }
        for job in 30..33 {
            queue.push(Requester::of_token(8, 4), 100, job);
        }
        let order: Vec<u32> = served(&mut queue).into_iter().map(|(_, job)| job).collect();
        assert_eq!(order, [0, 30, 10, 31, 20, 32, 1, 11]);
        // The work of a connection is charged to its token, and to the connection itself.
        queue.push(Requester::of_token(7, 1), 1, 1);
        queue.push(Requester::of_token(7, 2), 1, 2);
        queue.push(Requester::of_token(8, 4), 1, 3);
        queue.charge(Requester::of_token(7, 1), 1_000, 0);
        let order: Vec<u32> = served(&mut queue).into_iter().map(|(_, job)| job).collect();
        assert_eq!(order, [3, 2, 1]);
    }
}
