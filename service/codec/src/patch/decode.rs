//! How do exceptions return to their places?
//!
//! Positions ascend strictly and lie in the tile, which is checked before anything is added.

use crate::packed::{WORD_BYTES, unpack, words};
use crate::patch::spec::{EXCEPTIONS_MAX, POSITION_BITS};
use crate::section::{Fault, Section};
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree};
use crate::word::Word;

/// A patch node.
pub(crate) struct Patch<'a, T> {
    directory: Section<'a>,
    words: Section<'a>,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Patch<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
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
                 {reserved}; at most {EXCEPTIONS_MAX} of {} values of {} bits may be",
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
        // A shift of all bits comes with a width of none: nothing is added.
        let shift = shift.min(T::BITS - 1);
        for (position, addition) in positions.iter().zip(additions) {
            let value = &mut out[usize::from(*position)];
            *value = value.plus(addition.shift_up(shift));
        }
        Ok(())
    }

    /// Positions ascend strictly and lie below `count`.
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
