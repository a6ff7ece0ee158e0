//! One session from opening to closing.
//!
//! It reads continuously (silent sessions: only at the end), changes churning and moving regions,
//! breaks and resumes its stream as planned, and compares its memberships with range queries:
//! while an answer is outstanding, messages are held back, and exactly those up to its epoch are
//! applied before the comparison. At the end every region is compared.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use shoal_client::{Client, SubscriptionHandle, SubscriptionStream};
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::{ModifyRequest, ModifyResponse, RegionSubscription, SubscribeResponse};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep_until, timeout};

use super::compare::{Found, compare, query_regions};
use super::epoch_times::{EpochTimes, Moment};
use super::follower::Follower;
use super::regions::SessionRegions;
use super::stream::{modify, open};
use super::tally::FollowTally;
use crate::error::LoadError;
use crate::limits::{COMPARED_REGIONS, SUBSCRIBER_END_S_MAX};
use crate::query::chooser::QueryRandom;
use crate::session::Session;

/// Interval between two changes of a session's regions.
const CHANGE_EVERY: Duration = Duration::from_millis(100);
/// Interval between two comparisons of a session.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// Maximum time without a stream after a break, milliseconds.
const AWAY_MS_MAX: u64 = 500;

/// Parameters of a subscriber.
pub struct Start {
    /// The shared session of the run.
    pub session: Arc<Session>,
    /// The regions.
    pub regions: SessionRegions,
    /// A connection that other sessions may share.
    pub client: Client,
    /// Send times of epochs, for event latencies.
    pub times: Arc<EpochTimes>,
    /// Random numbers.
    pub random: QueryRandom,
    /// Times after the start of the clock at which the stream is broken, ascending.
    pub kills: VecDeque<Duration>,
    /// Reads nothing until all rows are sent.
    pub is_silent: bool,
    /// True when all rows are sent and acknowledged.
    pub quiet: watch::Receiver<bool>,
}

/// One session.
pub struct Subscriber {
    with: Start,
    /// `Some` while the session is open.
    handle: Option<SubscriptionHandle>,
    stream: Option<SubscriptionStream>,
    /// When to resume the broken stream.
    back_at: Option<Instant>,
    follower: Follower,
    comparison: Comparison,
    held: VecDeque<SubscribeResponse>,
    /// An outstanding change, and its removed regions.
    change: Option<(Call<ModifyResponse>, Vec<u64>)>,
    change_at: Instant,
    compare_at: Instant,
    /// Epoch, time of receipt and number of events without a latency so far.
    untimed: VecDeque<(u64, Instant, u64)>,
    is_ending: bool,
    tally: FollowTally,
}

/// An outstanding call.
type Call<T> = JoinHandle<Result<T, LoadError>>;

/// The state of a comparison.
enum Comparison {
    None,
    /// The answer is outstanding; messages are held back.
    Querying(Call<Found>),
    /// Messages are applied up to the answer's epoch.
    Answered(Found),
    /// The final comparison is done.
    Ended,
}

/// The next event of a session's loop.
enum SessionEvent {
    Message(Option<SubscribeResponse>),
    Changed(ModifyResponse),
    Found(Found),
    Time,
    Quiet,
    Stop,
}

impl Subscriber {
    /// A session that is not open yet.
    #[must_use]
    pub fn new(with: Start) -> Self {
        let now = Instant::now();
        let mut random = with.random.clone();
        // Sessions compare at different times.
        let lag = COMPARE_EVERY.mul_f64(random.unit());
        Self {
            handle: None,
            stream: None,
            back_at: None,
            follower: Follower::new(with.session.names.clone()),
            comparison: Comparison::None,
            held: VecDeque::new(),
            change: None,
            change_at: now,
            compare_at: now + lag,
            untimed: VecDeque::new(),
            is_ending: false,
            tally: FollowTally::default(),
            with,
        }
    }

    /// Runs from opening to closing.
    ///
    /// # Errors
    /// [`LoadError`] of calls; a stream that breaks unexpectedly.
    pub async fn run(mut self) -> Result<FollowTally, LoadError> {
        let regions = self.with.regions.subscriptions();
        self.with.regions.ids().for_each(|region| self.follower.add(region));
        self.open(regions, Bytes::new()).await?;
        let ended = || LoadError::Task("the run ended before it started".to_owned());
        self.with.session.ready.send(()).map_err(|_| ended())?;
        while !self.is_ending {
            let happened = self.next().await?;
            if matches!(happened, SessionEvent::Stop) {
                return Ok(self.finished());
            }
            self.handle(happened).await?;
        }
        let limit = Duration::from_secs(SUBSCRIBER_END_S_MAX);
        match timeout(limit, self.end()).await {
            Ok(ended) => ended?,
            Err(_) => {
                return Err(LoadError::Protocol(format!(
                    "a session remains at epoch {} for {SUBSCRIBER_END_S_MAX} s, though all rows \
                     were acknowledged",
                    self.follower.done()
                )));
            }
        }
        Ok(self.finished())
    }

    /// Compares every region and closes the session.
    async fn end(&mut self) -> Result<(), LoadError> {
        if self.stream.is_none() {
            self.resume().await?;
        }
        while !matches!(self.comparison, Comparison::Ended) {
            let happened = self.next().await?;
            if matches!(happened, SessionEvent::Stop) {
                return Ok(());
            }
            self.handle(happened).await?;
        }
        let request = ModifyRequest { close: true, ..ModifyRequest::default() };
        modify(self.handle.clone(), request).await?;
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        while let Some(message) = stream.receive().await.map_err(LoadError::call("Subscribe"))? {
            self.follower.take(message);
        }
        Ok(())
    }

    /// Waits for the next event.
    async fn next(&mut self) -> Result<SessionEvent, LoadError> {
        let at = self.next_at();
        let is_reading = !self.with.is_silent || self.is_ending;
        let is_ending = self.is_ending;
        let stream = &mut self.stream;
        let change = self.change.as_mut().map(|(change, _)| change);
        let answer = match &mut self.comparison {
            Comparison::Querying(answer) => Some(answer),
            _ => None,
        };
        let mut stop = self.with.session.stop.clone();
        tokio::select! {
            _ = stop.wait_for(|stopped| *stopped) => Ok(SessionEvent::Stop),
            message = read(stream), if is_reading => Ok(SessionEvent::Message(message?)),
            done = joined(change) => Ok(SessionEvent::Changed(done?)),
            found = joined(answer) => Ok(SessionEvent::Found(found?)),
            () = sleep_until(at) => Ok(SessionEvent::Time),
            _ = self.with.quiet.wait_for(|quiet| *quiet), if !is_ending => Ok(SessionEvent::Quiet),
        }
    }

    async fn handle(&mut self, happened: SessionEvent) -> Result<(), LoadError> {
        match happened {
            SessionEvent::Message(Some(message)) => self.receive(message),
            SessionEvent::Message(None) => {
                return Err(LoadError::Protocol("a stream of events ended by itself".to_owned()));
            }
            SessionEvent::Changed(response) => self.changed(&response),
            SessionEvent::Found(found) => {
                self.comparison = Comparison::Answered(found);
                self.apply_held();
            }
            SessionEvent::Quiet => self.is_ending = true,
            SessionEvent::Time => self.act().await?,
            SessionEvent::Stop => {}
        }
        Ok(())
    }

    /// The time of the next scheduled action.
    fn next_at(&self) -> Instant {
        let now = Instant::now();
        let mut at = now + COMPARE_EVERY;
        if let Some(back_at) = self.back_at {
            at = at.min(back_at);
        }
        if self.is_free() {
            at = at.min(self.change_at).min(self.compare_at);
        }
        if let (Some(start), Some(kill)) = (self.started(), self.with.kills.front()) {
            at = at.min(start + *kill);
        }
        if self.is_ending && self.is_free() { now } else { at }
    }

    /// The start of the clock.
    fn started(&self) -> Option<Instant> {
        *self.with.session.start.borrow()
    }

    /// Whether neither a change nor a comparison is outstanding.
    fn is_free(&self) -> bool {
        self.change.is_none() && matches!(self.comparison, Comparison::None)
    }

    /// Performs due actions.
    async fn act(&mut self) -> Result<(), LoadError> {
        let now = Instant::now();
        if self.is_ending {
            if self.is_free() {
                self.query(usize::MAX);
            }
            return Ok(());
        }
        if self.back_at.is_some_and(|at| at <= now) {
            self.resume().await?;
        }
        let Some(start) = self.started() else {
            (self.change_at, self.compare_at) = (now + CHANGE_EVERY, now + COMPARE_EVERY);
            return Ok(());
        };
        if self.with.kills.front().is_some_and(|kill| start + *kill <= now) {
            self.with.kills.pop_front();
            self.break_off(now);
        }
        if self.is_free() && self.change_at <= now {
            self.change_at = now + CHANGE_EVERY;
            self.change(now - start);
        }
        if self.is_free() && self.compare_at <= now {
            self.compare_at = now + COMPARE_EVERY;
            if self.with.session.plan.verify_share.is_some() && !self.with.is_silent {
                self.query(COMPARED_REGIONS);
            }
        }
        Ok(())
    }

    /// Ends the stream like a killed client: messages received and not applied are discarded.
    fn break_off(&mut self, now: Instant) {
        if self.stream.take().is_none() {
            return;
        }
        self.tally.killed += 1;
        self.held.clear();
        if let Comparison::Querying(answer) = &self.comparison {
            answer.abort();
        }
        self.comparison = Comparison::None;
        self.back_at = Some(now + Duration::from_millis(self.with.random.below(AWAY_MS_MAX)));
    }

    async fn resume(&mut self) -> Result<(), LoadError> {
        self.back_at = None;
        let token = self.follower.token();
        // Before the first message there is no token; a new session is opened.
        let regions = if token.is_empty() { self.with.regions.subscriptions() } else { Vec::new() };
        self.open(regions, token).await
    }

    async fn open(
        &mut self,
        regions: Vec<RegionSubscription>,
        token: Bytes,
    ) -> Result<(), LoadError> {
        let (client, fleet) = (&self.with.client, &self.with.session.fleet);
        let (first, stream) = open(client, fleet, regions, token, self.handle.as_ref()).await?;
        self.handle = Some(stream.session());
        self.follower.take(first);
        self.stream = Some(stream);
        Ok(())
    }

    /// Updates the session to the current regions.
    fn change(&mut self, elapsed: Duration) {
        if self.with.is_silent {
            return;
        }
        let follower = &self.follower;
        let request = self.with.regions.advance(elapsed, |region| follower.is_uncertain(region));
        let Some(request) = request else { return };
        request.add.iter().for_each(|region| self.follower.add(region.region_id));
        request.remove.iter().for_each(|region| self.follower.remove(*region));
        let removed = request.remove.clone();
        self.change = Some((tokio::spawn(modify(self.handle.clone(), request)), removed));
    }

    fn changed(&mut self, response: &ModifyResponse) {
        let removed = self.change.take().map_or_else(Vec::new, |(_, removed)| removed);
        removed.into_iter().for_each(|region| self.follower.removed(region, response.epoch));
    }

    /// Queries the members of at most `most` regions.
    fn query(&mut self, most: usize) {
        let count = self.with.regions.ids().len();
        let skip = self.with.random.below(count.max(1) as u64) as usize;
        let ids: Vec<u64> = self.with.regions.ids().collect();
        let some = ids.iter().cycle().skip(skip).take(most.min(count));
        let regions = some.filter_map(|id| Some((*id, self.with.regions.region(*id)?))).collect();
        let query =
            query_regions(self.with.client.clone(), self.with.session.fleet.clone(), regions);
        self.comparison = Comparison::Querying(tokio::spawn(query));
    }

    fn receive(&mut self, message: SubscribeResponse) {
        self.count(&message);
        self.held.push_back(message);
        self.apply_held();
        self.time_events();
    }

    /// Applies the messages received, as far as an outstanding comparison permits.
    fn apply_held(&mut self) {
        if matches!(self.comparison, Comparison::Querying(_)) {
            return;
        }
        while let Some(message) = self.held.pop_front() {
            let epoch = Follower::epoch_of(&message);
            if let (Comparison::Answered(found), Some(epoch)) = (&self.comparison, epoch)
                && epoch > found.epoch
            {
                self.compare();
            }
            self.follower.take(message);
        }
        if let Comparison::Answered(found) = &self.comparison
            && self.follower.done() >= found.epoch
        {
            self.compare();
        }
    }

    fn compare(&mut self) {
        let next = if self.is_ending { Comparison::Ended } else { Comparison::None };
        if let Comparison::Answered(found) = std::mem::replace(&mut self.comparison, next) {
            // Members of a later epoch cannot be compared with the answer.
            if self.follower.is_beyond(found.epoch) {
                let text = || format!("a later range query is at epoch {}", found.epoch);
                self.follower.counts.misorder(1, text);
                return;
            }
            self.tally.compared += compare(&found, &mut self.follower);
        }
    }

    fn count(&mut self, message: &SubscribeResponse) {
        let Some(Kind::Events(batch)) = &message.kind else { return };
        // A silent session reads late by design, so its latencies are not recorded.
        if self.started().is_none() || self.with.is_silent {
            return;
        }
        let events = batch.regions.iter().map(|region| region.objects.len() as u64).sum();
        self.tally.events += events;
        self.with.session.counters.events.add(events);
        let now = Instant::now();
        let epoch = match batch.coalesced_from_epoch {
            0 => batch.epoch,
            first => first,
        };
        self.untimed.push_back((epoch, now, events));
    }

    /// Records the latencies of events whose epochs are acknowledged.
    fn time_events(&mut self) {
        if self.untimed.is_empty() {
            return;
        }
        let moments = self.with.times.moments(self.untimed.iter().map(|(epoch, ..)| *epoch));
        for moment in moments {
            let Some((_, received, events)) = self.untimed.pop_front() else { return };
            if let Moment::At(intended) = moment {
                self.tally.latency.record(received.saturating_duration_since(intended), events);
                self.tally.last_timed = self.tally.last_timed.max(Some(received));
            }
        }
    }

    /// The final tally.
    fn finished(mut self) -> FollowTally {
        self.time_events();
        let Follower { counts, present, coalesced, lagged, gaps, .. } = self.follower;
        FollowTally { counts, present, coalesced, lagged, gaps, ..self.tally }
    }
}

/// The next message; waits forever without a stream.
async fn read(
    stream: &mut Option<SubscriptionStream>,
) -> Result<Option<SubscribeResponse>, LoadError> {
    match stream {
        Some(stream) => stream.receive().await.map_err(LoadError::call("Subscribe")),
        None => std::future::pending().await,
    }
}

/// The result of a task; waits forever without one.
async fn joined<T>(task: Option<&mut Call<T>>) -> Result<T, LoadError> {
    match task {
        Some(task) => task.await.map_err(|error| LoadError::Task(error.to_string()))?,
        None => std::future::pending().await,
    }
}
