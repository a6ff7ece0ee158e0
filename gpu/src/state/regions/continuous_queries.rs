//! The continuous queries of a fleet: their table on the host, its copy on the device, and the
//! index by cell.

use std::collections::BTreeSet;
use std::sync::Arc;

use shoal_engine::{EngineError, HashKey, RegionId};

use super::cell_index::CellIndex;
use super::device_queries::DeviceQueries;
use super::query_table::QueryTable;
use crate::launch::{Kernels, Memory};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct ContinuousQueries {
    pub(crate) table: QueryTable,
    pub(crate) on_device: DeviceQueries,
    pub(crate) index: CellIndex,
}

impl ContinuousQueries {
    /// No queries.
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        key: HashKey,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            table: QueryTable::default(),
            on_device: DeviceQueries::new(memory)?,
            index: CellIndex::new(memory, kernels, key)?,
        })
    }

    /// The regions of all queries.
    pub(crate) fn regions(&self) -> BTreeSet<RegionId> {
        self.table.iter().map(|(region, _)| region).collect()
    }
}
