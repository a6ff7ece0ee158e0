//! Down to which width are the groups of a tile cut, so that few exceptions make them cheap?
//!
//! For each group the width of least cost, an exception costing its position and its high bits;
//! a growing penalty keeps a tile within its number of exceptions (FORMAT.md, section 6.8).

use crate::patch::spec::{EXCEPTIONS_MAX, POSITION_BITS};
use crate::tile::{GROUP_VALUES, TILE_GROUPS};
use crate::word::Word;

/// Penalties for each exception, in bits, tried one after another.
const PENALTIES: [u32; 5] = [0, 8, 16, 32, 64];

/// Widths to which groups are cut.
pub(crate) struct Widths {
    groups: [u8; TILE_GROUPS],
    /// The least width of a group that has exceptions.
    pub(crate) least: u32,
}

/// How many values of a group have each bit length.
struct Lengths {
    counts: [u8; 65],
    least: u8,
    greatest: u8,
    values: u32,
}

impl Lengths {
    fn of<T: Word>(group: &[T]) -> Self {
        let (mut least, mut greatest) = (u8::MAX, 0);
        let mut counts = [0; 65];
        for value in group {
            let bits = value.bits() as u8;
            counts[usize::from(bits)] += 1;
            least = least.min(bits);
            greatest = greatest.max(bits);
        }
        Self { counts, least, greatest, values: group.len() as u32 }
    }

    /// The width of least cost and how many values exceed it. `tile_greatest` is the greatest bit
    /// length of the tile.
    fn choose(&self, tile_greatest: u8, penalty: u32) -> (u8, u32) {
        let mut best = (self.greatest, 0);
        let mut best_cost = self.values * u32::from(self.greatest);
        let mut above = 0;
        for width in (self.least..self.greatest).rev() {
            above += u32::from(self.counts[usize::from(width) + 1]);
            let each = POSITION_BITS + u32::from(tile_greatest - width) + penalty;
            let cost = self.values * u32::from(width) + above * each;
            if cost < best_cost {
                (best, best_cost) = ((width, above), cost);
            }
        }
        best
    }
}

impl Widths {
    /// `None` if the tile has no exceptions worth their bits.
    pub(crate) fn of<T: Word>(tile: &[T]) -> Option<Self> {
        let lengths: Vec<Lengths> = tile.chunks(GROUP_VALUES).map(Lengths::of).collect();
        let greatest = lengths.iter().map(|group| group.greatest).max()?;
        for penalty in PENALTIES {
            let mut widths = Self { groups: [0; TILE_GROUPS], least: u32::MAX };
            let mut exceptions = 0;
            for (group, width) in lengths.iter().zip(&mut widths.groups) {
                let above;
                (*width, above) = group.choose(greatest, penalty);
                exceptions += above as usize;
                if above > 0 {
                    widths.least = widths.least.min((*width).into());
                }
            }
            if exceptions == 0 {
                return None;
            }
            if exceptions <= EXCEPTIONS_MAX {
                return Some(widths);
            }
        }
        None
    }

    /// Width of one group.
    pub(crate) fn of_group(&self, group: usize) -> u32 {
        self.groups[group].into()
    }
}
