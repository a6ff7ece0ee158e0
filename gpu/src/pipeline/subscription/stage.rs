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
use shoal_engine::{EngineError, EventSet, HashKey, RegionId, Space, SubscriptionChange};

use super::arrivals;
use super::bins::Index;
use super::changed_queries::{ChangedQuery, Former};
use super::changes::{Changes, adds_host_query};
use super::device_events::DeviceEvents;
use super::events::{Events, HostEvents};
use super::host_evaluation::evaluate_all;
use super::host_queries::HostQueries;
use super::modified_objects::ModifiedObjects;
use super::on_device::{Lengths, OnDevice};
use super::query_table::{QueryTable, is_plain};
use super::trajectories::Trajectories;
use crate::launch::{
    CycleRows, DeviceBuffer, IndexArgument, Kernels, Memory, SceneArgument, fault,
};
use crate::pipeline::dispatch_staging::Staged;
use crate::pipeline::driver::Driver;
use crate::pipeline::query_batch::Sorted;

/// The continuous queries of a fleet on the device.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub(super) stream: Arc<CudaStream>,
    pub(super) table: QueryTable,
    index: Index,
    pub(super) on_device: OnDevice,
    pub(super) found: DeviceEvents,
    pub(super) members: Sorted,
    pub(super) marks: DeviceBuffer<u32>,
    /// Queries evaluated by the host.
    host: HostQueries,
    modified: ModifiedObjects,
    trajectories: Trajectories,
    /// Whether the written objects of the running cycle are listed.
    gathers: bool,
    /// Set when the stage no longer reads records.
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

impl Subscriptions {
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        stream: Arc<CudaStream>,
        (space, key): (&Space, HashKey),
    ) -> Result<Self, EngineError> {
        Ok(Self {
            stream,
            table: QueryTable::default(),
            index: Index::new(memory, kernels, key)?,
            on_device: OnDevice::new(memory)?,
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

    /// The regions of all queries.
    pub(crate) fn regions(&self) -> BTreeSet<RegionId> {
        self.table.iter().map(|(region, _)| region).collect()
    }

    /// Sets the queries again whose memberships depend on the clock.
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

    /// Reserves memory for the additions of changes, and for `written` objects on `slots` slots.
    fn fit(&mut self, changes: &Changes, written: usize, slots: usize) -> Result<(), EngineError> {
        if self.table.len() > 0 {
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
        let (present, added) = (Lengths::of(&self.table), Lengths::added(changes));
        self.on_device.fit(&self.stream, present, added)?;
        self.marks.fit(2 * changes.len())?;
        self.index.fit(&self.stream, references)
    }

    /// Applies the changes of cycle `epoch`, for which memory is reserved; returns the queries to
    /// follow up.
    fn apply(
        &mut self,
        kernels: &Kernels,
        changes: Changes,
        epoch: u64,
    ) -> Result<Vec<ChangedQuery>, EngineError> {
        let from = Lengths::of(&self.table);
        let (mut changed, mut marks) = (Vec::new(), Vec::new());
        let (mut cells, mut references, mut levels) = (Vec::new(), Vec::new(), 0);
        let reduced = RegionChanges::reduce(changes, |region| self.table.number(region));
        for number in reduced.removed {
            self.host.remove(self.table.region(number));
            self.table.end(number);
            marks.push(number << 1 | 1);
        }
        for (region, change) in reduced.changes {
            let (mut set, mut former) = (None, None);
            let number = match (change.new, change.old) {
                (Some((subscription, filing)), old) => {
                    if let Some(old) = old {
                        former = self.table.end(old).map(Former::Plain);
                        former = self.host.remove(region).map(Former::Memberships).or(former);
                        marks.push(old << 1 | 1);
                    }
                    let needs = old.is_some() || !is_plain(&subscription);
                    set = needs.then(|| subscription.clone());
                    let number = self.table.add(region, subscription, epoch);
                    let flags = filing.cells.iter().map(|(_, flags)| *flags);
                    references.extend(flags.map(|flags| number << REFERENCE_BITS | flags));
                    cells.extend(filing.cells.iter().map(|(cell, _)| *cell));
                    levels |= filing.levels;
                    number
                }
                (None, Some(number)) => {
                    self.table.queries[number as usize].suppressed_epoch = epoch as u32;
                    marks.push(number << 1);
                    number
                }
                (None, None) => continue,
            };
            let is_plain = self.table.subscription(number).is_some_and(is_plain);
            if set.is_some() || change.is_snapshot {
                let is_snapshot = change.is_snapshot;
                changed.push(ChangedQuery { region, set, former, is_snapshot, is_plain });
            }
        }
        self.on_device.take(&self.stream, &self.table, from)?;
        self.marks.upload(&self.stream, 0, &marks)?;
        let (queries, marked) = (&self.on_device.queries, (&self.marks, marks.len()));
        kernels.subscription_mark(&self.stream, queries, marked, epoch)?;
        if !cells.is_empty() {
            self.index.add(&self.stream, (&cells, &references), levels)?;
        }
        if self.index.is_long() || self.table.is_fragmented() {
            self.compact()?;
        }
        Ok(changed)
    }

    /// Renumbers all queries and merges both tables of cells, if there is memory.
    fn compact(&mut self) -> Result<(), EngineError> {
        let numbers = self.table.numbering();
        match self.index.merge(&self.stream, &numbers) {
            Ok(()) => {}
            // Retried when memory is available.
            Err(EngineError::OutOfMemory { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.table.renumber();
        self.on_device.take(&self.stream, &self.table, Lengths::default())?;
        self.stream.synchronize().map_err(fault)
    }

    /// Uploads the watched objects; memory for these slots is reserved.
    fn watch(
        &mut self,
        kernels: &Kernels,
        index: &IndexArgument,
        slots: usize,
    ) -> Result<(), EngineError> {
        self.modified.watch((kernels, &self.stream), &mut self.host, index, slots)
    }

    /// Queues counting the events of the listed objects.
    fn count(
        &mut self,
        kernels: &Kernels,
        records: (crate::launch::RecordsArgument, u64),
        (has_host, has_steps): (bool, bool),
    ) -> Result<SceneArgument, EngineError> {
        self.found.sort(&self.stream)?;
        let (objects, slots, length) = self.found.sorted();
        let (tables, regions) = (self.index.arguments(), self.on_device.argument());
        let scene = SceneArgument::new(tables, regions, records, (objects, slots), length);
        self.found.count(kernels, &self.stream, &scene)?;
        if has_host {
            let trajectories = has_steps.then_some(&self.trajectories);
            self.modified.count((kernels, &self.stream), (&scene, length), trajectories)?;
        }
        Ok(scene)
    }
}

impl Driver {
    /// Reserves memory for a cycle's changes of the queries and its written objects.
    pub(in crate::pipeline) fn fit_subscriptions(
        &mut self,
        staged: &Staged,
    ) -> Result<(), EngineError> {
        let others = self.options.ttl_ms.is_some() || !staged.clears.is_empty();
        let others = if others { self.moved[(self.epoch as usize + 1) % 3].0.len() } else { 0 };
        let (written, slots) = (staged.rows as usize + others, self.records.capacity());
        self.subscriptions.fit(&staged.changes, written, slots)
    }

    /// Queues listing the objects that the cycle may have written, after dispatch.
    pub(in crate::pipeline) fn gather(
        &mut self,
        staged: &Staged,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        let subscriptions = &mut self.subscriptions;
        subscriptions.gathers = subscriptions.table.len() > 0;
        if !subscriptions.gathers {
            return Ok(());
        }
        let (stream, kernels) = (&self.dispatch, &self.gpu.kernels);
        let found = &mut subscriptions.found;
        found.written_objects.fill(stream, 0, 1)?;
        let others = self.options.ttl_ms.is_some() || !staged.clears.is_empty();
        let (moved, _) = &self.moved[self.epoch as usize % 3];
        let ended = others.then_some((moved, &self.report));
        let records = (&cycle.index, &cycle.records);
        let (arrived, lists) = ((&self.slots, staged.rows), (&found.objects, &found.slots));
        kernels.subscription_gather(
            stream,
            arrived,
            ended,
            records,
            &found.written_objects,
            lists,
        )?;
        if subscriptions.host.has_every_fix() {
            subscriptions.trajectories.widen((kernels, stream), cycle)?;
        }
        found.written_objects.download(stream, 0, found.written_objects_host.first(1))
    }

    /// Applies the cycle's changes and queues counting its events, after dispatch.
    pub(in crate::pipeline) fn begin_events(
        &mut self,
        staged: &mut Staged,
    ) -> Result<EventPass, EngineError> {
        let changes = std::mem::take(&mut staged.changes);
        let has_steps = self.subscriptions.host.has_every_fix();
        let steps = has_steps.then(|| self.arguments(staged));
        let (kernels, subscriptions) = (self.gpu.kernels.clone(), &mut self.subscriptions);
        let (gathers, host) = (subscriptions.gathers, &subscriptions.host);
        let mut pass = EventPass { has_host: !host.is_empty(), steps, ..EventPass::default() };
        if gathers || !changes.is_empty() {
            pass.began = self.timeline.begin(&subscriptions.stream)?;
        }
        if pass.has_host {
            // Slots may have been renumbered, and there may be more. Precedes the changes, because
            // the host evaluates the members of a changed query again.
            subscriptions.watch(&kernels, &self.records.index(), self.records.capacity())?;
        }
        if !changes.is_empty() {
            pass.changed = subscriptions.apply(&kernels, changes, self.epoch)?;
        }
        let is_written = gathers && subscriptions.found.sorted().2 > 0;
        if is_written && subscriptions.table.len() > 0 {
            let records = (self.records.argument(), self.epoch);
            // Memberships of the host's queries do not follow from the records: none may be missed.
            let may_lag = !pass.has_host;
            let host = (pass.has_host, has_steps);
            pass.scene = match subscriptions.count(&kernels, records, host) {
                Err(error) if !may_lag || !matches!(error, EngineError::OutOfMemory { .. }) => {
                    return Err(error);
                }
                counted => Some(counted),
            };
        }
        Ok(pass)
    }

    /// The cycle's events; those of the device may still be copied. Waits for their number.
    pub(in crate::pipeline) fn finish_events(
        &mut self,
        staged: &Staged,
        mut pass: EventPass,
    ) -> Result<Events, EngineError> {
        let began = pass.began.take();
        if pass.scene.is_none() && pass.changed.is_empty() && !pass.has_host {
            return Ok(Events::Ready(EventSet::default()));
        }
        let host = self.host_events(staged, &mut pass)?;
        self.mark_done()?;
        let events = match self.all_events(pass, host) {
            Err(EngineError::OutOfMemory { .. }) => {
                self.mark_done()?;
                let regions = self.subscriptions.table.iter();
                let lagged = regions.map(|(region, _)| HostEvents::lagged(region));
                Events::of_host(lagged.collect())
            }
            other => other?,
        };
        let stream = &self.subscriptions.stream;
        self.timeline.end((self.epoch, "subscription"), began, stream)?;
        Ok(events)
    }

    /// Records the event after which the stage no longer reads records.
    fn mark_done(&mut self) -> Result<(), EngineError> {
        let done = self.subscriptions.stream.record_event(None).map_err(fault)?;
        self.subscriptions.done = Some(done);
        Ok(())
    }

    /// Evaluates the host's queries for the cycle's objects, and the changed queries. The inner
    /// error concerns events only.
    fn host_events(
        &mut self,
        staged: &Staged,
        pass: &mut EventPass,
    ) -> Result<Result<Vec<HostEvents>, EngineError>, EngineError> {
        let subscriptions = &mut self.subscriptions;
        let kernels = (&*self.gpu.kernels, &*subscriptions.stream);
        let mut objects = Vec::new();
        if let (Some(Ok(scene)), true) = (&pass.scene, pass.has_host) {
            objects = subscriptions.modified.take(kernels, scene)?;
        }
        if let Some(cycle) = pass.steps.filter(|_| !objects.is_empty()) {
            let arrived = subscriptions.trajectories.take(kernels, &cycle)?;
            let clears: Vec<u32> = staged.clears.iter().map(|(arrival, _)| *arrival).collect();
            arrivals::fill(&mut objects, &arrived, &clears);
        }
        let space = self.options.space;
        let now = CycleTime::new(&space, self.clock_ms);
        let mut host = std::mem::replace(&mut self.subscriptions.host, HostQueries::new(&space));
        let evaluated = evaluate_all(&mut host, &now, &mut objects);
        let changed = std::mem::take(&mut pass.changed);
        let silent: BTreeSet<RegionId> = changed.iter().map(|change| change.region).collect();
        let has_host = !host.is_empty() || changed.iter().any(|change| !change.is_plain);
        let changed = self.change_queries(changed, &objects, &mut host);
        let index = &self.records.index();
        let subscriptions = &mut self.subscriptions;
        subscriptions.host = host;
        if has_host {
            subscriptions.watch(&self.gpu.kernels, index, self.records.capacity())?;
        }
        let mut result = match changed {
            Ok(events) => events,
            // If members could not be found, a query that stores memberships would lose them.
            Err(error @ EngineError::OutOfMemory { .. }) if !has_host => return Ok(Err(error)),
            Err(error) => return Err(error),
        };
        for (number, events) in evaluated {
            let query = subscriptions.host.get(number);
            if !silent.contains(&query.id) {
                result.extend(HostEvents::wanted(query, events));
            }
        }
        let due_ms = subscriptions.host.due_ms();
        self.status.set(|now| now.due_ms = due_ms);
        Ok(Ok(result))
    }

    /// The events of the device and the host, within the limit of the cycle.
    fn all_events(
        &mut self,
        pass: EventPass,
        host: Result<Vec<HostEvents>, EngineError>,
    ) -> Result<Events, EngineError> {
        let host = host?;
        let scene = pass.scene.transpose()?;
        let stream = self.subscriptions.stream.clone();
        let mut counted = EventCounts::default();
        if let Some(scene) = &scene {
            stream.synchronize().map_err(fault)?;
            counted = self.subscriptions.found.counted();
            self.subscriptions.found.learn(scene);
        }
        let others = host.iter().map(|own| own.objects.len() as u64).sum::<u64>();
        let host = if counted.events + others > self.options.events_max {
            self.limit_events(scene.as_ref(), host)?
        } else {
            host
        };
        let subscriptions = &mut self.subscriptions;
        let Some(scene) = scene.filter(|_| subscriptions.found.counted().events > 0) else {
            return Ok(Events::of_host(host));
        };
        let others = host.iter().map(HostEvents::common).sum::<usize>();
        let regions = (&subscriptions.on_device, subscriptions.table.numbers());
        let (streams, parity) = ((&stream, &self.copy_out), self.epoch as usize % 2);
        let found = &mut subscriptions.found;
        let of = (parity, others);
        let (columns, done) = found.write(&self.gpu.kernels, streams, &scene, regions, of)?;
        subscriptions.done = Some(done);
        Ok(Events::of_both(columns, host))
    }
}
