//! Encoding `keyed_delta2`: differences of differences along each
//! key (FORMAT.md, section 6.15).

use crate::encoding::Encoding;
use crate::encoding::keyed_delta::{Keyed, write_keyed};
use crate::node_spec::NodeSpec;
use crate::section::Fault;
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Rules of every `keyed_delta2` node.
pub(crate) const SPEC: NodeSpec = super::keyed_delta::SPEC;

/// Writes the node and its children. The position after a head holds the plain difference, later
/// positions its change.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: &Mode,
    residuals: &Tree,
    heads: &Tree,
) -> Result<(), NotApplicable> {
    let stored = |run: &[T], out: &mut Vec<T>| {
        out.push(T::default());
        out.extend(run.get(1).map(|second| mode.store(second.minus(run[0]))));
        out.extend(run.windows(3).map(|values| {
            mode.store(values[2].minus(values[1]).minus(values[1].minus(values[0])))
        }));
    };
    write_keyed(writer, node, (Encoding::KeyedDelta2, *mode), [residuals, heads], stored)
}

/// Decoder of a `keyed_delta2` node: two scans that restart at every head.
pub(crate) struct KeyedDelta2<'a, T>(Keyed<'a, T>);

impl<'a, T: Word> KeyedDelta2<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        Keyed::open(node, reader).map(Self)
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.0.runs(context, out, |head, places| {
            let (mut value, mut difference) = (head, T::default());
            let (first, others) = places.split_first_mut().expect("a run has its head");
            *first = head;
            for place in others {
                difference = difference.plus(*place);
                value = value.plus(difference);
                *place = value;
            }
        })
    }
}
