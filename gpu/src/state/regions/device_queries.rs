//! The continuous queries on the device: a record by number, and their shapes.

use cudarc::driver::CudaStream;
use shoal_engine::layout::{DeviceQuery, Edge, Shape};
use shoal_engine::{EngineError, Region};

use crate::launch::{DeviceBuffer, Memory, RegionsArgument};
use crate::state::records::widen;
use crate::state::regions::changes::Changes;
use crate::state::regions::query_table::QueryTable;

/// Lengths of the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lengths {
    regions: usize,
    shapes: usize,
    slabs: usize,
    edges: usize,
}

impl Lengths {
    /// The lengths of a table.
    pub(crate) fn of(table: &QueryTable) -> Self {
        Self {
            regions: table.numbers(),
            shapes: table.shapes.shapes.len(),
            slabs: table.shapes.slabs.len(),
            edges: table.shapes.edges.len(),
        }
    }

    /// Upper bounds of the lengths that changes add.
    pub(crate) fn added(changes: &Changes) -> Self {
        let mut added = Self { regions: changes.len(), shapes: changes.len(), slabs: 0, edges: 0 };
        for (change, _) in changes {
            if let shoal_engine::SubscriptionChange::Set { subscription, .. } = change
                && let Region::Polygon(polygon) = &subscription.region
            {
                added.slabs += polygon.slabs().starts.len();
                added.edges += polygon.slabs().edges.len();
            }
        }
        added
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct DeviceQueries {
    memory: Memory,
    pub(crate) queries: DeviceBuffer<DeviceQuery>,
    pub(crate) ids: DeviceBuffer<u64>,
    shapes: DeviceBuffer<Shape>,
    slabs: DeviceBuffer<u32>,
    edges: DeviceBuffer<Edge>,
}

impl DeviceQueries {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            memory: memory.clone(),
            queries: DeviceBuffer::new(memory, 1)?,
            ids: DeviceBuffer::new(memory, 1)?,
            shapes: DeviceBuffer::new(memory, 1)?,
            slabs: DeviceBuffer::new(memory, 1)?,
            edges: DeviceBuffer::new(memory, 1)?,
        })
    }

    pub(crate) fn argument(&self) -> RegionsArgument {
        RegionsArgument::new(&self.queries, &self.shapes, &self.slabs, &self.edges)
    }

    /// Reserves memory for additions.
    pub(crate) fn fit(
        &mut self,
        stream: &CudaStream,
        present: Lengths,
        added: Lengths,
    ) -> Result<(), EngineError> {
        let memory = &self.memory;
        let capacity = |present: usize, added: usize, length: usize| {
            let needed = present + added;
            if needed > length { needed + needed / 2 } else { needed }
        };
        let regions = capacity(present.regions, added.regions, self.queries.len());
        widen(memory, stream, &mut self.queries, regions, present.regions)?;
        widen(memory, stream, &mut self.ids, regions, present.regions)?;
        let shapes = capacity(present.shapes, added.shapes, self.shapes.len());
        widen(memory, stream, &mut self.shapes, shapes, present.shapes)?;
        let slabs = capacity(present.slabs, added.slabs, self.slabs.len());
        widen(memory, stream, &mut self.slabs, slabs, present.slabs)?;
        let edges = capacity(present.edges, added.edges, self.edges.len());
        widen(memory, stream, &mut self.edges, edges, present.edges)
    }

    /// Uploads the entries of a table from these lengths on; memory for them is reserved.
    pub(crate) fn take(
        &self,
        stream: &CudaStream,
        table: &QueryTable,
        from: Lengths,
    ) -> Result<(), EngineError> {
        let shapes = &table.shapes;
        self.queries.upload(stream, from.regions, &table.queries[from.regions..])?;
        self.ids.upload(stream, from.regions, &table.ids[from.regions..])?;
        self.shapes.upload(stream, from.shapes, &shapes.shapes[from.shapes..])?;
        self.slabs.upload(stream, from.slabs, &shapes.slabs[from.slabs..])?;
        self.edges.upload(stream, from.edges, &shapes.edges[from.edges..])
    }
}
