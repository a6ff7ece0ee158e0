//! Stage subscription as the driver queues it: changes of the continuous queries, then the events
//! of the cycle's records.
//!
//! Runs on its own stream after dispatch, concurrently with update and queries; the next cycle
//! writes no record before the stage has ended. Without continuous queries nothing is queued. If
//! memory for events is exhausted, the queries lag; no membership is lost, because memberships
//! follow from the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::layout::{EventCounts, REFERENCE_BITS};
use shoal_engine::stage::region_changes::RegionChanges;
use shoal_engine::stage::subscription::CycleTime;
use shoal_engine::{EngineError, EventSet, RegionId, SubscriptionChange};

use super::arrivals;
use super::changed_queries::{ChangedQuery, Former};
use super::device_events::DeviceEvents;
use super::events::{Events, HostEvents};
use super::host_evaluation::evaluate_all;
use super::host_queries::HostQueries;
use super::members::MemberSearch;
use super::modified_objects::ModifiedObjects;
use super::trajectories::Trajectories;
use crate::launch::{CycleRows, DeviceBuffer, SceneArgument, fault};
use crate::stages::context::Context;
use crate::stages::dispatch::stage::DispatchStage;
use crate::stages::dispatch::staging::Staged;
use crate::stages::query::batch::Sorted;
use crate::state::fleet::FleetState;
use crate::state::regions::changes::{Changes, adds_host_query};
use crate::state::regions::continuous_queries::ContinuousQueries;
use crate::state::regions::device_queries::Lengths;
use crate::state::regions::query_table::is_plain;

/// Lists of the stage, and the queries that the host evaluates.
#[derive(Debug)]
pub(crate) struct SubscriptionStage {
    pub(super) context: Arc<Context>,
    pub(super) stream: Arc<CudaStream>,
    /// The stream that copies results to the host.
    copy_out: Arc<CudaStream>,
    pub(super) found: DeviceEvents,
    pub(super) members: Sorted,
    pub(super) marks: DeviceBuffer<u32>,
    /// Queries evaluated by the host.
    host: HostQueries,
    modified: ModifiedObjects,
    trajectories: Trajectories,
    /// Whether the written objects of the running cycle are listed.
    gathers: bool,
    /// The event after which the stage no longer reads records.
    done: Option<CudaEvent>,
}

/// The first part of a cycle's events.
#[derive(Debug, Default)]
pub(crate) struct EventPass {
    changed: Vec<ChangedQuery>,
    /// The host had queries before the cycle, so it evaluates the objects near them.
    has_host: bool,
    /// The host had queries that evaluate every fix, so it reads the rows and removals of the
    /// objects.
    steps: Option<CycleRows>,
    /// The input of counting; `None` if there can be no events, an error if memory is exhausted.
    scene: Option<Result<SceneArgument, EngineError>>,
    /// The start of the stage, if the timeline is recorded.
    began: Option<CudaEvent>,
}

impl SubscriptionStage {
    pub(crate) fn new(
        context: &Arc<Context>,
        copy_out: &Arc<CudaStream>,
    ) -> Result<Self, EngineError> {
        let (memory, space) = (&context.memory, &context.options.space);
        Ok(Self {
            context: context.clone(),
            stream: context.new_stream()?,
            copy_out: copy_out.clone(),
            found: DeviceEvents::new(memory)?,
            members: Sorted::new(memory)?,
            marks: DeviceBuffer::new(memory, 1)?,
            host: HostQueries::new(space),
            modified: ModifiedObjects::new(memory)?,
            trajectories: Trajectories::new(memory, space)?,
            gathers: false,
            done: None,
        })
    }

    /// Changes that set again the queries whose memberships depend on the clock.
    pub(crate) fn begun_anew(&self) -> Vec<SubscriptionChange> {
        // The host evaluates all of them.
        self.host.begun_anew()
    }

    /// Makes a stream that writes records wait for the previous cycle.
    pub(crate) fn wait(&self, stream: &CudaStream) -> Result<(), EngineError> {
        self.done.as_ref().map_or(Ok(()), |done| stream.wait(done)).map_err(fault)
    }

    /// Invalidates the watched objects after slots were renumbered.
    pub(crate) fn forget_slots(&mut self) {
        self.modified.forget();
    }

    /// True if a query of the host evaluates every fix, so that the stage reads the rows of a
    /// cycle.
    pub(crate) fn has_every_fix(&self) -> bool {
        self.host.has_every_fix()
    }

    /// Reserves memory for a cycle's changes of the queries and its written objects.
    pub(crate) fn reserve(
        &mut self,
        state: &mut FleetState,
        staged: &Staged,
    ) -> Result<(), EngineError> {
        let ended = staged.may_end_others(&self.context.options);
        let ended = if ended { state.moved(state.epoch + 1).slots.len() } else { 0 };
        let (written, slots) = (staged.rows as usize + ended, state.records.capacity());
        let (changes, queries) = (&staged.changes, &mut state.queries);
        if queries.table.len() > 0 {
            self.found.fit(written)?;
        }
        if !self.host.is_empty() || adds_host_query(changes) {
            self.modified.fit(written, slots)?;
        }
        if self.host.has_every_fix() {
            self.trajectories.fit(written, slots)?;
        }
        if changes.is_empty() {
            return Ok(());
        }
        let references = changes.iter().map(|(_, filing)| filing.cells.len()).sum();
        let (present, added) = (Lengths::of(&queries.table), Lengths::added(changes));
        queries.on_device.fit(&self.stream, present, added)?;
        self.marks.fit(2 * changes.len())?;
        queries.index.fit(&self.stream, references)
    }

    /// Applies the changes of the running cycle, for which memory is reserved; returns the queries
    /// whose events or snapshots are still to be computed.
    fn apply(
        &mut self,
        state: &mut FleetState,
        changes: Changes,
    ) -> Result<Vec<ChangedQuery>, EngineError> {
        let (epoch, queries) = (state.epoch, &mut state.queries);
        let from = Lengths::of(&queries.table);
        let (mut changed, mut marks) = (Vec::new(), Vec::new());
        let (mut cells, mut references, mut levels) = (Vec::new(), Vec::new(), 0);
        let reduced = RegionChanges::reduce(changes, |region| queries.table.number(region));
        for number in reduced.removed {
            self.host.remove(queries.table.region(number));
            queries.table.end(number);
            marks.push(number << 1 | 1);
        }
        for (region, change) in reduced.changes {
            let (mut set, mut former) = (None, None);
            let number = match (change.new, change.old) {
                (Some((subscription, filing)), old) => {
                    if let Some(old) = old {
                        former = queries.table.end(old).map(Former::Plain);
                        former = self.host.remove(region).map(Former::Memberships).or(former);
                        marks.push(old << 1 | 1);
                    }
                    let needs = old.is_some() || !is_plain(&subscription);
                    set = needs.then(|| subscription.clone());
                    let number = queries.table.add(region, subscription, epoch);
                    let flags = filing.cells.iter().map(|(_, flags)| *flags);
                    references.extend(flags.map(|flags| number << REFERENCE_BITS | flags));
                    cells.extend(filing.cells.iter().map(|(cell, _)| *cell));
                    levels |= filing.levels;
                    number
                }
                (None, Some(number)) => {
                    queries.table.queries[number as usize].suppressed_epoch = epoch as u32;
                    marks.push(number << 1);
                    number
                }
                (None, None) => continue,
            };
            let is_plain = queries.table.subscription(number).is_some_and(is_plain);
            if set.is_some() || change.is_snapshot {
                let is_snapshot = change.is_snapshot;
                changed.push(ChangedQuery { region, set, former, is_snapshot, is_plain });
            }
        }
        queries.on_device.take(&self.stream, &queries.table, from)?;
        self.marks.upload(&self.stream, 0, &marks)?;
        let marked = (&self.marks, marks.len());
        let kernels = &self.context.gpu.kernels;
        kernels.subscription_mark(&self.stream, &queries.on_device.queries, marked, epoch)?;
        if !cells.is_empty() {
            queries.index.add(&self.stream, &cells, &references, levels)?;
        }
        if queries.index.is_long() || queries.table.is_fragmented() {
            self.compact(queries)?;
        }
        Ok(changed)
    }

    /// Renumbers all queries and merges both tables of cells, if there is memory.
    fn compact(&self, queries: &mut ContinuousQueries) -> Result<(), EngineError> {
        let numbers = queries.table.numbering();
        match queries.index.merge(&self.stream, &numbers) {
            Ok(()) => {}
            // Retried when memory is available.
            Err(EngineError::OutOfMemory { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        queries.table.renumber();
        queries.on_device.take(&self.stream, &queries.table, Lengths::default())?;
        self.stream.synchronize().map_err(fault)
    }

    /// Uploads the changes of the watched objects. Memory for all slots must be reserved before.
    fn watch(&mut self, state: &FleetState) -> Result<(), EngineError> {
        let (index, slots) = (state.records.index(), state.records.capacity());
        self.modified.watch(&self.context.gpu.kernels, &self.stream, &mut self.host, &index, slots)
    }

    /// Queues counting the events of the listed objects.
    fn count(
        &mut self,
        state: &FleetState,
        has_host: bool,
        has_steps: bool,
    ) -> Result<SceneArgument, EngineError> {
        self.found.sort(&self.stream)?;
        let (objects, slots, length) = self.found.sorted();
        let kernels = &self.context.gpu.kernels;
        let queries = &state.queries;
        let (base, recent) = queries.index.arguments();
        let scene = SceneArgument::new(
            base,
            recent,
            queries.on_device.argument(),
            state.records.argument(),
            state.epoch,
            objects,
            slots,
            length,
        );
        self.found.count(kernels, &self.stream, &scene)?;
        if has_host {
            let trajectories = has_steps.then_some(&self.trajectories);
            self.modified.count(kernels, &self.stream, &scene, length, trajectories)?;
        }
        Ok(scene)
    }

    /// Queues listing the objects that the cycle may have written, after dispatch.
    pub(crate) fn gather(
        &mut self,
        state: &FleetState,
        dispatch: &DispatchStage,
        staged: &Staged,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        self.gathers = state.queries.table.len() > 0;
        if !self.gathers {
            return Ok(());
        }
        let others = staged.may_end_others(&self.context.options);
        let (stream, kernels) = (&dispatch.stream, &self.context.gpu.kernels);
        let found = &mut self.found;
        found.written_objects.fill(stream, 0, 1)?;
        let moved = &state.moved(state.epoch).slots;
        let ended = others.then_some((moved, &dispatch.report));
        let records = (&cycle.index, &cycle.records);
        let (arrived, lists) = ((&dispatch.slots, staged.rows), (&found.objects, &found.slots));
        kernels.subscription_gather(
            stream,
            arrived,
            ended,
            records,
            &found.written_objects,
            lists,
        )?;
        if self.host.has_every_fix() {
            self.trajectories.widen(kernels, stream, cycle)?;
        }
        found.written_objects.download(stream, 0, found.written_objects_host.first(1))
    }

    /// Applies the cycle's changes and queues counting its events, after dispatch.
    /// `steps` are the cycle's rows if [`Self::has_every_fix`].
    pub(crate) fn begin(
        &mut self,
        state: &mut FleetState,
        staged: &mut Staged,
        steps: Option<CycleRows>,
    ) -> Result<EventPass, EngineError> {
        let changes = std::mem::take(&mut staged.changes);
        let (has_host, has_steps) = (!self.host.is_empty(), steps.is_some());
        let mut pass = EventPass { has_host, steps, ..EventPass::default() };
        if self.gathers || !changes.is_empty() {
            pass.began = self.context.timeline.begin(&self.stream)?;
        }
        if pass.has_host {
            // Slots may have been renumbered, and there may be more. Precedes the changes, because
            // the host evaluates the members of a changed query again.
            self.watch(state)?;
        }
        if !changes.is_empty() {
            pass.changed = self.apply(state, changes)?;
        }
        let is_written = self.gathers && self.found.sorted().2 > 0;
        if is_written && state.queries.table.len() > 0 {
            // Memberships of the host's queries do not follow from the records, so no change may be
            // missed.
            let may_lag = !has_host;
            pass.scene = match self.count(state, has_host, has_steps) {
                Err(error) if !may_lag || !matches!(error, EngineError::OutOfMemory { .. }) => {
                    return Err(error);
                }
                counted => Some(counted),
            };
        }
        Ok(pass)
    }

    /// The cycle's events; those of the device may still be copied. Waits for their number.
    pub(crate) fn finish(
        &mut self,
        search: &mut MemberSearch<'_>,
        staged: &Staged,
        mut pass: EventPass,
    ) -> Result<Events, EngineError> {
        let began = pass.began.take();
        if pass.scene.is_none() && pass.changed.is_empty() && !pass.has_host {
            return Ok(Events::Ready(EventSet::default()));
        }
        let host = self.host_events(search, staged, &mut pass)?;
        self.mark_done()?;
        let events = match self.all_events(search.state, pass, host) {
            Err(EngineError::OutOfMemory { .. }) => {
                self.mark_done()?;
                let regions = search.state.queries.table.iter();
                let lagged = regions.map(|(region, _)| HostEvents::lagged(region));
                Events::of_host(lagged.collect())
            }
            other => other?,
        };
        self.context.timeline.end(search.state.epoch, "subscription", began, &self.stream)?;
        Ok(events)
    }

    /// Records the event after which the stage no longer reads records.
    fn mark_done(&mut self) -> Result<(), EngineError> {
        self.done = Some(self.stream.record_event(None).map_err(fault)?);
        Ok(())
    }

    /// Evaluates the host's queries for the cycle's objects, and the changed queries. The inner
    /// error concerns events only.
    fn host_events(
        &mut self,
        search: &mut MemberSearch<'_>,
        staged: &Staged,
        pass: &mut EventPass,
    ) -> Result<Result<Vec<HostEvents>, EngineError>, EngineError> {
        let kernels = (&*self.context.gpu.kernels, &*self.stream);
        let mut objects = Vec::new();
        if let (Some(Ok(scene)), true) = (&pass.scene, pass.has_host) {
            objects = self.modified.take(kernels, scene)?;
        }
        if let Some(cycle) = pass.steps.filter(|_| !objects.is_empty()) {
            let arrived = self.trajectories.take(kernels, &cycle)?;
            let clears: Vec<u32> = staged.clears.iter().map(|(arrival, _)| *arrival).collect();
            arrivals::fill(&mut objects, &arrived, &clears);
        }
        let space = self.context.options.space;
        let now = CycleTime::new(&space, search.state.clock_ms);
        let mut host = std::mem::replace(&mut self.host, HostQueries::new(&space));
        let evaluated = evaluate_all(&mut host, &now, &mut objects);
        let changed = std::mem::take(&mut pass.changed);
        let silent: BTreeSet<RegionId> = changed.iter().map(|change| change.region).collect();
        let has_host = !host.is_empty() || changed.iter().any(|change| !change.is_plain);
        let changed = self.change_queries(search, changed, &objects, &mut host);
        self.host = host;
        if has_host {
            self.watch(search.state)?;
        }
        let mut result = match changed {
            Ok(events) => events,
            // If members could not be found, a query that stores memberships would lose them.
            Err(error @ EngineError::OutOfMemory { .. }) if !has_host => return Ok(Err(error)),
            Err(error) => return Err(error),
        };
        for (number, events) in evaluated {
            let query = self.host.get(number);
            if !silent.contains(&query.id) {
                result.extend(HostEvents::wanted(query, events));
            }
        }
        let due_ms = self.host.due_ms();
        self.context.status.set(|now| now.due_ms = due_ms);
        Ok(Ok(result))
    }

    /// The events of the device and the host, within the limit of the cycle.
    fn all_events(
        &mut self,
        state: &mut FleetState,
        pass: EventPass,
        host: Result<Vec<HostEvents>, EngineError>,
    ) -> Result<Events, EngineError> {
        let host = host?;
        let scene = pass.scene.transpose()?;
        let mut counted = EventCounts::default();
        if let Some(scene) = &scene {
            self.stream.synchronize().map_err(fault)?;
            counted = self.found.counted();
            self.found.learn(scene);
        }
        let others = host.iter().map(|own| own.objects.len() as u64).sum::<u64>();
        let host = if counted.events + others > self.context.options.events_max {
            self.limit_events(state, scene.as_ref(), host)?
        } else {
            host
        };
        let Some(scene) = scene.filter(|_| self.found.counted().events > 0) else {
            return Ok(Events::of_host(host));
        };
        let others = host.iter().map(HostEvents::common).sum::<usize>();
        let queries = &state.queries;
        let regions = (&queries.on_device, queries.table.numbers());
        let streams = (&self.stream, &self.copy_out);
        let (kernels, of) = (&self.context.gpu.kernels, (state.epoch as usize % 2, others));
        let (columns, done) = self.found.write(kernels, streams, &scene, regions, of)?;
        self.done = Some(done);
        Ok(Events::of_both(columns, host))
    }
}
