//! The tables that map a cell to its continuous queries on the device: a large one, and a small one
//! with later additions.
//!
//! Additions are listed. The small table is rebuilt from the list whenever the list grows; when the
//! list is long, the large table is rebuilt and the list is emptied. Ended queries remain in both
//! tables until then; the device skips them. Tables are counted before they are filled.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use shoal_engine::layout::Bin;
use shoal_engine::{EngineError, HashKey};

use crate::launch::{
    Added, BinsArgument, DeviceBuffer, Kernels, Memory, NewBinsArgument, Scratch, fault,
};
use crate::state::records::widen;

/// Number of additions up to which the large table is not rebuilt.
const RECENT_MIN: usize = 1 << 17;
/// Least references of the large table per addition; with fewer, the large table is rebuilt.
const RECENT_SHARE: usize = 4;
/// Least number of bins.
const BINS_MIN: usize = 1 << 10;

/// One table.
#[derive(Debug)]
struct Filed {
    bins: DeviceBuffer<Bin>,
    /// Bins in use, a power of two.
    capacity: usize,
    references: DeviceBuffer<u32>,
    /// References in use, at most.
    length: usize,
    /// Levels with references, by bit.
    levels: u32,
    key: HashKey,
}

impl Filed {
    fn new(memory: &Memory, key: HashKey) -> Result<Self, EngineError> {
        let (bins, references) = (DeviceBuffer::new(memory, 1)?, DeviceBuffer::new(memory, 1)?);
        Ok(Self { bins, capacity: 1, references, length: 0, levels: 0, key })
    }

    fn argument(&self) -> BinsArgument {
        let (bins, references) = ((&self.bins, self.capacity), (&self.references, self.length));
        BinsArgument::new(bins, references, (self.levels, self.key))
    }

    fn filling(&self) -> NewBinsArgument {
        let (bins, references) = ((&self.bins, self.capacity), (&self.references, self.length));
        NewBinsArgument::new(bins, references, self.key)
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct CellIndex {
    memory: Memory,
    kernels: Arc<Kernels>,
    base: Filed,
    recent: Filed,
    cells: DeviceBuffer<u64>,
    references: DeviceBuffer<u32>,
    /// Number of additions in the list.
    added: usize,
    numbers: DeviceBuffer<u32>,
    counts: DeviceBuffer<u32>,
    starts: DeviceBuffer<u32>,
    claimed: DeviceBuffer<u32>,
    scratch: Scratch,
}

/// Bins for a number of cells.
fn capacity_for(cells: usize) -> usize {
    (2 * cells).next_power_of_two().max(BINS_MIN)
}

impl CellIndex {
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        key: HashKey,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            memory: memory.clone(),
            kernels: kernels.clone(),
            base: Filed::new(memory, key)?,
            recent: Filed::new(memory, key)?,
            cells: DeviceBuffer::new(memory, 1)?,
            references: DeviceBuffer::new(memory, 1)?,
            added: 0,
            numbers: DeviceBuffer::new(memory, 1)?,
            counts: DeviceBuffer::new(memory, 1)?,
            starts: DeviceBuffer::new(memory, 1)?,
            claimed: DeviceBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    /// The large table and the small one.
    pub(crate) fn arguments(&self) -> (BinsArgument, BinsArgument) {
        (self.base.argument(), self.recent.argument())
    }

    /// Reserves memory for additions; nothing that reads the tables may run.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`]: nothing has changed.
    pub(crate) fn fit(&mut self, stream: &CudaStream, more: usize) -> Result<(), EngineError> {
        let length = self.added + more;
        let grown = length + length / 2;
        if self.cells.len() < length {
            widen(&self.memory, stream, &mut self.cells, grown, self.added)?;
        }
        if self.references.len() < length {
            widen(&self.memory, stream, &mut self.references, grown, self.added)?;
        }
        let capacity = capacity_for(length);
        // The small table is rebuilt with every addition.
        self.counts.fit(capacity + 1)?;
        self.starts.fit(capacity + 1)?;
        if self.recent.bins.len() < capacity || self.recent.references.len() < length {
            let mut wider = Filed::new(&self.memory, self.base.key)?;
            wider.bins.fit(capacity)?;
            wider.references.fit(grown)?;
            wider.levels = self.recent.levels;
            self.recent = wider;
            self.make_recent(stream)?;
        }
        Ok(())
    }

    /// Adds references, for which memory is reserved; `levels` has a bit for each of their levels.
    pub(crate) fn add(
        &mut self,
        stream: &CudaStream,
        cells: &[u64],
        references: &[u32],
        levels: u32,
    ) -> Result<(), EngineError> {
        self.cells.upload(stream, self.added, cells)?;
        self.references.upload(stream, self.added, references)?;
        self.added += cells.len();
        self.recent.levels |= levels;
        self.make_recent(stream)
    }

    /// Whether the list has grown too long.
    pub(crate) fn is_long(&self) -> bool {
        self.added > RECENT_MIN.max(self.base.length / RECENT_SHARE)
    }

    /// Builds the small table from the list.
    fn make_recent(&mut self, stream: &CudaStream) -> Result<(), EngineError> {
        let (kernels, table) = (&self.kernels, &mut self.recent);
        (table.capacity, table.length) = (capacity_for(self.added), self.added);
        if self.added == 0 {
            table.levels = 0;
        }
        table.bins.fill(stream, 0xFF, table.capacity)?;
        let (filling, length) = (table.filling(), self.added);
        let (cells, references) = (&self.cells, &self.references);
        let added = Added { cells, references, length, numbers: None };
        // Half of the bins are free, so nothing has to be counted again.
        self.claimed.fill(stream, 0, 1)?;
        kernels.subscription_claim(stream, &added, &filling, &self.claimed)?;
        kernels.subscription_counts(stream, &filling, &self.counts)?;
        let bins = table.capacity as u32 + 1;
        self.scratch.sum_before(stream, &self.counts, &self.starts, bins)?;
        kernels.subscription_file(stream, None, &added, &filling, &self.starts)
    }

    /// Merges both tables into a new large one, without ended queries: `numbers` has the new number
    /// of every query. Waits. If memory is exhausted, fails and changes nothing.
    pub(crate) fn merge(
        &mut self,
        stream: &CudaStream,
        numbers: &[u32],
    ) -> Result<(), EngineError> {
        let length = self.base.length + self.added;
        self.numbers.fit(numbers.len())?;
        self.numbers.upload(stream, 0, numbers)?;
        let mut table = Filed::new(&self.memory, self.base.key)?;
        let mut capacity = (length / 4).next_power_of_two().max(BINS_MIN);
        loop {
            table.bins.fit(capacity)?;
            table.capacity = capacity;
            let filling = table.filling();
            table.bins.fill(stream, 0xFF, capacity)?;
            self.claimed.fill(stream, 0, 1)?;
            self.kernels.subscription_claim_bins(
                stream,
                &self.base.argument(),
                &self.numbers,
                &filling,
                &self.claimed,
            )?;
            self.kernels.subscription_claim(stream, &self.list(), &filling, &self.claimed)?;
            let mut claimed = [0];
            self.claimed.download(stream, 0, &mut claimed)?;
            stream.synchronize().map_err(fault)?;
            if claimed[0] <= NewBinsArgument::most(capacity) {
                break;
            }
            capacity *= 2;
        }
        self.fill_merged(stream, &mut table)?;
        table.levels = self.base.levels | self.recent.levels;
        (self.base, self.added) = (table, 0);
        self.make_recent(stream)?;
        stream.synchronize().map_err(fault)
    }

    /// The list of additions with their new numbers.
    fn list(&self) -> Added<'_> {
        let (cells, references, length) = (&self.cells, &self.references, self.added);
        Added { cells, references, length, numbers: Some(&self.numbers) }
    }

    /// Files the references that were counted.
    fn fill_merged(&mut self, stream: &CudaStream, table: &mut Filed) -> Result<(), EngineError> {
        let bins = table.capacity;
        self.counts.fit(bins + 1)?;
        self.starts.fit(bins + 1)?;
        self.kernels.subscription_counts(stream, &table.filling(), &self.counts)?;
        self.scratch.sum_before(stream, &self.counts, &self.starts, bins as u32 + 1)?;
        let mut length = [0];
        self.starts.download(stream, bins, &mut length)?;
        stream.synchronize().map_err(fault)?;
        table.length = length[0] as usize;
        table.references.fit(table.length)?;
        let old = (&self.base.argument(), &self.numbers);
        let filling = table.filling();
        self.kernels.subscription_file(stream, Some(old), &self.list(), &filling, &self.starts)
    }
}
