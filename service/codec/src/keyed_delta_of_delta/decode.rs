//! How do differences of differences along each key become values? By two scans from each head.
//!
//! Heads are found as in `keyed_delta`.

use crate::keyed_delta::decode::Keyed;
use crate::section::Fault;
use crate::tree_decode::{Node, NodeReader, TileContext};
use crate::word::Word;

/// A keyed_delta2 node.
pub(crate) struct KeyedDelta2<'a, T>(Keyed<'a, T>);

impl<'a, T: Word> KeyedDelta2<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
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
