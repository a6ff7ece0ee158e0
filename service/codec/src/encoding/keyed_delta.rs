//! Encoding `keyed_delta`: differences along each key (FORMAT.md, section 6.14), and what it
//! shares with `keyed_delta2`.
//!
//! Values in grouped order restart at every head. The keys determine the heads; the number that
//! the section states for a tile must agree with them.

use crate::encoding::Encoding;
use crate::grouping::Heads;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tile::{TILE_VALUES, TileCounts};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree, check_sum};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Rules of every `keyed_delta` and `keyed_delta2` node: children are residuals and heads.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::UNSIGNED, ChildSpec::SAME.sparse()],
    sections: &[SectionSpec::Counts],
    parameter_u32: ParameterSpec::KeyColumn,
    parameter_u64: ParameterSpec::Mode,
    ..NodeSpec::LEAF
};

/// Writes the node and its children; the residual at a head is 0.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: &Mode,
    residuals: &Tree,
    heads: &Tree,
) -> Result<(), NotApplicable> {
    let stored = |run: &[T], out: &mut Vec<T>| {
        out.push(T::default());
        out.extend(run.windows(2).map(|pair| mode.store(pair[1].minus(pair[0]))));
    };
    write_keyed(writer, node, (Encoding::KeyedDelta, *mode), [residuals, heads], stored)
}

/// Writes a keyed node: `stored` appends the residuals of one run, that of its head first.
pub(super) fn write_keyed<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    (encoding, mode): (Encoding, Mode),
    [residuals, heads]: [&Tree; 2],
    stored: impl Fn(&[T], &mut Vec<T>),
) -> Result<(), NotApplicable> {
    if matches!(node.counts, TileCounts::Sparse(_)) {
        return NotApplicable::because("keyed nodes give a value for every row");
    }
    let mut residual_values = Vec::with_capacity(node.values.len());
    let (mut head_values, mut counts) = (Vec::new(), Vec::new());
    for (number, tile) in node.tiles().enumerate() {
        let starts = writer.heads().starts(number, tile.len());
        for index in 0..starts.len() {
            let run = &tile[starts.start(index)..starts.start(index + 1)];
            head_values.push(run[0]);
            stored(run, &mut residual_values);
        }
        counts.push(starts.len() as u16);
    }
    let counts = TileCounts::Sparse(counts);
    writer.keyed_node(encoding, &node, vec![counts.section()], mode.code().into());
    writer.subtree(residuals, node.child(T::UNSIGNED, &residual_values))?;
    let value_type = node.value_type;
    writer.subtree(heads, NodeValues { value_type, values: &head_values, counts: &counts })
}

/// Decoder of the children that both keyed encodings have.
pub(super) struct Keyed<'a, T> {
    counts: Section<'a>,
    mode: Mode,
    residuals: Box<TileTree<'a, T>>,
    heads: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Keyed<'a, T> {
    pub(super) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u64).expect("modes are checked");
        let counts = node.sections[0];
        let residuals = TileTree::open_boxed(reader)?;
        check_sum(&counts, reader.peek())?;
        Ok(Self { counts, mode, residuals, heads: TileTree::open_boxed(reader)? })
    }

    /// Decodes residuals into `out` and calls `run` for each run of one key with its head value
    /// and its values, the head's own first.
    pub(super) fn runs(
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

/// Decoder of a `keyed_delta` node: a scan that restarts at every head.
pub(crate) struct KeyedDelta<'a, T>(Keyed<'a, T>);

impl<'a, T: Word> KeyedDelta<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
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
