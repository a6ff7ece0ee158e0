//! Distributes the events of each cycle to sessions.
//!
//! Each fleet with sessions has a fan-out thread, so that the engine thread only sends the event set
//! and begins the next cycle. If the fan-out is several cycles behind, the engine thread waits. The
//! fan-out does not wait for readers: a second thread coalesces the messages of slow readers, and a
//! third makes large snapshots ready.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use shoal_codec::UniversalHash;
use shoal_engine::{EventSet, RegionId};

use super::coalesce::CoalesceJob;
use super::delivery::{Delivered, Delivery, Place};
use super::large_snapshot::LargeSnapshot;
use super::message::EpochStamp;
use super::session::{Session, SessionEnd};
use super::sessions::Sessions;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::limits::{COALESCE_QUEUE_MAX, EVENT_SETS_MAX, SESSION_SWEEP_MS};
use crate::names::NamePattern;
use crate::threads::LazyThread;

/// An input from the engine thread; inputs are processed in order.
#[derive(Debug)]
pub(crate) enum FanOutInput {
    /// Changes of routes that hold for all later events.
    Routes(Vec<RouteChange>),
    /// The events of a cycle.
    Events(EpochStamp, EventSet),
}

/// A change of routes.
#[derive(Debug)]
pub(crate) enum RouteChange {
    /// Sends the events of these regions to this session; replaces earlier routes of the regions.
    Add(Arc<Session>, Vec<Route>),
    /// These regions were removed.
    Remove(Vec<RegionId>),
}

/// How the events of a region reach their client.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) region: RegionId,
    /// The client's number of the region.
    pub(crate) region_id: u64,
    /// Selects events by the names of their objects.
    pub(crate) pattern: Option<Arc<NamePattern>>,
}

/// The sending end, for the engine thread.
pub(crate) type FanOutSender = Sender<FanOutInput>;

/// Where the events of a region go.
#[derive(Debug)]
struct Target {
    session: Arc<Session>,
    route: Route,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct FanOut {
    sessions: Arc<Sessions>,
    inputs: Receiver<FanOutInput>,
    routes: HashMap<RegionId, Target, RegionHashes>,
    /// The events of the current cycle for each session. Kept to reuse the memory.
    places: HashMap<u64, Vec<Place>>,
    jobs: Sender<(Arc<Session>, CoalesceJob)>,
    /// Large snapshots to be made ready. The channel has no limit of its own: the answer budget
    /// bounds their number.
    large: Sender<(Arc<Session>, Weak<LargeSnapshot>)>,
}

/// The threads of a fan-out, which the first session starts.
#[derive(Debug)]
pub(crate) struct FanOutThreads(Mutex<[LazyThread; 3]>);

impl FanOutThreads {
    /// Starts the threads that do not run yet.
    ///
    /// # Errors
    /// [`ServiceError::Io`]; the next call tries again.
    pub(crate) fn start(&self) -> Result<(), ServiceError> {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter_mut().try_for_each(LazyThread::start)
    }
}

/// Runs until the fan-out ends.
fn coalesce(sessions: &Sessions, jobs: Receiver<(Arc<Session>, CoalesceJob)>) {
    for (session, job) in jobs {
        session.coalesce(job, &sessions.tools);
    }
}

/// Runs until the fan-out ends. Skips snapshots that were dropped.
fn make_ready(large: Receiver<(Arc<Session>, Weak<LargeSnapshot>)>) {
    for (session, snapshot) in large {
        if let Some(snapshot) = snapshot.upgrade() {
            snapshot.make_ready();
            session.update(|_| ());
        }
    }
}

impl FanOut {
    /// Creates the fan-out of a fleet: the sender of its inputs, and its threads.
    pub(crate) fn of_fleet(
        fleet: &FleetName,
        sessions: Arc<Sessions>,
    ) -> (FanOutSender, FanOutThreads) {
        let (sender, inputs) = bounded(EVENT_SETS_MAX);
        let (jobs, coalesce_jobs) = bounded(COALESCE_QUEUE_MAX);
        let (large, snapshots) = unbounded();
        let (routes, places) = (HashMap::with_hasher(RegionHashes::new()), HashMap::new());
        let coalescing = sessions.clone();
        let fan_out = Self { sessions, inputs, routes, places, jobs, large };
        let threads = [
            LazyThread::new(format!("snapshots-{fleet}"), move || make_ready(snapshots)),
            LazyThread::new(format!("coalesce-{fleet}"), move || {
                coalesce(&coalescing, coalesce_jobs);
            }),
            LazyThread::new(format!("events-{fleet}"), move || fan_out.run()),
        ];
        (sender, FanOutThreads(Mutex::new(threads)))
    }

    /// Runs until the engine thread ends, then ends the sessions.
    fn run(mut self) {
        let sweep = Duration::from_millis(SESSION_SWEEP_MS);
        let mut swept = Instant::now();
        loop {
            match self.inputs.recv_timeout(sweep) {
                Ok(input) => self.take(input),
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

    fn take(&mut self, input: FanOutInput) {
        match input {
            FanOutInput::Routes(changes) => {
                for change in changes {
                    self.route(change);
                }
            }
            FanOutInput::Events(stamp, set) => {
                if !set.is_empty() {
                    self.deliver(stamp, &Arc::new(set));
                }
                self.sessions.set_delivered(stamp);
            }
        }
    }

    fn route(&mut self, change: RouteChange) {
        match change {
            RouteChange::Add(session, regions) => {
                for route in regions {
                    let session = session.clone();
                    self.routes.insert(route.region, Target { session, route });
                }
            }
            RouteChange::Remove(regions) => {
                for region in regions {
                    self.routes.remove(&region);
                }
            }
        }
    }

    fn deliver(&mut self, stamp: EpochStamp, set: &Arc<EventSet>) {
        let mut order = Vec::new();
        for (index, head) in set.heads().enumerate() {
            let Some(Target { session, route }) = self.routes.get(&head.region) else { continue };
            let places = self.places.entry(session.handle.session).or_default();
            if places.is_empty() {
                order.push(session.clone());
            }
            places.push(Place { index, route: route.clone() });
        }
        let delivery = Delivery::new(&self.sessions.tools, stamp, set);
        for session in order {
            let Some(places) = self.places.get_mut(&session.handle.session) else { continue };
            let delivered = session.deliver(&delivery, places);
            places.clear();
            self.settle(session, delivered);
        }
        // Drops the lists of sessions that ended.
        if self.places.len() > 2 * self.sessions.count() + 16 {
            self.places.clear();
        }
    }

    fn settle(&self, session: Arc<Session>, delivered: Delivered) {
        self.sessions.pending.snapshot(session.handle.session, delivered.snapshots);
        for snapshot in &delivered.large {
            // An error means that the receiving thread and the sessions have ended.
            let _ = self.large.send((session.clone(), Arc::downgrade(snapshot)));
        }
        if delivered.is_over {
            self.sessions.close(&session, SessionEnd::Left);
        } else if let Some(job) = delivered.coalesce
            && let Err(refused) = self.jobs.try_send((session, job))
        {
            let (session, _) = refused.into_inner();
            session.lose_coalescing(&self.sessions.tools);
        }
    }
}

/// Also ends the sessions after a panic, because no events would reach them any more.
impl Drop for FanOut {
    fn drop(&mut self) {
        self.sessions.end();
    }
}

/// Hashes the ids of regions under a secret key. The server assigns them in ascending order, but
/// clients choose which ones remain.
#[derive(Clone, Copy, Debug)]
struct RegionHashes(UniversalHash);

impl RegionHashes {
    fn new() -> Self {
        Self(UniversalHash::random())
    }
}

impl BuildHasher for RegionHashes {
    type Hasher = RegionHasher;

    fn build_hasher(&self) -> RegionHasher {
        RegionHasher { hash: self.0, state: 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct RegionHasher {
    hash: UniversalHash,
    state: u64,
}

impl Hasher for RegionHasher {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.state << 8 | u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        // The upper bits of the hash are the best distributed, but the map also uses lower bits.
        let hash = self.hash.hash(value);
        self.state = hash ^ hash >> 32;
    }
}
