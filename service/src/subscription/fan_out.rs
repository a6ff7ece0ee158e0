//! How do a cycle's events get to the sessions they are for?
//!
//! A thread of its own for each fleet: the engine's thread only hands the set over and begins the
//! next cycle. It waits when this one is some cycles behind, so that nothing piles up; this one
//! waits for no reader, has what slow ones leave coalesced by a third, and large snapshots made
//! ready by a fourth.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use shoal_engine::{EventSet, RegionId};

use super::delivery::{Delivered, Delivering};
use super::large::LargeSnapshot;
use super::message::Told;
use super::outbox::Lent;
use super::session::{Session, SessionEnd};
use super::sessions::Sessions;
use crate::limits::{COALESCE_QUEUE_MAX, EVENT_SETS_MAX, SESSION_SWEEP_MS};

/// What the engine's thread hands over, in its order.
#[derive(Debug)]
pub(crate) enum Handed {
    /// Where events go from now on, in order.
    Routes(Vec<RouteChange>),
    /// One cycle's events.
    Events(Told, EventSet),
}

/// A change of where events go.
#[derive(Debug)]
pub(crate) enum RouteChange {
    /// Events of these regions are for this session, with its client's numbers.
    Add(Arc<Session>, Vec<(RegionId, u64)>),
    /// These regions are no more.
    Remove(Vec<RegionId>),
}

/// The engine thread's end.
pub(crate) type FanOutSender = Sender<Handed>;

/// Where a region's events go.
#[derive(Debug)]
struct Route {
    session: Arc<Session>,
    region_id: u64,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct FanOut {
    sessions: Arc<Sessions>,
    handed: Receiver<Handed>,
    routes: HashMap<RegionId, Route, BuildHasherDefault<RegionHasher>>,
    /// Of one cycle, by session: kept for their memory.
    places: HashMap<u64, Vec<(usize, u64)>>,
    lent: Sender<(Arc<Session>, Lent)>,
    /// As many as answers have room for.
    large: Sender<(Arc<Session>, Weak<LargeSnapshot>)>,
}

/// What a thread does, and its name.
pub(crate) type Work = (&'static str, Box<dyn FnOnce() + Send>);

/// Until the fan-out ends.
fn coalesce(sessions: &Sessions, lent: Receiver<(Arc<Session>, Lent)>) {
    for (session, lent) in lent {
        session.coalesce(lent, &sessions.tools);
    }
}

/// Until the fan-out ends. What nobody is to read any more is left as it is.
fn make_ready(large: Receiver<(Arc<Session>, Weak<LargeSnapshot>)>) {
    for (session, snapshot) in large {
        if let Some(snapshot) = snapshot.upgrade() {
            snapshot.make_ready();
            session.wake();
        }
    }
}

impl FanOut {
    /// The work of some threads and the end that feeds them.
    pub(crate) fn works(sessions: Arc<Sessions>) -> (FanOutSender, [Work; 3]) {
        let (sender, handed) = bounded(EVENT_SETS_MAX);
        let (lender, lent) = bounded(COALESCE_QUEUE_MAX);
        let (large, held) = unbounded();
        let (routes, places) = (HashMap::default(), HashMap::new());
        let coalesced = sessions.clone();
        let fan_out = Self { sessions, handed, routes, places, lent: lender, large };
        let works: [Work; 3] = [
            ("snapshots", Box::new(move || make_ready(held))),
            ("coalesce", Box::new(move || coalesce(&coalesced, lent))),
            ("events", Box::new(move || fan_out.run())),
        ];
        (sender, works)
    }

    /// Runs until the engine's thread ends, and then ends the sessions.
    fn run(mut self) {
        let sweep = Duration::from_millis(SESSION_SWEEP_MS);
        let mut swept = Instant::now();
        loop {
            match self.handed.recv_timeout(sweep) {
                Ok(handed) => self.take(handed),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now.duration_since(swept) >= sweep {
                self.sessions.sweep(now);
                swept = now;
            }
        }
    }

    fn take(&mut self, handed: Handed) {
        match handed {
            Handed::Routes(changes) => changes.into_iter().for_each(|change| self.route(change)),
            Handed::Events(told, set) => {
                if !set.is_empty() {
                    self.deliver(told, &Arc::new(set));
                }
                self.sessions.set_told(told);
            }
        }
    }

    fn route(&mut self, change: RouteChange) {
        match change {
            RouteChange::Add(session, regions) => {
                for (region, region_id) in regions {
                    self.routes.insert(region, Route { session: session.clone(), region_id });
                }
            }
            RouteChange::Remove(regions) => {
                for region in regions {
                    self.routes.remove(&region);
                }
            }
        }
    }

    fn deliver(&mut self, told: Told, set: &Arc<EventSet>) {
        let mut order = Vec::new();
        for (place, head) in set.heads().enumerate() {
            let Some(route) = self.routes.get(&head.region) else { continue };
            let places = self.places.entry(route.session.handle.session).or_default();
            if places.is_empty() {
                order.push(route.session.clone());
            }
            places.push((place, route.region_id));
        }
        let delivering = Delivering::new(&self.sessions.tools, told, set);
        for session in order {
            let Some(places) = self.places.get_mut(&session.handle.session) else { continue };
            let delivered = session.deliver(&delivering, places);
            places.clear();
            self.settle(session, delivered);
        }
        // Sessions come and go.
        if self.places.len() > 2 * self.sessions.count() + 16 {
            self.places.clear();
        }
    }

    fn settle(&self, session: Arc<Session>, delivered: Delivered) {
        self.sessions.chores.snapshot(delivered.snapshots);
        for snapshot in &delivered.large {
            // A thread that is gone was ended with the sessions.
            let _ = self.large.send((session.clone(), Arc::downgrade(snapshot)));
        }
        if delivered.is_over {
            self.sessions.close(&session, SessionEnd::Left);
        } else if let Some(lent) = delivered.lent
            && let Err(refused) = self.lent.try_send((session, lent))
        {
            let (session, _) = refused.into_inner();
            session.lose_lent(&self.sessions.tools);
        }
    }
}

/// However it ends: nobody would tell the sessions anything more.
impl Drop for FanOut {
    fn drop(&mut self) {
        self.sessions.end();
    }
}

/// Regions are counted up, and nobody outside chooses their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct RegionHasher(u64);

impl Hasher for RegionHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 << 8 | u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        // The golden ratio spreads neighbours over high and low bits.
        let product = u128::from(value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
