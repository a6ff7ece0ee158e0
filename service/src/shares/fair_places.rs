//! A number of places that many clients share: limits how many each may hold, and orders those that
//! wait.
//!
//! A party is a token with all its connections, or a connection without a token. It gets places if
//! afterwards at least as many are free as it holds (dynamic thresholds: Choudhury, Hahne: IEEE/ACM
//! Transactions on Networking 6(2), 1998). So one party can fill half, two parties a third each,
//! and a new party always finds room. A party that holds none also gets places if an eighth stays
//! free. Among waiting parties the one that holds the fewest is granted first; parties that hold
//! equally many take turns. The same order applies to the connections of a token. While a party
//! that holds none waits, no party that holds some gets more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::client::{Party, Requester};
use super::waiting_line::{Holder, Waiters as _, WaitingLine};

/// Number of waiting parties that are examined when places become free, beginning with those that
/// hold the fewest.
const PARTIES_LOOKED_AT: usize = 64;

/// A number of places.
#[derive(Clone, Debug)]
pub(crate) struct FairPlaces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    places: usize,
    /// True if every request counts in full and waits until enough places are free.
    is_exact: bool,
    free: usize,
    is_closed: bool,
    /// Parties that hold places or wait.
    parties: WaitingLine<Party, WaitingLine<Requester, VecDeque<Waiter>>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    places: usize,
    grant: oneshot::Sender<PlacesPermit>,
}

/// Places that are held until this is dropped.
#[derive(Debug)]
pub struct PlacesPermit {
    shared: Arc<Shared>,
    client: Requester,
    places: usize,
}

/// Why there are no places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlaces {
    /// Not enough places are free for this client now.
    Full,
    /// The places are closed: every later request fails too.
    Closed,
}

impl FairPlaces {
    /// Creates places for which a request counts as at most three eighths of them, so that large
    /// requests are granted while others hold some. The total of granted requests may therefore
    /// exceed `places`.
    pub(crate) fn new(places: usize) -> Self {
        Self::with(places, false)
    }

    /// Creates places that are never exceeded. A request for more than seven eighths of them waits
    /// until no places are held; one for more than `places` is never granted.
    pub(crate) fn exact(places: usize) -> Self {
        Self::with(places, true)
    }

    fn with(places: usize, is_exact: bool) -> Self {
        let state = State {
            places,
            is_exact,
            free: places,
            is_closed: false,
            parties: WaitingLine::default(),
            arrivals: 0,
        };
        Self(Arc::new(Shared { state: Mutex::new(state) }))
    }

    /// Places that are held.
    pub(crate) fn held(&self) -> usize {
        let state = self.0.lock();
        state.places - state.free
    }

    /// Whether this client's party holds places.
    pub(crate) fn holds(&self, client: Requester) -> bool {
        let state = self.0.lock();
        state.parties.holders.get(&client.party()).is_some_and(|it| it.held > 0)
    }

    /// Whether no other request has to be granted before one of this client.
    pub(crate) fn is_first(&self, client: Requester, places: usize) -> bool {
        let state = self.0.lock();
        state.is_first(client, state.counted(places))
    }

    /// Reserves places without waiting; fails if this client may not have them now.
    pub(crate) fn try_reserve(
        &self,
        client: Requester,
        places: usize,
    ) -> Result<PlacesPermit, NoPlaces> {
        let mut state = self.0.lock();
        let places = state.counted(places);
        if state.is_closed {
            return Err(NoPlaces::Closed);
        }
        if !state.may_take(client, places) {
            return Err(NoPlaces::Full);
        }
        state.take(client, places);
        Ok(PlacesPermit { shared: self.0.clone(), client, places })
    }

    /// Waits until this client gets the places; fails with [`NoPlaces::Closed`].
    pub(crate) async fn reserve(
        &self,
        client: Requester,
        places: usize,
    ) -> Result<PlacesPermit, NoPlaces> {
        match self.try_reserve(client, places) {
            Err(NoPlaces::Full) => self.wait(client, places).await,
            done => done,
        }
    }

    /// Like [`Self::reserve`]; the client waits only if it gets as many places of `room`, which
    /// limits what waits.
    pub(crate) async fn reserve_within(
        &self,
        room: &Self,
        client: Requester,
        places: usize,
    ) -> Result<PlacesPermit, NoPlaces> {
        match self.try_reserve(client, places) {
            Err(NoPlaces::Full) => {
                let _waits = room.try_reserve(client, places)?;
                self.wait(client, places).await
            }
            done => done,
        }
    }

    async fn wait(&self, client: Requester, places: usize) -> Result<PlacesPermit, NoPlaces> {
        let (grant, granted) = oneshot::channel();
        let number = self.0.lock().wait(client, places, grant);
        // Places may have become free before the request was queued.
        self.0.grant();
        let mut place = Wait { shared: &self.0, client, number, granted };
        (&mut place.granted).await.map_err(|_| NoPlaces::Closed)
    }

    /// Fails all waiting and all later requests.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.parties.waiting.clear();
        let mut refused = Vec::new();
        for party in state.parties.holders.values_mut() {
            party.waiters.waiting.clear();
            refused.extend(
                party.waiters.holders.values_mut().map(|it| std::mem::take(&mut it.waiters)),
            );
        }
        drop(state);
        drop(refused);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes places back from a client.
    fn release(self: &Arc<Self>, client: Requester, places: usize) {
        let mut state = self.lock();
        state.free += places;
        state.update(client, |holder| holder.held -= places, |held| *held -= places);
        drop(state);
        self.grant();
    }

    /// Gives free places to those that wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let Some((client, waiter)) = state.next() else { return };
            state.take(client, waiter.places);
            drop(state);
            let permit = PlacesPermit { shared: self.clone(), client, places: waiter.places };
            // If the waiter has left, the dropped permit returns its places.
            let _ = waiter.grant.send(permit);
        }
    }
}

impl State {
    /// The number of places that a request for `places` counts as.
    fn counted(&self, places: usize) -> usize {
        if self.is_exact { places } else { places.min((self.places / 8 * 3).max(1)) }
    }

    fn may_take(&self, client: Requester, places: usize) -> bool {
        let held = self.parties.holders.get(&client.party()).map_or(0, |it| it.held);
        self.is_first(client, places) && self.fits(held, places)
    }

    /// Whether no request has to be granted before one of this client.
    fn is_first(&self, client: Requester, places: usize) -> bool {
        let party = self.parties.holders.get(&client.party());
        party.is_none_or(|it| it.waiters.has_none())
            // A waiting party that holds no places takes precedence over parties that hold some.
            && (places == 0
                || party.is_none_or(|it| it.held == 0)
                || self.parties.waiting.first().is_none_or(|(held, ..)| *held > 0))
    }

    fn fits(&self, held: usize, places: usize) -> bool {
        places == 0
            || self.free == self.places && places <= self.free
            || held + 2 * places <= self.free
            || held == 0 && places + self.places / 8 <= self.free
    }

    /// Changes the places and the waiting requests of a client, and the places of its party.
    fn update<T>(
        &mut self,
        client: Requester,
        change: impl FnOnce(&mut Holder<VecDeque<Waiter>>) -> T,
        change_held: impl FnOnce(&mut usize),
    ) -> T {
        self.parties.update(client.party(), &mut self.arrivals, |party, arrivals| {
            change_held(&mut party.held);
            party.waiters.update(client, arrivals, |holder, _| change(holder))
        })
    }

    fn take(&mut self, client: Requester, places: usize) {
        self.free -= places;
        self.update(client, |holder| holder.held += places, |held| *held += places);
    }

    fn wait(
        &mut self,
        client: Requester,
        places: usize,
        grant: oneshot::Sender<PlacesPermit>,
    ) -> u64 {
        self.arrivals += 1;
        let number = self.arrivals;
        let places = self.counted(places);
        // If the places are closed, `grant` is dropped here, which fails the caller's wait.
        if !self.is_closed {
            let waiter = Waiter { number, places, grant };
            self.update(client, |holder| holder.waiters.push_back(waiter), |_| {});
        }
        number
    }

    /// Removes and returns the waiting request that can be granted next, if any.
    fn next(&mut self) -> Option<(Requester, Waiter)> {
        let mut is_blocked = false;
        let mut found = None;
        for (held, _, party) in self.parties.waiting.iter().take(PARTIES_LOOKED_AT) {
            if *held > 0 && is_blocked {
                break;
            }
            let first = self.first_of(*party);
            if first.is_some_and(|(_, waiter)| self.fits(*held, waiter.places)) {
                found = first.map(|(client, _)| client);
                break;
            }
            is_blocked = true;
        }
        let client = found?;
        // The client's next request is then granted after waiting requests of clients that hold
        // equally many places.
        self.arrivals += 1;
        let arrival = self.arrivals;
        let waiter =
            self.parties.update(client.party(), &mut self.arrivals, |party, arrivals| {
                party.arrival = arrival;
                party.waiters.update(client, arrivals, |holder, _| {
                    holder.arrival = arrival;
                    holder.waiters.pop_front()
                })
            })?;
        Some((client, waiter))
    }

    /// The next request of a party, and its client.
    fn first_of(&self, party: Party) -> Option<(Requester, &Waiter)> {
        let line = &self.parties.holders.get(&party)?.waiters;
        let (.., client) = line.waiting.first()?;
        Some((*client, line.holders.get(client)?.waiters.front()?))
    }

    /// Withdraws a request that waits.
    fn withdraw(&mut self, client: Requester, number: u64) {
        let waits = self.parties.holders.get(&client.party());
        if waits.is_some_and(|party| party.waiters.holders.contains_key(&client)) {
            let left = |waiter: &Waiter| waiter.number != number;
            self.update(client, |it| it.waiters.retain(left), |_| {});
        }
    }
}

/// A request that waits; it is withdrawn when this is dropped.
struct Wait<'a> {
    shared: &'a Arc<Shared>,
    client: Requester,
    number: u64,
    granted: oneshot::Receiver<PlacesPermit>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.withdraw(self.client, self.number);
        drop(state);
        // The requests that follow it may be grantable now.
        self.shared.grant();
    }
}

impl PlacesPermit {
    /// The places that it holds.
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Keeps at most `places` places and returns the rest.
    pub(crate) fn shrink(&mut self, places: usize) {
        let surplus = self.places.saturating_sub(places);
        self.places -= surplus;
        self.shared.release(self.client, surplus);
    }
}

impl Drop for PlacesPermit {
    fn drop(&mut self) {
        self.shared.release(self.client, self.places);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use shoal_testkit::Random;

    use super::*;

    impl FairPlaces {
        async fn reserve_owned(
            self,
            client: Requester,
            places: usize,
        ) -> Result<PlacesPermit, NoPlaces> {
            self.reserve(client, places).await
        }
    }

    /// The permits that a client gets by requesting single places until none is granted.
    fn taken(places: &FairPlaces, client: Requester) -> Vec<PlacesPermit> {
        std::iter::from_fn(|| places.try_reserve(client, 1).ok()).collect()
    }

    #[test]
    fn clients_share_the_places_and_leave_some_free() {
        let places = FairPlaces::new(120);
        let first = taken(&places, Requester::at(1));
        assert_eq!(first.len(), 60);
        let second = taken(&places, Requester::at(2));
        assert_eq!(second.len(), 30);
        assert_eq!(places.try_reserve(Requester::at(3), 16).err(), Some(NoPlaces::Full));
        let third = places.try_reserve(Requester::at(3), 15).unwrap();
        drop(first);
        // The others may take more now: 75 are free.
        assert_eq!(taken(&places, Requester::at(2)).len(), 22);
        drop(second);
        drop(third);
        assert_eq!((places.held(), places.0.lock().parties.holders.len()), (0, 0));
    }

    #[test]
    fn who_holds_least_is_granted_first_and_in_order() {
        let places = FairPlaces::new(100);
        let (busy, new) = (Requester::at(1), Requester::at(2));
        let half = taken(&places, busy);
        let rest = taken(&places, Requester::at(3));
        let mut context = Context::from_waker(Waker::noop());
        let mut more = pin!(places.reserve(busy, 10));
        let mut large = pin!(places.reserve(new, 20));
        assert!(more.as_mut().poll(&mut context).is_pending());
        assert!(large.as_mut().poll(&mut context).is_pending());
        drop(rest);
        let Poll::Ready(Ok(large)) = large.as_mut().poll(&mut context) else { panic!("no places") };
        assert!(more.as_mut().poll(&mut context).is_pending());
        drop((half, large));
        assert!(more.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_large_request_is_not_overtaken_by_who_holds_more() {
        let places = FairPlaces::new(100);
        let (busy, large) = (Requester::at(1), Requester::at(2));
        let mut held = taken(&places, busy);
        let other = taken(&places, Requester::at(3));
        assert_eq!(held.len() + other.len(), 75);
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = pin!(places.reserve(large, 1_000));
        assert!(wait.as_mut().poll(&mut context).is_pending());
        drop(held.pop());
        assert_eq!(places.try_reserve(busy, 1).err(), Some(NoPlaces::Full));
        // A client that holds none and requests few places is not blocked.
        assert!(places.try_reserve(Requester::at(4), 1).is_ok());
        drop(other);
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_new_client_always_finds_a_place() {
        const PLACES: usize = 1 << 10;
        let places = FairPlaces::new(PLACES);
        let mut context = Context::from_waker(Waker::noop());
        let (mut waiting, mut held) = (Vec::new(), Vec::new());
        let mut random = Random::new(1);
        let mut below = |bound: u64| random.below(bound);
        for _ in 0..50_000 {
            // Messages of a 16th come from eight busy connections and from new ones.
            let clients = if below(9) == 0 { 1_000 } else { 8 };
            let client = Requester::at(below(clients) as u16);
            waiting.push(Box::pin(places.clone().reserve_owned(client, PLACES / 16)));
            waiting.retain_mut(|wait| match wait.as_mut().poll(&mut context) {
                Poll::Ready(permit) => {
                    held.push(permit.unwrap());
                    false
                }
                Poll::Pending => true,
            });
            if waiting.len() > 64 {
                drop(waiting.swap_remove(below(64) as usize));
            }
            if !held.is_empty() && below(3) > 0 {
                held.swap_remove(below(held.len() as u64) as usize);
            }
            assert!(places.try_reserve(Requester::at(5_000), 1).is_ok(), "{}", places.held());
        }
        drop((waiting, held));
        assert_eq!((places.held(), places.0.lock().parties.holders.len()), (0, 0));
    }

    #[test]
    fn clients_that_hold_as_much_take_turns() {
        let places = FairPlaces::new(1);
        let (many, one) = (Requester::at(1), Requester::at(2));
        let mut held = places.try_reserve(many, 1).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(places.reserve(many, 1));
        let mut second = pin!(places.reserve(many, 1));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        let mut other = pin!(places.reserve(one, 1));
        assert!(other.as_mut().poll(&mut context).is_pending());
        drop(held);
        let Poll::Ready(Ok(turn)) = first.as_mut().poll(&mut context) else { panic!("no place") };
        held = turn;
        drop(held);
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test]
    async fn what_waits_is_limited_by_room_of_its_own() {
        let (places, room) = (FairPlaces::new(80), FairPlaces::new(40));
        let (one, two, three) = (Requester::at(1), Requester::at(2), Requester::at(3));
        let held = [one, two].map(|client| places.try_reserve(client, 30).unwrap());
        let within = |client, count| {
            let (places, room) = (places.clone(), room.clone());
            async move { places.reserve_within(&room, client, count).await }
        };
        let waits = tokio::spawn(within(one, 14));
        tokio::task::yield_now().await;
        assert_eq!(room.held(), 14);
        // The party that waits has its share of the room; the other finds some.
        assert_eq!(within(one, 14).await.unwrap_err(), NoPlaces::Full);
        let other = tokio::spawn(within(two, 14));
        tokio::task::yield_now().await;
        assert_eq!(room.held(), 28);
        // What need not wait needs no room.
        assert!(within(three, 5).await.is_ok());
        drop(held);
        assert!(waits.await.unwrap().is_ok() && other.await.unwrap().is_ok());
        assert_eq!((room.held(), places.held()), (0, 0));
    }

    #[test]
    fn requests_are_withdrawn_and_refused_at_the_end() {
        let places = FairPlaces::new(10);
        let all = [taken(&places, Requester::at(1)), taken(&places, Requester::at(2))];
        let all = (all, taken(&places, Requester::at(4)), taken(&places, Requester::at(5)));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let mut wait = Box::pin(places.reserve(Requester::at(3), 1));
            assert!(wait.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(places.0.lock().parties.holders.len(), 4);
        let mut wait = pin!(places.reserve(Requester::at(3), 1));
        assert!(wait.as_mut().poll(&mut context).is_pending());
        places.close();
        let Poll::Ready(Err(end)) = wait.as_mut().poll(&mut context) else { panic!("it waits") };
        assert_eq!(end, NoPlaces::Closed);
        drop(all);
        assert_eq!(places.try_reserve(Requester::at(1), 1).err(), Some(NoPlaces::Closed));
        assert_eq!(places.held(), 0);
    }
}
