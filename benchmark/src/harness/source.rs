//! Turns a workload into columns of rows and into range queries, before any clock starts.
//!
//! Rows keep the order of the workload. A workload that ends or leaves its space is an error.

use shoal_codec::{Column, FixColumns, SPEED_UNKNOWN, Values};
use shoal_engine::{Query, Region, Space};
use shoal_workload::{Fix, Params, Workload, WorkloadSpace};

use super::driver::range_query;
use crate::error::BenchmarkError;

/// Quantum of planar workloads, metres.
const QUANTUM_M: f64 = 0.01;
/// The bits of the object id that become the state of a row with all attributes.
const STATE_BITS: u64 = 0xFF;

/// The attributes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// None: 20 bytes a row.
    None,
    /// Speed and heading: 26 bytes a row.
    Motion,
    /// All that a row can have.
    All,
}

/// An open workload.
pub(crate) struct Source {
    workload: Box<dyn Workload>,
    space: Space,
    fixes: Vec<Fix>,
    attributes: Attributes,
}

impl Source {
    /// Opens a workload by name.
    pub(crate) fn open(
        name: &str,
        params: &Params,
        attributes: Attributes,
    ) -> Result<Self, BenchmarkError> {
        let workload = shoal_workload::open(name, params)?;
        let space = match workload.space() {
            WorkloadSpace::Geographic => Space::geographic(),
            WorkloadSpace::Planar { width_m, height_m } => {
                Space::planar(width_m, height_m, QUANTUM_M)?
            }
        };
        Ok(Self { workload, space, fixes: Vec::new(), attributes })
    }

    /// The space of its objects.
    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// The next rows.
    pub(crate) fn columns(&mut self, rows: usize) -> Result<FixColumns, BenchmarkError> {
        self.fixes.clear();
        let filled = self.workload.fill(rows, &mut self.fixes);
        if filled < rows {
            let text = format!("the workload ended {} rows early", rows - filled);
            return Err(BenchmarkError::WorkloadRows(text));
        }
        let mut columns = FixColumns::with_capacity(rows);
        for fix in &self.fixes {
            let Ok((x, y)) = self.space.quantise(fix.x, fix.y) else {
                let text = format!("the workload left its space at {}, {}", fix.x, fix.y);
                return Err(BenchmarkError::WorkloadRows(text));
            };
            columns.object.push(fix.object);
            columns.time_ms.push(fix.time_ms);
            columns.x.push(x);
            columns.y.push(y);
        }
        if self.attributes != Attributes::None {
            let speed = |fix: &Fix| fix.speed_mps.map_or(SPEED_UNKNOWN, |m_s| (m_s * 1e3) as u32);
            columns.speed_mm_s = Some(self.fixes.iter().map(speed).collect());
            let heading =
                |fix: &Fix| fix.heading_deg.map_or(0, |deg| (deg * 100.0) as u16 % 36_000);
            columns.heading_cdeg = Some(self.fixes.iter().map(heading).collect());
        }
        if self.attributes == Attributes::All {
            let state = |fix: &Fix| (fix.object & STATE_BITS) as u32;
            columns.state = Some(self.fixes.iter().map(state).collect());
            // Generators do not produce these attributes; their values do not affect the cost, but
            // with validities objects would expire.
            for column in Column::ATTRIBUTES {
                if columns.column(column).is_none() && column != Column::Validity {
                    let value_type = column.value_type();
                    let bytes = |fix: &Fix| {
                        let value = fix.time_ms % 10_000_000;
                        value.to_le_bytes().into_iter().take(value_type.width_bytes())
                    };
                    let bytes: Vec<u8> = self.fixes.iter().flat_map(bytes).collect();
                    columns.set_column(column, Values::from_le_bytes(value_type, &bytes), 0);
                }
            }
        }
        Ok(columns)
    }

    /// The next range queries, for ids.
    pub(crate) fn queries(&mut self, count: usize) -> Result<Vec<Query>, BenchmarkError> {
        let mut query = || {
            let window = self.workload.window();
            let [west, south, east, north] = [window.west, window.south, window.east, window.north];
            Ok(range_query(Region::rectangle(&self.space, west, south, east, north)?))
        };
        (0..count).map(|_| query()).collect()
    }
}
