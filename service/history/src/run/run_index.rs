//! The index of a run: its pages, and the zone of each tile (HISTORY.md, section 3.3).
//!
//! Zones are one compact table. Their times count from the start of the partition.

use bytes::Bytes;
use shoal_codec::{Budget, Table, TableValues, ValueType, Values};
use shoal_position_log::LogError;

use super::page::PageEntry;
use super::planners::Planners;
use super::run_entry::RunEntry;
use super::zone::Zone;
use crate::error::HistoryError;
use crate::limits::INDEX_BYTES_MAX;
use crate::wire::{Reader, Writer};

/// Number of the first column of the tables of a run.
pub(crate) const FIRST_COLUMN: u16 = 256;

/// Pages and zones of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunIndex {
    /// Fixes, objects, removals and returns, in this order.
    pub(crate) pages: Vec<PageEntry>,
    /// The zone of each tile.
    pub(crate) zones: Vec<Zone>,
}

/// Decodes columns of these types from [`FIRST_COLUMN`] on.
pub(crate) fn decode_columns<const N: usize>(
    table: &Table,
    rows: std::ops::Range<usize>,
    types: [ValueType; N],
) -> Result<[Values; N], String> {
    let columns = table.decode_all(rows).map_err(|error| error.to_string())?;
    let numbers = columns.into_iter().filter_map(TableValues::into_numbers);
    let columns: Vec<Values> = numbers.collect();
    let found: Vec<ValueType> = columns.iter().map(Values::value_type).collect();
    let ids = table.chunks().iter().map(|chunk| chunk.id);
    if found != types || !ids.eq((FIRST_COLUMN..).take(N)) {
        return Err(format!("a table has columns {found:?}, it must have {types:?}"));
    }
    Ok(columns.try_into().expect("lengths are equal"))
}

impl RunIndex {
    pub(crate) fn encode(
        &self,
        start_ms: i64,
        planners: &mut Planners,
    ) -> Result<Vec<u8>, HistoryError> {
        let mut out = Writer::default();
        self.pages.iter().for_each(|page| page.write(&mut out));
        if !self.zones.is_empty() {
            let zones = || self.zones.iter();
            let offset = |time_ms: i64| (time_ms - start_ms) as u32;
            let columns = [
                Values::U32(zones().map(|zone| offset(zone.time_ms.0)).collect()),
                Values::U32(zones().map(|zone| offset(zone.time_ms.1)).collect()),
                Values::I32(zones().map(|zone| zone.x.0).collect()),
                Values::I32(zones().map(|zone| zone.x.1).collect()),
                Values::I32(zones().map(|zone| zone.y.0).collect()),
                Values::I32(zones().map(|zone| zone.y.1).collect()),
                Values::U64(zones().map(|zone| zone.object.0).collect()),
                Values::U64(zones().map(|zone| zone.object.1).collect()),
            ];
            out.0.append(&mut planners.zones(columns)?);
        }
        Ok(out.0)
    }

    /// Parses the bytes of the index of a run.
    pub(crate) fn parse(bytes: &Bytes, entry: &RunEntry, file: &str) -> Result<Self, LogError> {
        let fault = |reason: String| LogError::damaged(file, entry.index_offset, reason);
        if shoal_position_log::checksum(bytes) != entry.index_crc {
            return Err(fault("the checksum of the index differs".to_owned()));
        }
        let pages_bytes = entry.pages_total().saturating_mul(PageEntry::BYTES);
        if pages_bytes > bytes.len() {
            return Err(fault("the index has fewer pages than the footer states".to_owned()));
        }
        let mut from = Reader(&bytes[..pages_bytes]);
        let pages: Vec<_> = (0..entry.pages_total()).map(|_| PageEntry::read(&mut from)).collect();
        let is_inside =
            |page: &PageEntry| page.offset.saturating_add(page.bytes.into()) <= entry.index_offset;
        if !pages.iter().all(is_inside) {
            return Err(fault("a page exceeds the file".to_owned()));
        }
        let zones = if entry.rows == 0 {
            Vec::new()
        } else {
            parse_zones(bytes.slice(pages_bytes..), entry).map_err(fault)?
        };
        Ok(Self { pages, zones })
    }

    /// Returns the number of the first page of a kind, and the pages of that kind: 0 fixes, 1
    /// objects, 2 removals, 3 returns.
    pub(crate) fn pages_of(&self, entry: &RunEntry, kind: usize) -> (usize, &[PageEntry]) {
        let first: u32 = entry.pages[..kind].iter().sum();
        let (first, count) = (first as usize, entry.pages[kind] as usize);
        (first, &self.pages[first..first + count])
    }

    /// Approximate memory use in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.pages[..]) + size_of_val(&self.zones[..])
    }
}

fn parse_zones(bytes: Bytes, entry: &RunEntry) -> Result<Vec<Zone>, String> {
    const TYPES: [ValueType; 8] = {
        let (time, side, object) = (ValueType::U32, ValueType::I32, ValueType::U64);
        [time, time, side, side, side, side, object, object]
    };
    let budget = Budget { bytes_max: INDEX_BYTES_MAX, ..Budget::default() };
    let table = Table::parse(bytes, &budget).map_err(|error| error.to_string())?;
    if table.rows() != entry.tiles() {
        let (found, tiles) = (table.rows(), entry.tiles());
        return Err(format!("the index has {found} zones, the run has {tiles} tiles"));
    }
    let columns = decode_columns(&table, 0..table.rows(), TYPES)?;
    let [
        Values::U32(time_min),
        Values::U32(time_max),
        Values::I32(x_min),
        Values::I32(x_max),
        Values::I32(y_min),
        Values::I32(y_max),
        Values::U64(object_min),
        Values::U64(object_max),
    ] = columns
    else {
        unreachable!("types were compared")
    };
    let time_ms = |offset: u32| entry.partition.start_ms + i64::from(offset);
    let zone = |tile: usize| Zone {
        time_ms: (time_ms(time_min[tile]), time_ms(time_max[tile])),
        x: (x_min[tile], x_max[tile]),
        y: (y_min[tile], y_max[tile]),
        object: (object_min[tile], object_max[tile]),
    };
    Ok((0..entry.tiles()).map(zone).collect())
}
