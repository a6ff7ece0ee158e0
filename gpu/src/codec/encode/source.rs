//! Values of a node in device memory: the column itself, codes of a dictionary, or stored values.
//!
//! Values are ordered by tile; a sparse node has fewer than 1,024 of them per tile.

use std::ops::Range;

use shoal_codec::ValueType;
use shoal_engine::layout::EncodeTask;

use crate::launch::{DeviceSlice, TILE_VALUES};

/// Values of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Bit patterns of `bits` bits, tile after tile.
    pub(crate) values: DeviceSlice<u8>,
    pub(crate) bits: u32,
    /// Their type in the plan, which may be narrower than `bits`.
    pub(crate) value_type: ValueType,
    /// Rows of the column.
    pub(crate) rows: u32,
    /// Number of values of each tile, and their sum; `None` for a dense source.
    pub(crate) counts: Option<(DeviceSlice<u16>, u32)>,
    /// A bit per position, set if the position is a head; empty if values are in row order.
    pub(crate) heads: DeviceSlice<u32>,
}

impl Source {
    /// A column in row order.
    pub(crate) fn column(values: DeviceSlice<u8>, value_type: ValueType, rows: u32) -> Self {
        let width = value_type.width_bytes();
        assert!(values.len() >= rows as usize * width, "a column of {rows} rows");
        Self {
            values,
            bits: width_bits(value_type),
            value_type,
            rows,
            counts: None,
            heads: DeviceSlice::none(),
        }
    }

    /// Some rows of a column in row order.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        assert!(self.counts.is_none() && self.heads.address() == 0, "the column is in row order");
        let width = self.bits as usize / 8;
        let values = self.values.part(rows.start * width, rows.len() * width);
        Self { values, rows: rows.len() as u32, ..*self }
    }

    /// Tiles of the column.
    pub(crate) fn tiles(&self) -> u32 {
        self.rows.div_ceil(TILE_VALUES as u32)
    }

    /// Number of values in all tiles.
    pub(crate) fn length(&self) -> u32 {
        self.counts.map_or(self.rows, |(_, length)| length)
    }

    /// A task that reads the values; the caller sets steps and outputs.
    pub(crate) fn task(&self) -> EncodeTask {
        let patterns = match self.counts {
            Some(_) => self.tiles() as usize * TILE_VALUES,
            None => self.rows as usize,
        };
        assert!(self.values.len() * 8 >= patterns * self.bits as usize, "a pattern each");
        let heads = self.heads;
        let words = self.rows.div_ceil(32) as usize;
        assert!(heads.address() == 0 || heads.len() >= words, "a bit a position");
        EncodeTask {
            values: self.values.address(),
            counts: self.counts.map_or(0, |(counts, _)| counts.address()),
            heads: heads.address(),
            rows: self.rows,
            tiles: self.tiles(),
            bits: self.bits,
            ..EncodeTask::default()
        }
    }
}

/// Bits of a value.
pub(crate) fn width_bits(value_type: ValueType) -> u32 {
    8 * value_type.width_bytes() as u32
}
