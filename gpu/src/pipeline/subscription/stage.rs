//! Stage subscription as the driver queues it: changes of the standing regions, then what the
//! cycle's records came to in them.
//!
//! Runs on a stream of its own behind dispatch, beside update and queries; the next cycle writes no
//! record before it is done. Without standing regions nothing is queued. What does not fit memory
//! is told as lagged: memberships follow from the records, so none is lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_codec::FixRow;
use shoal_engine::layout::{Happened, REFERENCE_BITS};
use shoal_engine::stage::subscription::CycleTime;
use shoal_engine::{EngineError, EventKind, EventSet, RegionId, Space, Subscription};

use super::arrivals;
use super::bins::Index;
use super::changes::{Changes, outcomes, remembers};
use super::follow::{Follow, Former};
use super::found::Found;
use super::judge::judge;
use super::on_device::{Lengths, OnDevice};
use super::stands::Stands;
use super::table::{Table, is_plain};
use super::told::{Events, HostMade};
use super::touched::Touched;
use super::ways::Trajectories;
use crate::launch::{
    CycleRows, DeviceBuffer, IndexArgument, Kernels, Memory, SceneArgument, fault,
};
use crate::pipeline::driver::Driver;
use crate::pipeline::query_batch::Sorted;
use crate::pipeline::staging::Staged;

/// The standing regions of a fleet on the device.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub(super) stream: Arc<CudaStream>,
    pub(super) table: Table,
    index: Index,
    pub(super) on_device: OnDevice,
    pub(super) found: Found,
    members: Sorted,
    pub(super) marks: DeviceBuffer<u32>,
    /// Regions that remember, and whom the host looks at for them.
    stands: Stands,
    touched: Touched,
    ways: Trajectories,
    /// Whether the objects that the running cycle wrote are listed.
    gathers: bool,
    /// Set when nothing of the stage reads records any more.
    done: Option<CudaEvent>,
}

/// What was begun of a cycle's events.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    follows: Vec<Follow>,
    /// Some region before the cycle remembers: the host looks at the objects near it.
    remembers: bool,
    /// Some region before the cycle judges every fix: the rows and removals of the objects.
    steps: Option<CycleRows>,
    /// What events are counted in; none when there can be none, an error where room is short.
    scene: Option<Result<SceneArgument, EngineError>>,
    /// When it was, if somebody records it.
    began: Option<CudaEvent>,
}

impl Subscriptions {
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        stream: Arc<CudaStream>,
        space: &Space,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            stream,
            table: Table::default(),
            index: Index::new(memory, kernels)?,
            on_device: OnDevice::new(memory)?,
            found: Found::new(memory)?,
            members: Sorted::new(memory)?,
            marks: DeviceBuffer::new(memory, 1)?,
            stands: Stands::new(space),
            touched: Touched::new(memory)?,
            ways: Trajectories::new(memory, space)?,
            gathers: false,
            done: None,
        })
    }

    /// The regions that stand.
    pub(crate) fn standing(&self) -> BTreeSet<RegionId> {
        self.table.iter().map(|(region, _)| region).collect()
    }

    /// Lets a stream that writes records wait for the cycle before.
    pub(crate) fn wait(&self, stream: &CudaStream) -> Result<(), EngineError> {
        self.done.as_ref().map_or(Ok(()), |done| stream.wait(done)).map_err(fault)
    }

    /// What stands under an id.
    pub(super) fn standing_at(&self, region: RegionId) -> Option<&Subscription> {
        self.table.number(region).and_then(|number| self.table.subscription(number))
    }

    /// That slots are other objects' from now on.
    pub(crate) fn forget_slots(&mut self) {
        self.touched.forget();
    }

    pub(super) fn take_table(&mut self) -> Table {
        std::mem::take(&mut self.table)
    }

    pub(super) fn put_table(&mut self, table: Table) {
        self.table = table;
    }

    pub(super) fn members(&mut self) -> &mut Sorted {
        &mut self.members
    }

    /// Makes room for what changes add, and for a list of so many objects on so many slots.
    fn fit(&mut self, changes: &Changes, written: usize, slots: usize) -> Result<(), EngineError> {
        if self.table.len() > 0 {
            self.found.fit(written)?;
        }
        if !self.stands.is_empty() || remembers(changes) {
            self.touched.fit(written, slots)?;
        }
        if self.stands.has_steps() {
            self.ways.fit(written, slots)?;
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

    /// Applies the changes of cycle `epoch`, for which there is room; whom they concern.
    fn apply(
        &mut self,
        kernels: &Kernels,
        changes: Changes,
        epoch: u64,
    ) -> Result<Vec<Follow>, EngineError> {
        let from = Lengths::of(&self.table);
        let (mut follows, mut marks) = (Vec::new(), Vec::new());
        let (mut cells, mut references, mut levels) = (Vec::new(), Vec::new(), 0);
        for (region, outcome) in outcomes(&self.table, changes) {
            let stood = self.table.number(region);
            let mut former = None;
            if let (true, Some(number)) = (outcome.is_ended, stood) {
                former = self.table.end(number).map(Former::Plain);
                former = self.stands.remove(region).map(Former::Kept).or(former);
                marks.push(number << 1 | 1);
            }
            let mut set = None;
            let number = match (outcome.set, stood) {
                (Some((subscription, filing)), _) => {
                    let needs = outcome.is_changed || !is_plain(&subscription);
                    set = needs.then(|| subscription.clone());
                    let number = self.table.add(region, subscription, epoch);
                    let flags = filing.cells.iter().map(|(_, flags)| *flags);
                    references.extend(flags.map(|flags| number << REFERENCE_BITS | flags));
                    cells.extend(filing.cells.iter().map(|(cell, _)| *cell));
                    levels |= filing.levels;
                    number
                }
                (None, Some(number)) if outcome.is_snapshot => {
                    self.table.standing[number as usize].silent = epoch as u32;
                    marks.push(number << 1);
                    number
                }
                _ => continue,
            };
            let former = former.filter(|_| outcome.is_changed);
            let is_plain = self.table.subscription(number).is_some_and(is_plain);
            if set.is_some() || outcome.is_snapshot {
                let is_snapshot = outcome.is_snapshot;
                follows.push(Follow { region, set, former, is_snapshot, is_plain });
            }
        }
        self.on_device.take(&self.stream, &self.table, from)?;
        self.marks.upload(&self.stream, 0, &marks)?;
        let (standing, marked) = (&self.on_device.standing, (&self.marks, marks.len()));
        kernels.subscription_mark(&self.stream, standing, marked, epoch)?;
        if !cells.is_empty() {
            self.index.add(&self.stream, (&cells, &references), levels)?;
        }
        if self.index.is_long() || self.table.is_worn() {
            self.tidy()?;
        }
        Ok(follows)
    }

    /// Numbers all regions anew and makes one table of both, if there is room.
    fn tidy(&mut self) -> Result<(), EngineError> {
        let numbers = self.table.numbering();
        match self.index.merge(&self.stream, &numbers) {
            Ok(()) => {}
            // Later, when there is room.
            Err(EngineError::OutOfMemory { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.table.renumber();
        self.on_device.take(&self.stream, &self.table, Lengths::default())?;
        self.stream.synchronize().map_err(fault)
    }

    /// Has the device watch whom the host has stands of; there is room for so many slots.
    fn watch(
        &mut self,
        kernels: &Kernels,
        index: (&IndexArgument, u64),
        slots: usize,
    ) -> Result<(), EngineError> {
        let stands = &mut self.stands;
        self.touched.watch((kernels, &self.stream), stands, index, slots)
    }

    /// Queues counting the events of what was gathered.
    fn count(
        &mut self,
        kernels: &Kernels,
        records: (crate::launch::RecordsArgument, u64),
        (remembers, has_steps): (bool, bool),
    ) -> Result<SceneArgument, EngineError> {
        self.found.sort(&self.stream)?;
        let (objects, slots, length) = self.found.sorted();
        let (tables, regions) = (self.index.arguments(), self.on_device.argument());
        let scene = SceneArgument::new(tables, regions, records, (objects, slots), length);
        self.found.count(kernels, &self.stream, &scene)?;
        if remembers {
            let ways = has_steps.then_some(&self.ways);
            self.touched.count((kernels, &self.stream), (&scene, length), ways)?;
        }
        Ok(scene)
    }
}

impl Driver {
    /// Makes room for a cycle's changes of the standing regions and its written objects.
    pub(in crate::pipeline) fn fit_subscriptions(
        &mut self,
        staged: &Staged,
    ) -> Result<(), EngineError> {
        let others = self.options.ttl_ms.is_some() || !staged.clears.is_empty();
        let others = if others { self.moved[(self.epoch as usize + 1) % 3].0.len() } else { 0 };
        let (written, slots) = (staged.rows as usize + others, self.records.capacity());
        self.subscriptions.fit(&staged.changes, written, slots)
    }

    /// Queues listing the objects that the cycle may have written, behind dispatch.
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
        found.gathered.fill(stream, 0, 1)?;
        let others = self.options.ttl_ms.is_some() || !staged.clears.is_empty();
        let (moved, _) = &self.moved[self.epoch as usize % 3];
        let ended = others.then_some((moved, &self.report));
        let records = (&cycle.index, &cycle.records);
        let (arrived, lists) = ((&self.slots, staged.rows), (&found.objects, &found.slots));
        kernels.subscription_gather(stream, arrived, ended, records, &found.gathered, lists)?;
        if subscriptions.stands.has_steps() {
            subscriptions.ways.widen((kernels, stream), cycle)?;
        }
        found.gathered.download(stream, 0, found.gathered_here.first(1))
    }

    /// Applies the cycle's changes and queues counting its events, once dispatch is done.
    pub(in crate::pipeline) fn begin_events(
        &mut self,
        staged: &mut Staged,
    ) -> Result<Begun, EngineError> {
        let changes = std::mem::take(&mut staged.changes);
        let has_steps = self.subscriptions.stands.has_steps();
        let steps = has_steps.then(|| self.arguments(staged));
        let (kernels, subscriptions) = (self.gpu.kernels.clone(), &mut self.subscriptions);
        let (stood, stands) = (subscriptions.gathers, &subscriptions.stands);
        let mut begun = Begun { remembers: !stands.is_empty(), steps, ..Begun::default() };
        if stood || !changes.is_empty() {
            begun.began = self.timeline.begin(&subscriptions.stream)?;
        }
        if begun.remembers {
            // Slots may have new numbers, and more of them: before a region ends whose members the
            // host has to see once more.
            let index = (&self.records.index(), self.records.key());
            subscriptions.watch(&kernels, index, self.records.capacity())?;
        }
        if !changes.is_empty() {
            begun.follows = subscriptions.apply(&kernels, changes, self.epoch)?;
        }
        let is_written = stood && subscriptions.found.sorted().2 > 0;
        if is_written && subscriptions.table.len() > 0 {
            let records = (self.records.argument(), self.epoch);
            // Members of regions that remember do not follow from the records: none may be missed.
            let may_lag = !begun.remembers;
            let remembers = (begun.remembers, has_steps);
            begun.scene = match subscriptions.count(&kernels, records, remembers) {
                Err(error) if !may_lag || !matches!(error, EngineError::OutOfMemory { .. }) => {
                    return Err(error);
                }
                counted => Some(counted),
            };
        }
        Ok(begun)
    }

    /// The cycle's events; those of the device may still be copied. Waits for their number.
    pub(in crate::pipeline) fn finish_events(
        &mut self,
        staged: &Staged,
        mut begun: Begun,
    ) -> Result<Events, EngineError> {
        let began = begun.began.take();
        if begun.scene.is_none() && begun.follows.is_empty() && !begun.remembers {
            return Ok(Events::Here(EventSet::default()));
        }
        let remembered = self.remember(staged, &mut begun)?;
        self.mark_done()?;
        let events = match self.tell(begun, remembered) {
            Err(EngineError::OutOfMemory { .. }) => {
                self.mark_done()?;
                let regions = self.subscriptions.table.iter();
                let lagged = regions.map(|(region, _)| HostMade::lagged(region));
                Events::of_host(lagged.collect())
            }
            other => other?,
        };
        let stream = &self.subscriptions.stream;
        self.timeline.end((self.epoch, "subscription"), began, stream)?;
        Ok(events)
    }

    /// Takes note that what was queued so far is all that reads records.
    fn mark_done(&mut self) -> Result<(), EngineError> {
        let done = self.subscriptions.stream.record_event(None).map_err(fault)?;
        self.subscriptions.done = Some(done);
        Ok(())
    }

    /// Looks at the cycle's objects for the regions that remember, and follows changes. What is
    /// told of them.
    fn remember(
        &mut self,
        staged: &Staged,
        begun: &mut Begun,
    ) -> Result<Result<Vec<HostMade>, EngineError>, EngineError> {
        let subscriptions = &mut self.subscriptions;
        let kernels = (&*self.gpu.kernels, &*subscriptions.stream);
        let mut seen = Vec::new();
        if let (Some(Ok(scene)), true) = (&begun.scene, begun.remembers) {
            seen = subscriptions.touched.take(kernels, scene)?;
        }
        if let Some(cycle) = begun.steps.filter(|_| !seen.is_empty()) {
            let arrived = subscriptions.ways.take(kernels, &cycle)?;
            let clears: Vec<u32> = staged.clears.iter().map(|(arrival, _)| *arrival).collect();
            arrivals::fill(&mut seen, &arrived, &clears);
        }
        let space = self.options.space;
        let now = CycleTime::new(&space, self.clock_ms);
        let mut stands = std::mem::replace(&mut self.subscriptions.stands, Stands::new(&space));
        let happened = judge(&mut stands, &now, &mut seen);
        let follows = std::mem::take(&mut begun.follows);
        let silent: BTreeSet<RegionId> = follows.iter().map(|follow| follow.region).collect();
        let remembers = !stands.is_empty() || follows.iter().any(|follow| !follow.is_plain);
        let followed = self.follow(follows, &seen, &mut stands);
        let index = (&self.records.index(), self.records.key());
        let subscriptions = &mut self.subscriptions;
        subscriptions.stands = stands;
        if remembers {
            subscriptions.watch(&self.gpu.kernels, index, self.records.capacity())?;
        }
        let mut made = match followed {
            Ok(made) => made,
            // Members that could not be asked for are lost where they are remembered.
            Err(error @ EngineError::OutOfMemory { .. }) if !remembers => return Ok(Err(error)),
            Err(error) => return Err(error),
        };
        let told = |(number, events): (u32, Vec<(EventKind, FixRow)>)| {
            let kept = subscriptions.stands.region(number)?;
            (!silent.contains(&kept.id)).then(|| kept.told(events))?
        };
        made.extend(happened.into_iter().filter_map(told));
        let due_ms = subscriptions.stands.due_ms();
        self.status.set(|now| now.due_ms = due_ms);
        Ok(Ok(made))
    }

    fn tell(
        &mut self,
        begun: Begun,
        remembered: Result<Vec<HostMade>, EngineError>,
    ) -> Result<Events, EngineError> {
        let made = remembered?;
        let scene = begun.scene.transpose()?;
        let stream = self.subscriptions.stream.clone();
        let mut counted = Happened::default();
        if let Some(scene) = &scene {
            stream.synchronize().map_err(fault)?;
            counted = self.subscriptions.found.counted();
            self.subscriptions.found.learn(scene);
        }
        let others = made.iter().map(|made| made.objects.len() as u64).sum::<u64>();
        let made = if counted.events + others > self.options.events_max {
            self.cut(scene.as_ref(), made)?
        } else {
            made
        };
        let subscriptions = &mut self.subscriptions;
        let Some(scene) = scene.filter(|_| subscriptions.found.counted().events > 0) else {
            return Ok(Events::of_host(made));
        };
        let others = made.iter().map(HostMade::beside).sum::<usize>();
        let regions = (&subscriptions.on_device, subscriptions.table.numbers());
        let (streams, parity) = ((&stream, &self.copy_out), self.epoch as usize % 2);
        let found = &mut subscriptions.found;
        let of = (parity, others);
        let (columns, done) = found.write(&self.gpu.kernels, streams, &scene, regions, of)?;
        subscriptions.done = Some(done);
        Ok(Events::of_both(columns, made))
    }
}
