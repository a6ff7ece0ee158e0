//! The records of objects on the device, by slot, and the secondary index from object to slot.
//!
//! Grows before a cycle that might need it. While cycles run, a slot is never reassigned, so
//! queries read consistent records. When most slots are dead, growth compacts the live ones.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use rayon::prelude::*;
use shoal_codec::FixRow;
use shoal_engine::layout::{AnswerRecord, Entry, Optional, Place, Version};
use shoal_engine::limits::SNAPSHOT_BATCH_ROWS;
use shoal_engine::{EngineError, HashKey};

use crate::launch::{
    DeviceBuffer, IndexArgument, Kernels, Memory, PinnedBuffer, RecordsArgument, fault,
};
use crate::state::record::{answered, optional};

/// Most slots. Their index has 1.5 * 2^30 places, so the number of a place leaves the high bit free
/// for `SLOT_PENDING` (`kernels/records/index.cuh`).
const SLOTS_MAX: usize = 1 << 30;
const SLOTS_MIN: usize = 1 << 12;
/// Up to this number of slots, records grow by a half, to copy them rarely; beyond it, they grow by
/// a 32nd, to waste little memory.
const SLOTS_SHORT: usize = 1 << 22;
/// Records that are uploaded at a time.
const UPLOAD_ROWS: usize = SNAPSHOT_BATCH_ROWS;

/// Everything by slot except the places of the grids.
#[derive(Debug)]
pub(crate) struct Records {
    memory: Memory,
    kernels: Arc<Kernels>,
    key: HashKey,
    places: DeviceBuffer<Place>,
    pub(crate) objects: DeviceBuffer<u64>,
    versions: DeviceBuffer<Version>,
    optional: Option<DeviceBuffer<Optional>>,
    /// The newest positions; `slot` is NO_SLOT if there is no object. Stage update owns them:
    /// dispatch of the next cycle may run concurrently.
    pub(crate) current: DeviceBuffer<Entry>,
    /// The winners of a running cycle; 0 between cycles.
    pub(crate) best: DeviceBuffer<u64>,
    /// By slot: the last epoch in which it moved; one list for even and one for odd epochs.
    pub(crate) stamps: [DeviceBuffer<u32>; 2],
    /// Slots in use.
    pub(crate) slots: u32,
}

impl Records {
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        stream: &CudaStream,
        key: HashKey,
    ) -> Result<Self, EngineError> {
        let slots = SLOTS_MIN;
        let records = Self {
            memory: memory.clone(),
            kernels: kernels.clone(),
            key,
            places: DeviceBuffer::new(memory, places_of(slots))?,
            objects: DeviceBuffer::new(memory, slots)?,
            versions: DeviceBuffer::new(memory, 2 * slots)?,
            optional: None,
            current: DeviceBuffer::new(memory, slots)?,
            best: DeviceBuffer::new(memory, slots)?,
            stamps: [DeviceBuffer::new(memory, slots)?, DeviceBuffer::new(memory, slots)?],
            slots: 0,
        };
        records.places.fill(stream, 0xFF, places_of(slots))?;
        records.current.fill(stream, 0xFF, slots)?;
        stream.synchronize().map_err(fault)?;
        Ok(records)
    }

    /// Capacity in slots.
    pub(crate) fn capacity(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn index(&self) -> IndexArgument {
        IndexArgument::new(&self.places, self.key)
    }

    pub(crate) fn argument(&self) -> RecordsArgument {
        let optional = self.optional.as_ref();
        RecordsArgument::new(&self.objects, &self.versions, optional)
    }

    pub(crate) fn has_optional(&self) -> bool {
        self.optional.is_some()
    }

    /// Allocates attributes. Nothing may run on the device.
    pub(crate) fn fit_optional(&mut self, stream: &CudaStream) -> Result<(), EngineError> {
        if self.optional.is_none() {
            let optional = DeviceBuffer::new(&self.memory, 2 * self.capacity())?;
            self.kernels.records_unknown(stream, &optional, 0)?;
            stream.synchronize().map_err(fault)?;
            self.optional = Some(optional);
        }
        Ok(())
    }

    /// Whether the capacity suffices for `more` slots.
    pub(crate) fn fits(&self, more: usize) -> bool {
        self.slots as usize + more <= self.capacity()
    }

    /// Whether growth should renumber the slots in use; `objects` of them are alive.
    pub(crate) fn packs(&self, objects: u64) -> bool {
        let dead = u64::from(self.slots).saturating_sub(objects);
        dead > objects.max(SLOTS_MIN as u64)
    }

    /// Computes the capacity for `more` slots: the required slots plus a half or a 32nd, or fewer
    /// if memory is short. `others` returns the bytes of everything else for a number of slots.
    ///
    /// # Errors
    /// [`EngineError::Limit`] and [`EngineError::OutOfMemory`].
    pub(crate) fn capacity_for(
        &self,
        more: usize,
        objects: u64,
        with_optional: bool,
        others: impl Fn(usize) -> u64,
    ) -> Result<usize, EngineError> {
        let present = self.capacity();
        let mut needed = self.slots as usize + more;
        let mut beside = 0;
        if needed > present && self.packs(objects) {
            // The records of all slots, copied to the host.
            beside += self.slots as usize * size_of::<AnswerRecord>();
            needed = objects as usize + more;
        }
        if needed > present {
            // While a list grows, it exists twice.
            let places = self.places.len() * size_of::<Place>();
            beside += places.max(2 * present * size_of::<Version>());
        }
        if needed > SLOTS_MAX {
            let (value, limit) = (needed as u64, SLOTS_MAX as u64);
            return Err(EngineError::Limit {
                what: "objects of a fleet on a device",
                value,
                limit,
            });
        }
        let bytes = |slots: usize, with_optional| bytes_of(slots, with_optional) + others(slots);
        let granted = |spare: usize| {
            let slots = if needed > present { (needed + spare).min(SLOTS_MAX) } else { present };
            let growth =
                bytes(slots, with_optional).saturating_sub(bytes(present, self.has_optional()));
            self.memory.has(growth + beside as u64).map(|()| slots)
        };
        let spare = if needed > SLOTS_SHORT { needed / 32 } else { needed / 2 };
        granted(spare).or_else(|_| granted(needed / 64)).or_else(|_| granted(0))
    }

    /// Grows to `capacity` slots in total. A failure changes no record, and the call may be
    /// repeated. Nothing may run on the device.
    pub(crate) fn grow(&mut self, stream: &CudaStream, capacity: usize) -> Result<(), EngineError> {
        let (memory, slots) = (self.memory.clone(), self.slots as usize);
        if self.current.len() < capacity {
            let current = DeviceBuffer::new(&memory, capacity)?;
            current.fill(stream, 0xFF, capacity)?;
            replace_by(stream, &mut self.current, current, slots)?;
        }
        widen(&memory, stream, &mut self.versions, 2 * capacity, 2 * slots)?;
        if let Some(optional) = &mut self.optional
            && optional.len() < 2 * capacity
        {
            let more = DeviceBuffer::new(&memory, 2 * capacity)?;
            self.kernels.records_unknown(stream, &more, 0)?;
            replace_by(stream, optional, more, 2 * slots)?;
        }
        for stamps in &mut self.stamps {
            widen(&memory, stream, stamps, capacity, slots)?;
        }
        widen(&memory, stream, &mut self.best, capacity, 0)?;
        self.fill_index(stream, capacity)?;
        // Grown last, because its length is the capacity.
        widen(&memory, stream, &mut self.objects, capacity, slots)
    }

    fn fill_index(&mut self, stream: &CudaStream, capacity: usize) -> Result<(), EngineError> {
        let places = places_of(capacity);
        if places > self.places.len() {
            self.places = DeviceBuffer::new(&self.memory, places)?;
        }
        self.places.fill(stream, 0xFF, self.places.len())?;
        self.kernels.records_index(stream, &self.index(), &self.objects, self.slots)?;
        stream.synchronize().map_err(fault)
    }

    /// Copies the records of all slots after cycle `epoch`, on the device. Nothing may run there.
    pub(crate) fn copy(
        &self,
        stream: &CudaStream,
        epoch: u64,
    ) -> Result<DeviceBuffer<AnswerRecord>, EngineError> {
        let records = DeviceBuffer::new(&self.memory, self.slots as usize)?;
        self.kernels.records_export(stream, &self.argument(), self.slots, epoch, &records)?;
        Ok(records)
    }

    /// The records of all objects after cycle `epoch`. Nothing may run on the device.
    pub(crate) fn download(
        &self,
        stream: &CudaStream,
        epoch: u64,
    ) -> Result<Vec<AnswerRecord>, EngineError> {
        let records = self.copy(stream, epoch)?;
        let mut rows = vec![AnswerRecord::default(); self.slots as usize];
        records.download(stream, 0, &mut rows)?;
        stream.synchronize().map_err(fault)?;
        rows.retain(|row| row.found != 0);
        Ok(rows)
    }

    /// Renumbers the slots of live objects from 0, after cycle `epoch`. Nothing may run on the
    /// device.
    pub(crate) fn pack(&mut self, stream: &CudaStream, epoch: u64) -> Result<(), EngineError> {
        let rows = self.download(stream, epoch)?;
        self.replace(stream, &rows)
    }

    /// Replaces all records by these. Nothing may run on the device.
    pub(crate) fn replace(
        &mut self,
        stream: &CudaStream,
        rows: &[AnswerRecord],
    ) -> Result<(), EngineError> {
        let parts = rows.chunks(UPLOAD_ROWS).map(|rows| rows.par_iter().copied());
        self.replace_by_parts(stream, rows.len(), parts)
    }

    /// As [`Self::replace`], with `count` records in parts of at most [`UPLOAD_ROWS`].
    pub(crate) fn replace_by_parts<R: IndexedParallelIterator<Item = AnswerRecord> + Clone>(
        &mut self,
        stream: &CudaStream,
        count: usize,
        parts: impl Iterator<Item = R> + Clone,
    ) -> Result<(), EngineError> {
        let unknown = unknown();
        let has_optional = self.has_optional()
            || parts.clone().any(|rows| rows.any(|row| optional(&row) != unknown));
        let upload = || Upload::new(&self.memory, count.min(UPLOAD_ROWS), has_optional);
        // One is filled while the other is copied.
        let mut uploads = [upload()?, upload()?];
        self.slots = 0;
        if count > self.capacity() {
            let capacity = self.capacity_for(count, 0, self.has_optional(), |_| 0)?;
            self.grow(stream, capacity)?;
        }
        if has_optional {
            self.fit_optional(stream)?;
        }
        self.versions.fill(stream, 0, self.versions.len())?;
        self.current.fill(stream, 0xFF, self.capacity())?;
        let mut at = 0;
        for (number, rows) in parts.enumerate() {
            let upload = &mut uploads[number % 2];
            let rows = upload.fill(at, rows);
            self.upload(stream, upload, at, rows)?;
            at += rows;
        }
        self.slots = count as u32;
        self.fill_index(stream, self.capacity())
    }

    /// Copies `rows` records to the slots from `at` on.
    fn upload(
        &self,
        stream: &CudaStream,
        upload: &Upload,
        at: usize,
        rows: usize,
    ) -> Result<(), EngineError> {
        self.objects.upload(stream, at, upload.objects.part(0..rows))?;
        self.versions.upload(stream, 2 * at, upload.versions.part(0..2 * rows))?;
        if let Some((buffer, optional)) = self.optional.as_ref().zip(upload.optional.as_ref()) {
            buffer.upload(stream, 2 * at, optional.part(0..2 * rows))?;
        }
        self.current.upload(stream, at, upload.current.part(0..rows))
    }
}

/// Records on their way to the device, two versions a slot.
struct Upload {
    objects: PinnedBuffer<u64>,
    versions: PinnedBuffer<Version>,
    optional: Option<PinnedBuffer<Optional>>,
    current: PinnedBuffer<Entry>,
}

impl Upload {
    fn new(memory: &Memory, rows: usize, has_optional: bool) -> Result<Self, EngineError> {
        let optional = has_optional.then(|| PinnedBuffer::new(memory, 2 * rows)).transpose()?;
        Ok(Self {
            objects: PinnedBuffer::new(memory, rows)?,
            versions: PinnedBuffer::new(memory, 2 * rows)?,
            optional,
            current: PinnedBuffer::new(memory, rows)?,
        })
    }

    /// Takes the records of the slots from `at` on, on all cores; returns their number.
    fn fill(
        &mut self,
        at: usize,
        rows: impl IndexedParallelIterator<Item = AnswerRecord> + Clone,
    ) -> usize {
        if let Some(optional_values) = &mut self.optional {
            let unknown = unknown();
            let pairs = optional_values.as_mut_slice().par_chunks_exact_mut(2);
            pairs.zip(rows.clone()).for_each(|(pair, row)| {
                pair.copy_from_slice(&[optional(&row), unknown]);
            });
        }
        let count = rows.len();
        let objects = self.objects.as_mut_slice().par_iter_mut();
        let versions = self.versions.as_mut_slice().par_chunks_exact_mut(2);
        let places = objects.zip(versions).zip(self.current.as_mut_slice()).enumerate();
        places.zip(rows).for_each(|((number, ((object, versions), entry)), row)| {
            let AnswerRecord { time_ms, x, y, state, .. } = row;
            *object = row.object;
            // The other version is zero.
            versions[0] = Version { time_ms, epoch: 0, x, y, state, alive: 1 };
            *entry = Entry { x, y, slot: (at + number) as u32, state };
        });
        count
    }
}

/// The optional values of a record without any.
fn unknown() -> Optional {
    optional(&answered(&FixRow::new(0, 0, 0, 0)))
}

/// Bytes of everything by slot, and of the index, for a number of slots.
fn bytes_of(slots: usize, with_optional: bool) -> u64 {
    let optional = if with_optional { 2 * size_of::<Optional>() } else { 0 };
    let lists = 2 * size_of::<u64>() + 2 * size_of::<u32>();
    let each = 2 * size_of::<Version>() + size_of::<Entry>() + lists + optional;
    let places = places_of(slots) * size_of::<Place>();
    (places + slots * each) as u64
}

/// Places of the index for this number of slots; at most two thirds are taken.
fn places_of(slots: usize) -> usize {
    slots + slots / 2
}

/// Grows to `capacity` values; preserves the first `length`.
pub(crate) fn widen<T: crate::launch::Plain>(
    memory: &Memory,
    stream: &CudaStream,
    buffer: &mut DeviceBuffer<T>,
    capacity: usize,
    length: usize,
) -> Result<(), EngineError> {
    if buffer.len() >= capacity {
        return Ok(());
    }
    replace_by(stream, buffer, DeviceBuffer::new(memory, capacity)?, length)
}

/// Copies the first `length` values of `buffer` to `into`, which replaces it.
fn replace_by<T: crate::launch::Plain>(
    stream: &CudaStream,
    buffer: &mut DeviceBuffer<T>,
    into: DeviceBuffer<T>,
    length: usize,
) -> Result<(), EngineError> {
    into.copy_from(stream, buffer, length)?;
    stream.synchronize().map_err(fault)?;
    *buffer = into;
    Ok(())
}
