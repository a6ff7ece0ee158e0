//! Stage subscription as the driver queues it: changes of the standing regions, then what the
//! cycle's records came to in them.
//!
//! Runs on a stream of its own behind dispatch, beside update and queries; the next cycle writes no
//! record before it is done. Without standing regions nothing is queued. What does not fit memory
//! is told as lagged: memberships follow from the records, so none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::layout::{Happened, REFERENCE_BITS};
use shoal_engine::{EngineError, EventSet, RegionId};

use super::bins::Index;
use super::changes::{Changes, outcomes};
use super::found::Found;
use super::members::Follow;
use super::on_device::{Lengths, OnDevice};
use super::table::Table;
use super::told::{Events, HostMade};
use crate::launch::{CycleRows, DeviceBuffer, Kernels, Memory, SceneArgument, fault};
use crate::pipeline::asking::Sorted;
use crate::pipeline::driver::Driver;
use crate::pipeline::staging::Staged;

/// The standing regions of a fleet on the device.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    stream: Arc<CudaStream>,
    table: Table,
    index: Index,
    on_device: OnDevice,
    found: Found,
    members: Sorted,
    marks: DeviceBuffer<u32>,
    /// Whether the objects that the running cycle wrote are listed.
    gathers: bool,
    /// Set when nothing of the stage reads records any more.
    done: Option<CudaEvent>,
}

/// What was begun of a cycle's events.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    follows: Vec<Follow>,
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
    ) -> Result<Self, EngineError> {
        Ok(Self {
            stream,
            table: Table::default(),
            index: Index::new(memory, kernels)?,
            on_device: OnDevice::new(memory)?,
            found: Found::new(memory)?,
            members: Sorted::new(memory)?,
            marks: DeviceBuffer::new(memory, 1)?,
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

    pub(super) fn take_table(&mut self) -> Table {
        std::mem::take(&mut self.table)
    }

    pub(super) fn put_table(&mut self, table: Table) {
        self.table = table;
    }

    pub(super) fn members(&mut self) -> &mut Sorted {
        &mut self.members
    }

    /// Makes room for what changes add, and for a list of so many written objects.
    fn fit(&mut self, changes: &Changes, written: usize) -> Result<(), EngineError> {
        if self.table.len() > 0 {
            self.found.fit(written)?;
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
            let mut old = None;
            if let (true, Some(number)) = (outcome.is_ended, stood) {
                old = self.table.end(number);
                marks.push(number << 1 | 1);
            }
            let number = match (outcome.set, stood) {
                (Some((subscription, filing)), _) => {
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
            let old = old.filter(|_| outcome.is_changed);
            follows.push(Follow { region, number, old, is_snapshot: outcome.is_snapshot });
        }
        self.on_device.take(&self.stream, &self.table, from)?;
        self.marks.upload(&self.stream, 0, &marks)?;
        let (standing, marked) = (&self.on_device.standing, (&self.marks, marks.len()));
        kernels.subscription_mark(&self.stream, standing, marked, epoch)?;
        if !cells.is_empty() {
            self.index.add(&self.stream, (&cells, &references), levels)?;
        }
        if self.index.is_long() || self.table.is_worn() {
            self.tidy(&mut follows)?;
        }
        Ok(follows)
    }

    /// Numbers all regions anew and makes one table of both, if there is room.
    fn tidy(&mut self, follows: &mut [Follow]) -> Result<(), EngineError> {
        let numbers = self.table.numbering();
        match self.index.merge(&self.stream, &numbers) {
            Ok(()) => {}
            // Later, when there is room.
            Err(EngineError::OutOfMemory { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.table.renumber();
        for follow in follows {
            follow.number = numbers[follow.number as usize];
        }
        self.on_device.take(&self.stream, &self.table, Lengths::default())?;
        self.stream.synchronize().map_err(fault)
    }

    /// Queues counting the events of what was gathered.
    fn count(
        &mut self,
        kernels: &Kernels,
        records: (crate::launch::RecordsArgument, u64),
    ) -> Result<SceneArgument, EngineError> {
        self.found.sort(&self.stream)?;
        let (objects, slots, length) = self.found.sorted();
        let (tables, regions) = (self.index.arguments(), self.on_device.argument());
        let scene = SceneArgument::new(tables, regions, records, (objects, slots), length);
        self.found.count(kernels, &self.stream, &scene)?;
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
        self.subscriptions.fit(&staged.changes, staged.rows as usize + others)
    }

    /// Queues listing the objects whose record the cycle writes, behind dispatch.
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
        let records = (&cycle.index, &cycle.records, self.epoch);
        let (arrived, lists) = ((&self.slots, staged.rows), (&found.objects, &found.slots));
        kernels.subscription_gather(stream, arrived, ended, records, &found.gathered, lists)?;
        found.gathered.download(stream, 0, &mut found.gathered_here.as_mut_slice()[..1])
    }

    /// Applies the cycle's changes and queues counting its events, once dispatch is done.
    pub(in crate::pipeline) fn begin_events(
        &mut self,
        staged: &mut Staged,
    ) -> Result<Begun, EngineError> {
        let changes = std::mem::take(&mut staged.changes);
        let (kernels, subscriptions) = (self.gpu.kernels.clone(), &mut self.subscriptions);
        let stood = subscriptions.gathers;
        let mut begun = Begun::default();
        if stood || !changes.is_empty() {
            begun.began = self.timeline.begin(&subscriptions.stream)?;
        }
        if !changes.is_empty() {
            begun.follows = subscriptions.apply(&kernels, changes, self.epoch)?;
        }
        let is_written = stood && subscriptions.found.sorted().2 > 0;
        if is_written && subscriptions.table.len() > 0 {
            let records = (self.records.argument(), self.epoch);
            begun.scene = match subscriptions.count(&kernels, records) {
                Err(error) if !matches!(error, EngineError::OutOfMemory { .. }) => {
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
        mut begun: Begun,
    ) -> Result<Events, EngineError> {
        let began = begun.began.take();
        if begun.scene.is_none() && begun.follows.is_empty() {
            return Ok(Events::Here(EventSet::default()));
        }
        let events = match self.tell(begun) {
            Err(EngineError::OutOfMemory { .. }) => {
                let regions = self.subscriptions.table.iter();
                let lagged = regions.map(|(region, _)| HostMade::lagged(region));
                Events::of_host(lagged.collect())
            }
            other => other?,
        };
        let stream = &self.subscriptions.stream;
        self.timeline.end((self.epoch, "subscription"), began, stream)?;
        self.subscriptions.done = Some(stream.record_event(None).map_err(fault)?);
        Ok(events)
    }

    fn tell(&mut self, begun: Begun) -> Result<Events, EngineError> {
        let made = self.follow(&begun.follows)?;
        let scene = begun.scene.transpose()?;
        let stream = self.subscriptions.stream.clone();
        let mut counted = Happened::default();
        if scene.is_some() {
            stream.synchronize().map_err(fault)?;
            counted = self.subscriptions.found.counted();
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
        let others = made.iter().map(|made| made.objects.len()).sum::<usize>();
        let regions = (&subscriptions.on_device, subscriptions.table.numbers());
        let (streams, parity) = ((&stream, &self.copy_out), self.epoch as usize % 2);
        let found = &mut subscriptions.found;
        let columns = found.write(&self.gpu.kernels, streams, &scene, regions, (parity, others))?;
        Ok(Events::of_both(columns, made))
    }

    /// Lets those regions lag whose events do not fit beside those of lower ids; what the host made
    /// of the others. Waits.
    fn cut(
        &mut self,
        scene: Option<&SceneArgument>,
        made: Vec<HostMade>,
    ) -> Result<Vec<HostMade>, EngineError> {
        let subscriptions = &mut self.subscriptions;
        let (kernels, stream) = (&self.gpu.kernels, &subscriptions.stream);
        let (table, found) = (&mut subscriptions.table, &mut subscriptions.found);
        let mut tallies = Vec::new();
        if let Some(scene) = scene {
            tallies = found.tally(kernels, stream, scene, table.numbers())?;
        }
        let mut made: BTreeMap<_, _> = made.into_iter().map(|made| (made.region, made)).collect();
        let (mut kept, mut marks, mut told) = (Vec::new(), Vec::new(), 0);
        for (region, number) in table.iter() {
            let tally = tallies.get(number as usize).map_or(0, |tally| u64::from(*tally));
            let own = made.remove(&region);
            let events = own.as_ref().map_or(tally, |made| made.objects.len() as u64);
            if told + events <= self.options.events_max {
                told += events;
                kept.extend(own);
                continue;
            }
            kept.push(HostMade::lagged(region));
            if own.is_none() {
                marks.push(number << 1);
            }
        }
        if let (Some(scene), false) = (scene, marks.is_empty()) {
            for mark in &marks {
                table.standing[(mark >> 1) as usize].silent = self.epoch as u32;
            }
            subscriptions.marks.fit(marks.len())?;
            subscriptions.marks.upload(stream, 0, &marks)?;
            let (standing, marked) =
                (&subscriptions.on_device.standing, (&subscriptions.marks, marks.len()));
            kernels.subscription_mark(stream, standing, marked, self.epoch)?;
            found.count(kernels, stream, scene)?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(kept)
    }
}
