//! The lists of a cycle's events on the device.
//!
//! Written objects are gathered and sorted; their events are counted, written in that order and
//! stably sorted by region, so that they are ordered by (region, object). Columns are copied from
//! one of two sets while the next cycle fills the other.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::EngineError;
use shoal_engine::layout::{AnswerRecord, EventCounts, RegionHead, SAMPLED_BLOCKS, WrittenObjects};

use super::events::Columns;
use crate::launch::{
    DeviceBuffer, DeviceSlice, Kernels, Listed, Memory, PinnedBuffer, SceneArgument, Scratch, fault,
};
use crate::stages::answers::Pool;
use crate::state::regions::device_queries::DeviceQueries;

/// References per object above which several threads share them; once they do, one thread visits
/// them again if there are at most [`LONG_AGAIN`]. Guesses.
const LONG: u64 = 8;
const LONG_AGAIN: u64 = 6;

/// Columns on the device.
#[derive(Debug)]
struct Out {
    objects: DeviceBuffer<u64>,
    kinds: DeviceBuffer<u8>,
    region_heads: DeviceBuffer<RegionHead>,
    fixes: DeviceBuffer<AnswerRecord>,
    /// By event: the number of regions whose events begin before it; after the last, the number of
    /// all regions with events.
    heads: DeviceBuffer<u32>,
    copied: Option<Arc<CudaEvent>>,
}

/// See the file's head; grows, never shrinks.
#[derive(Debug)]
pub(super) struct DeviceEvents {
    pub(super) written_objects: DeviceBuffer<WrittenObjects>,
    pub(super) written_objects_host: PinnedBuffer<WrittenObjects>,
    pub(super) objects: DeviceBuffer<u64>,
    pub(super) slots: DeviceBuffer<u32>,
    sorted_objects: DeviceBuffer<u64>,
    pub(super) sorted_slots: DeviceBuffer<u32>,
    counts: DeviceBuffer<u32>,
    /// Objects with events, in no particular order.
    busy: DeviceBuffer<u32>,
    offsets: DeviceBuffer<u64>,
    event_counts: DeviceBuffer<EventCounts>,
    event_counts_host: PinnedBuffer<EventCounts>,
    /// Whether bins are so long that several threads share them.
    is_long: bool,
    events_host: PinnedBuffer<u64>,
    keys: DeviceBuffer<u32>,
    entries: DeviceBuffer<u32>,
    sorted_keys: DeviceBuffer<u32>,
    sorted_entries: DeviceBuffer<u32>,
    marks: DeviceBuffer<u32>,
    fix_marks: DeviceBuffer<u32>,
    fix_places: DeviceBuffer<u32>,
    tallies: DeviceBuffer<u32>,
    out: [Out; 2],
    scratch: Scratch,
    pub(super) words: Pool<u64>,
    pub(super) bytes: Pool<u8>,
    region_heads: Pool<RegionHead>,
    numbers: Pool<u32>,
    answered: Pool<AnswerRecord>,
}

impl DeviceEvents {
    pub(super) fn new(memory: &Memory) -> Result<Self, EngineError> {
        let numbers = || DeviceBuffer::<u32>::new(memory, 1);
        let words = || DeviceBuffer::<u64>::new(memory, 1);
        let out = || -> Result<Out, EngineError> {
            Ok(Out {
                objects: words()?,
                kinds: DeviceBuffer::new(memory, 1)?,
                region_heads: DeviceBuffer::new(memory, 1)?,
                fixes: DeviceBuffer::new(memory, 1)?,
                heads: numbers()?,
                copied: None,
            })
        };
        Ok(Self {
            written_objects: DeviceBuffer::new(memory, 1)?,
            written_objects_host: PinnedBuffer::new(memory, 1)?,
            objects: words()?,
            slots: numbers()?,
            sorted_objects: words()?,
            sorted_slots: numbers()?,
            counts: numbers()?,
            busy: numbers()?,
            offsets: words()?,
            event_counts: DeviceBuffer::new(memory, 1)?,
            event_counts_host: PinnedBuffer::new(memory, 1)?,
            is_long: false,
            events_host: PinnedBuffer::new(memory, 1)?,
            keys: numbers()?,
            entries: numbers()?,
            sorted_keys: numbers()?,
            sorted_entries: numbers()?,
            marks: numbers()?,
            fix_marks: numbers()?,
            fix_places: numbers()?,
            tallies: numbers()?,
            out: [out()?, out()?],
            scratch: Scratch::new(memory)?,
            words: Pool::new(memory),
            bytes: Pool::new(memory),
            region_heads: Pool::new(memory),
            numbers: Pool::new(memory),
            answered: Pool::new(memory),
        })
    }

    /// Reserves memory for a list of written objects.
    pub(super) fn fit(&mut self, length: usize) -> Result<(), EngineError> {
        self.objects.fit(length)?;
        self.slots.fit(length).map(drop)
    }

    /// Sorts the gathered objects.
    pub(super) fn sort(&mut self, stream: &CudaStream) -> Result<(), EngineError> {
        let WrittenObjects { bits, length, .. } = self.written_objects_host.as_slice()[0];
        self.sorted_objects.fit(length as usize)?;
        self.sorted_slots.fit(length as usize)?;
        let from = (DeviceSlice::of(&self.objects), DeviceSlice::of(&self.slots));
        let to = (DeviceSlice::of(&self.sorted_objects), DeviceSlice::of(&self.sorted_slots));
        self.scratch.sort_pairs(stream, from, to, length, u64::BITS - bits.leading_zeros())
    }

    /// The gathered objects in order, and their number.
    pub(super) fn sorted(&self) -> (&DeviceBuffer<u64>, &DeviceBuffer<u32>, u32) {
        let length = self.written_objects_host.as_slice()[0].length;
        (&self.sorted_objects, &self.sorted_slots, length)
    }

    /// Queues the kernels and copies that count the events. The counts can be read once the stream
    /// has completed them.
    pub(super) fn count(
        &mut self,
        kernels: &Kernels,
        stream: &CudaStream,
        scene: &SceneArgument,
    ) -> Result<(), EngineError> {
        let length = self.written_objects_host.as_slice()[0].length as usize;
        self.counts.fit(length + 1)?;
        self.busy.fit(length)?;
        self.offsets.fit(length + 1)?;
        self.event_counts.fill(stream, 0, 1)?;
        kernels.subscription_count(
            stream,
            scene,
            self.is_long,
            &self.counts,
            &self.busy,
            &self.event_counts,
        )?;
        let entries = length as u32 + 1;
        self.scratch.sum_before(stream, &self.counts, &self.offsets, entries)?;
        self.event_counts.download(stream, 0, self.event_counts_host.first(1))?;
        self.offsets.download(stream, length, self.events_host.first(1))
    }

    /// Chooses for the next cycle whether threads share references, by the number of visited ones.
    pub(super) fn learn(&mut self, scene: &SceneArgument) {
        // Overestimates cycles with few blocks, which are not slower with several threads per
        // object.
        let visited = self.event_counts_host.as_slice()[0].visited * u64::from(SAMPLED_BLOCKS);
        let most = u64::from(scene.length()) * if self.is_long { LONG_AGAIN } else { LONG };
        self.is_long = visited > most;
    }

    /// The counts.
    pub(super) fn counted(&self) -> EventCounts {
        EventCounts {
            events: self.events_host.as_slice()[0],
            ..self.event_counts_host.as_slice()[0]
        }
    }

    /// The number of events of each query, by its number; waits.
    pub(super) fn tally(
        &mut self,
        kernels: &Kernels,
        stream: &CudaStream,
        scene: &SceneArgument,
        numbers: usize,
    ) -> Result<Vec<u32>, EngineError> {
        let mut tallies = vec![0; numbers];
        self.tallies.fit(numbers)?;
        self.tallies.fill(stream, 0, numbers)?;
        kernels.subscription_tally(stream, scene, &self.tallies, numbers)?;
        self.tallies.download(stream, 0, &mut tallies)?;
        stream.synchronize().map_err(fault)?;
        Ok(tallies)
    }

    /// Writes the events that were counted, sorts them and copies them out, with capacity for
    /// `others` more events of the host. `numbers` is the number of region numbers in use. The
    /// event is set when records are no longer read.
    pub(super) fn write(
        &mut self,
        kernels: &Kernels,
        (stream, copy_out): (&Arc<CudaStream>, &Arc<CudaStream>),
        scene: &SceneArgument,
        (regions, numbers): (&DeviceQueries, usize),
        (parity, others): (usize, usize),
    ) -> Result<(Box<Columns>, CudaEvent), EngineError> {
        let EventCounts { events, fixes, busy, .. } = self.counted();
        let (events, fixes) = (events as usize, fixes as usize);
        self.fit_events(events, numbers, parity, fixes)?;
        // All pinned memory is allocated before anything is queued.
        let mut objects = self.words.take(events + others)?;
        let mut kinds = self.bytes.take(events + others)?;
        let mut region_heads = self.region_heads.take(events.min(numbers))?;
        let mut count = self.numbers.take(1)?;
        let mut answered = self.answered.take(fixes)?;
        let written = Listed { keys: &self.keys, entries: &self.entries, length: events };
        kernels.subscription_write(
            stream,
            scene,
            self.is_long,
            &self.busy,
            busy,
            &self.offsets,
            &written,
        )?;
        let mut done = stream.record_event(None).map_err(fault)?;
        let from = (&self.keys, &self.entries);
        let to = (&self.sorted_keys, &self.sorted_entries);
        let bits = usize::BITS - numbers.leading_zeros();
        self.scratch.sort_pairs(stream, from, to, events as u32, bits)?;
        let sorted =
            Listed { keys: &self.sorted_keys, entries: &self.sorted_entries, length: events };
        kernels.subscription_heads(
            stream,
            &sorted,
            &regions.queries,
            &self.marks,
            (fixes > 0).then_some(&self.fix_marks),
        )?;
        let length = events as u32 + 1;
        let out = &mut self.out[parity];
        if let Some(copied) = &out.copied {
            stream.wait(copied).map_err(fault)?;
        }
        self.scratch.sum_before(stream, &self.marks, &out.heads, length)?;
        let (what, columns) = ((&regions.queries, &regions.ids), (&out.objects, &out.kinds));
        let heads_device = (&out.region_heads, numbers);
        let of = (scene, &sorted);
        kernels.subscription_columns(stream, of, &out.heads, what, columns, heads_device)?;
        if fixes > 0 {
            self.scratch.sum_before(stream, &self.fix_marks, &self.fix_places, length)?;
            let places = &self.fix_places;
            kernels.subscription_fixes(stream, of, places, (&out.fixes, fixes))?;
            done = stream.record_event(None).map_err(fault)?;
        }
        copy_out.wait(&stream.record_event(None).map_err(fault)?).map_err(fault)?;
        out.objects.download(copy_out, 0, objects.first(events))?;
        out.kinds.download(copy_out, 0, kinds.first(events))?;
        out.region_heads.download(copy_out, 0, region_heads.target())?;
        out.fixes.download(copy_out, 0, answered.target())?;
        out.heads.download(copy_out, events, count.target())?;
        let copied = Arc::new(copy_out.record_event(None).map_err(fault)?);
        out.copied = Some(copied.clone());
        let (regions, fixes) = (count, answered);
        let columns =
            Columns { copied, events, objects, kinds, heads: region_heads, regions, fixes };
        Ok((Box::new(columns), done))
    }

    fn fit_events(
        &mut self,
        events: usize,
        numbers: usize,
        parity: usize,
        fixes: usize,
    ) -> Result<(), EngineError> {
        let lists = [
            &mut self.keys,
            &mut self.entries,
            &mut self.sorted_keys,
            &mut self.sorted_entries,
            &mut self.marks,
        ];
        for list in lists {
            list.fit(events + 1)?;
        }
        if fixes > 0 {
            self.fix_marks.fit(events + 1)?;
            self.fix_places.fit(events + 1)?;
        }
        let out = &mut self.out[parity];
        out.heads.fit(events + 1)?;
        out.objects.fit(events)?;
        out.kinds.fit(events)?;
        out.region_heads.fit(events.min(numbers))?;
        out.fixes.fit(fixes).map(drop)
    }
}
