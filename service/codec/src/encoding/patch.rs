//! Encoding `patch`: up to 64 exceptions of each tile are stored separately (FORMAT.md, section
//! 6.8).
//!
//! Above `divisor` or `float_to_int`, exceptions are values that do not fit the parameter in the
//! plan. Above other children, exceptions are high bits, stored separately where that makes groups
//! of 32 smaller.

use crate::encoding::Encoding;
use crate::encoding::divisor::Division;
use crate::encoding::float_to_int::{DECIMALS_MAX, power_of_ten, to_float, to_integer};
use crate::node_spec::{ChildSpec, NodeSpec, SectionSpec};
use crate::packed::{WORD_BYTES, pack, unpack, words};
use crate::section::{Fault, Section, TileSections};
use crate::tile::{GROUP_VALUES, TILE_GROUPS};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Exceptions of one tile at most.
const EXCEPTIONS_MAX: usize = 64;
/// Bits of a position within a tile.
const POSITION_BITS: u32 = 10;

/// Rules of every `patch` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::SAME],
    sections: &[
        SectionSpec::Directory,
        SectionSpec::Words {
            tile_words_max: |bits| {
                let words = |bits: u32| (EXCEPTIONS_MAX as u32 * bits).div_ceil(32);
                words(POSITION_BITS) + words(bits)
            },
        },
    ],
    ..NodeSpec::LEAF
};

/// Exceptions of one tile.
#[derive(Default)]
struct Exceptions<T> {
    positions: Vec<u16>,
    additions: Vec<T>,
    shift: u32,
}

/// Writes the node and its child. Exceptions are chosen with integer arithmetic only.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let misfit = Misfit::of(child, &node)?;
    let mut sections = TileSections::new(node.counts.tiles(), 0);
    let mut left = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let exceptions = match &misfit {
            Some(misfit) => misfit.split(tile, &mut left)?,
            None => split_high_bits(tile, &mut left),
        };
        let width = exceptions.additions.iter().map(|value| value.bits()).max().unwrap_or(0);
        let count = exceptions.positions.len() as u8;
        sections.begin_tile([count, exceptions.shift as u8, width as u8, 0]);
        pack(&exceptions.positions, POSITION_BITS, &mut sections.words);
        pack(&exceptions.additions, width, &mut sections.words);
    }
    writer.node(Encoding::Patch, &node, sections.finish(), 0, 0);
    writer.subtree(child, node.child(node.value_type, &left))
}

/// Appends the low bits of a tile to `left`; returns the high bits of the exceptions.
fn split_high_bits<T: Word>(tile: &[T], left: &mut Vec<T>) -> Exceptions<T> {
    let mut found = Exceptions::default();
    let Some(widths) = Widths::of(tile) else {
        left.extend_from_slice(tile);
        return found;
    };
    found.shift = widths.least;
    for (group, values) in tile.chunks(GROUP_VALUES).enumerate() {
        let width = widths.of_group(group);
        let all = values.iter().fold(T::default(), |all, value| all | *value);
        if all.bits() <= width {
            left.extend_from_slice(values);
            continue;
        }
        for (index, value) in values.iter().enumerate() {
            if value.bits() <= width {
                left.push(*value);
                continue;
            }
            let pattern: u64 = (*value).into();
            let low = pattern & ((1 << width) - 1);
            left.push(T::low(low));
            found.positions.push((group * GROUP_VALUES + index) as u16);
            found.additions.push(T::low((pattern - low) >> found.shift));
        }
    }
    found
}

/// The test for exceptions, which are values that the child cannot store with the parameter in the
/// plan.
enum Misfit {
    Divisor { division: Division, remainder: u32 },
    Decimals(u32),
}

impl Misfit {
    /// Returns the test for `child`; `None` if the exceptions are high bits.
    fn of<T: Word>(child: &Tree, node: &NodeValues<'_, T>) -> Result<Option<Self>, NotApplicable> {
        match child {
            Tree::Divisor(Some(choice), _) if !node.value_type.is_float() => {
                match Division::new(*choice, node.value_type) {
                    Some(division) => {
                        Ok(Some(Self::Divisor { division, remainder: choice.remainder }))
                    }
                    None => NotApplicable::because("the divisor does not suit the type"),
                }
            }
            Tree::FloatToInt(Some(decimals), _)
                if node.value_type.is_float() && u32::from(*decimals) <= DECIMALS_MAX =>
            {
                Ok(Some(Self::Decimals((*decimals).into())))
            }
            Tree::Divisor(..) | Tree::FloatToInt(..) => {
                NotApplicable::because("a patch takes its child's parameter from the plan")
            }
            _ => Ok(None),
        }
    }

    fn fits<T: Word>(&self, value: T) -> bool {
        match self {
            Self::Divisor { division, .. } => division.quotient(value).is_some(),
            Self::Decimals(decimals) => to_integer(value, *decimals).is_some(),
        }
    }

    /// The value that the child decodes from a stored 0.
    fn of_zero<T: Word>(&self) -> T {
        match self {
            Self::Divisor { remainder, .. } => T::low((*remainder).into()),
            Self::Decimals(decimals) => to_float(T::default(), power_of_ten(*decimals)),
        }
    }

    /// Appends a tile to `left` with each exception replaced by the value before it.
    fn split<T: Word>(
        &self,
        tile: &[T],
        left: &mut Vec<T>,
    ) -> Result<Exceptions<T>, NotApplicable> {
        let mut found = Exceptions::default();
        let mut before = self.of_zero();
        for (index, value) in tile.iter().enumerate() {
            if self.fits(*value) {
                before = *value;
            } else {
                found.positions.push(index as u16);
                found.additions.push(value.minus(before));
            }
            left.push(before);
        }
        if found.positions.len() > EXCEPTIONS_MAX {
            return NotApplicable::because("a tile has too many exceptions");
        }
        Ok(found)
    }
}

/// Cost in bits that is added for each exception. If a tile has too many exceptions, the next value
/// is tried.
const PENALTIES: [u32; 5] = [0, 8, 16, 32, 64];

/// Widths of the groups of a tile; values that exceed the width of their group are exceptions.
struct Widths {
    groups: [u8; TILE_GROUPS],
    /// The least width of a group that has exceptions.
    least: u32,
}

/// Histogram of the bit lengths of a group.
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

    /// Returns the width of least cost in bits and the number of values that exceed it.
    /// `tile_greatest` is the greatest bit length in the tile.
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
    /// Chooses the widths of a tile; `None` if it has no exceptions at some penalty, or too many at
    /// each.
    fn of<T: Word>(tile: &[T]) -> Option<Self> {
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
    fn of_group(&self, group: usize) -> u32 {
        self.groups[group].into()
    }
}

/// Decoder of a `patch` node.
pub(crate) struct Patch<'a, T> {
    directory: Section<'a>,
    words: Section<'a>,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Patch<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let (directory, words) = (node.sections[0], node.sections[1]);
        Ok(Self { directory, words, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        let tile = context.tile;
        let bytes = self.directory.tile_words(&self.words, tile)?;
        let [_, _, _, _, count, shift, width, reserved] = self.directory.entry(tile);
        let (count, shift, width) = (usize::from(count), u32::from(shift), u32::from(width));
        if count > EXCEPTIONS_MAX.min(out.len()) || shift + width > T::BITS || reserved != 0 {
            let problem = format!(
                "tile {tile} has {count} exceptions of {width} bits shifted by {shift}, reserved \
                 {reserved}; at most {EXCEPTIONS_MAX} of {} values of {} bits are allowed",
                out.len(),
                T::BITS
            );
            return self.directory.fault(tile * 8 + 4, problem);
        }
        let position_bytes = words(count, POSITION_BITS) * WORD_BYTES;
        let expected = position_bytes + words(count, width) * WORD_BYTES;
        self.directory.check_length(tile, bytes.len(), expected)?;
        let mut positions = [0_u16; EXCEPTIONS_MAX];
        let positions = &mut positions[..count];
        unpack(&bytes[..position_bytes], POSITION_BITS, positions);
        self.check_positions(tile, positions, out.len())?;
        let mut additions = [T::default(); EXCEPTIONS_MAX];
        unpack(&bytes[position_bytes..], width, &mut additions[..count]);
        // A shift of W is valid only with width 0, so the exceptions are 0 and any shift is right.
        let shift = shift.min(T::BITS - 1);
        for (position, addition) in positions.iter().zip(additions) {
            let value = &mut out[usize::from(*position)];
            *value = value.plus(addition.shift_up(shift));
        }
        Ok(())
    }

    /// Checks that positions ascend strictly and are below `count`.
    fn check_positions(&self, tile: usize, positions: &[u16], count: usize) -> Result<(), Fault> {
        let ascends = positions.is_sorted_by(|before, after| before < after);
        let last = positions.last().copied().map_or(0, usize::from);
        if ascends && (positions.is_empty() || last < count) {
            return Ok(());
        }
        let problem = format!("tile {tile}: positions of exceptions must ascend below {count}");
        self.directory.fault(tile * 8, problem)
    }
}
