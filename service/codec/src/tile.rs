//! Division of a column: tiles of 1,024 values decode alone, groups of 32 are one step of a warp,
//! segments of 64 tiles are the unit of keyed columns (FORMAT.md, sections 5.1 and 6.13).

use std::ops::Range;

/// Values of a whole tile.
pub const TILE_VALUES: usize = 1024;
/// Values of a whole group.
pub const GROUP_VALUES: usize = 32;
/// Groups of a whole tile.
pub(crate) const TILE_GROUPS: usize = TILE_VALUES / GROUP_VALUES;
/// Rows of a whole segment: keyed columns are grouped by key within it.
pub const SEGMENT_ROWS: usize = 65_536;

const _: () = assert!(SEGMENT_ROWS.is_multiple_of(TILE_VALUES));

/// Tiles of a column of `rows` rows.
pub fn tiles(rows: usize) -> usize {
    rows.div_ceil(TILE_VALUES)
}

/// Values of tile `tile` of a full node.
pub(crate) fn full_count(rows: usize, tile: usize) -> usize {
    (rows - tile * TILE_VALUES).min(TILE_VALUES)
}

/// How many values each tile of a node has.
#[derive(Clone, Debug)]
pub(crate) enum TileCounts {
    /// A full node with this number of rows.
    Full(usize),
    /// A sparse node.
    Sparse(Vec<u16>),
}

impl TileCounts {
    /// Number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        match self {
            Self::Full(rows) => tiles(*rows),
            Self::Sparse(counts) => counts.len(),
        }
    }

    /// The section that states the counts of a sparse node, one u16 per tile.
    pub(crate) fn section(&self) -> Vec<u8> {
        self.ranges().flat_map(|range| (range.len() as u16).to_le_bytes()).collect()
    }

    /// Range of each tile among the node's values.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut start = 0;
        (0..self.tiles()).map(move |tile| {
            let count = match self {
                Self::Full(rows) => full_count(*rows, tile),
                Self::Sparse(counts) => usize::from(counts[tile]),
            };
            let range = start..start + count;
            start += count;
            range
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_tile_the_values() {
        let ranges: Vec<_> = TileCounts::Full(2050).ranges().collect();
        assert_eq!(ranges, [0..1024, 1024..2048, 2048..2050]);
        let ranges: Vec<_> = TileCounts::Sparse(vec![3, 0, 2]).ranges().collect();
        assert_eq!(ranges, [0..3, 3..3, 3..5]);
        assert_eq!(TileCounts::Full(0).ranges().count(), 0);
    }
}
