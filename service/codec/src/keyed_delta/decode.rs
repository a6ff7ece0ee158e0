//! How do differences along each key become values? By a scan that begins anew at every head.
//!
//! The heads come from the keys, not from this column's bytes; their number must agree.

use crate::grouping::Heads;
use crate::section::{Fault, Section};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree, check_sum};
use crate::word::{Mode, Word};

/// What `keyed_delta` and `keyed_delta2` have in common.
pub(crate) struct Keyed<'a, T> {
    counts: Section<'a>,
    mode: Mode,
    residuals: Box<TileTree<'a, T>>,
    heads: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Keyed<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u64).expect("modes are checked");
        let counts = node.sections[0];
        let residuals = TileTree::open_boxed(reader)?;
        check_sum(&counts, reader.peek())?;
        Ok(Self { counts, mode, residuals, heads: TileTree::open_boxed(reader)? })
    }

    /// Decodes residuals into `out` and hands every run of one key to `run`: its head value, and
    /// its places, the head's own first.
    pub(crate) fn runs(
        &self,
        context: TileContext<'_>,
        out: &mut [T],
        run: impl Fn(T, &mut [T]),
    ) -> Result<(), Fault> {
        let tile = context.tile;
        let heads: &Heads = context.heads.expect("keyed trees are decoded with their keys");
        let starts = heads.starts(tile, out.len());
        let stated = usize::from(self.counts.value::<u16>(tile));
        if stated != starts.len() {
            let found = starts.len();
            let problem = format!("tile {tile} has {stated} heads, its keys make {found}");
            return self.counts.fault(2 * tile, problem);
        }
        self.residuals.tile(context, out)?;
        self.mode.unstore(out);
        let mut values = [T::default(); TILE_VALUES];
        let values = &mut values[..stated];
        self.heads.tile(context, values)?;
        let mut rest = out;
        for (index, value) in values.iter().enumerate() {
            let start = starts.start(index);
            let length = starts.start(index + 1) - start;
            let places;
            (places, rest) = rest.split_at_mut(length);
            run(*value, places);
        }
        Ok(())
    }
}

/// A keyed_delta node.
pub(crate) struct KeyedDelta<'a, T>(Keyed<'a, T>);

impl<'a, T: Word> KeyedDelta<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        Keyed::open(node, reader).map(Self)
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.0.runs(context, out, |head, places| {
            let mut value = head;
            let (first, others) = places.split_first_mut().expect("a run has its head");
            *first = head;
            for place in others {
                value = value.plus(*place);
                *place = value;
            }
        })
    }
}
