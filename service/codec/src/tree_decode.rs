//! How does a tree of encodings give the values of one tile?
//!
//! `TileTree` is a plan joined with its sections: any tile decodes from it alone, into a buffer
//! of the caller. The plan has been checked at its place, so shapes and lengths of per-tile
//! sections hold; everything that only a tile shows is refused here with its byte.

use crate::afl::decode::Afl;
use crate::constant::decode::Const;
use crate::delta::decode::Delta;
use crate::delta_of_delta::decode::Delta2;
use crate::dict::decode::Dict;
use crate::divisor::decode::Divisor;
use crate::encoding::Encoding;
use crate::float_to_int::decode::FloatToInt;
use crate::gfc::decode::Gfc;
use crate::grouping::Heads;
use crate::keyed_delta::decode::KeyedDelta;
use crate::keyed_delta_of_delta::decode::KeyedDelta2;
use crate::patch::decode::Patch;
use crate::plan::PlanNode;
use crate::raw::decode::Raw;
use crate::rle::decode::Rle;
use crate::scale::decode::Scale;
use crate::section::{Fault, Section};
use crate::word::Word;

/// Nodes and sections of one chunk, taken in pre-order.
pub(crate) struct NodeReader<'a> {
    nodes: &'a [PlanNode],
    sections: &'a [Section<'a>],
}

/// One node and its sections.
pub(crate) struct Node<'a> {
    pub(crate) node: &'a PlanNode,
    pub(crate) sections: &'a [Section<'a>],
}

impl<'a> NodeReader<'a> {
    /// Begins at the root.
    pub(crate) fn new(nodes: &'a [PlanNode], sections: &'a [Section<'a>]) -> Self {
        Self { nodes, sections }
    }

    /// Takes the next node with its sections.
    fn take(&mut self) -> Node<'a> {
        let (node, nodes) = self.nodes.split_first().expect("plans are whole trees");
        let (sections, rest) = self.sections.split_at(node.sections.into());
        (self.nodes, self.sections) = (nodes, rest);
        Node { node, sections }
    }
}

/// Which tile is decoded, and what beside the tree it takes.
#[derive(Clone, Copy)]
pub(crate) struct TileContext<'a> {
    /// Number of the tile.
    pub(crate) tile: usize,
    /// Heads of the tile, if the tree is keyed.
    pub(crate) heads: Option<&'a Heads>,
}

/// A subtree ready to decode tiles.
pub(crate) enum TileTree<'a, T> {
    Raw(Raw<'a>),
    Afl(Afl<'a>),
    Delta(Delta<'a, T>),
    Delta2(Delta2<'a, T>),
    Scale(Scale<'a, T>),
    Divisor(Divisor<'a, T>),
    FloatToInt(FloatToInt<'a, T>),
    Patch(Patch<'a, T>),
    Rle(Rle<'a, T>),
    Dict(Dict<'a, T>),
    Const(Const<T>),
    Gfc(Gfc<'a>),
    Group(Box<TileTree<'a, T>>),
    KeyedDelta(KeyedDelta<'a, T>),
    KeyedDelta2(KeyedDelta2<'a, T>),
}

impl<'a, T: Word> TileTree<'a, T> {
    /// Opens the next subtree, whose values have the width of `T`.
    ///
    /// # Errors
    /// Counts of sparse children that do not add up; a dictionary that does not ascend.
    pub(crate) fn open(reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let node = reader.take();
        assert_eq!(node.node.value_type.width_bytes(), T::BYTES, "plans are checked");
        Ok(match node.node.encoding {
            Encoding::Raw => Self::Raw(Raw::open(&node)),
            Encoding::Afl => Self::Afl(Afl::open(&node)),
            Encoding::Delta => Self::Delta(Delta::open(&node, reader)?),
            Encoding::Delta2 => Self::Delta2(Delta2::open(&node, reader)?),
            Encoding::Scale => Self::Scale(Scale::open(&node, reader)?),
            Encoding::Divisor => Self::Divisor(Divisor::open(&node, reader)?),
            Encoding::FloatToInt => Self::FloatToInt(FloatToInt::open(&node, reader)?),
            Encoding::Patch => Self::Patch(Patch::open(&node, reader)?),
            Encoding::Rle => Self::Rle(Rle::open(&node, reader)?),
            Encoding::Dict => Self::Dict(Dict::open(&node, reader)?),
            Encoding::Const => Self::Const(Const::open(&node)),
            Encoding::Gfc => Self::Gfc(Gfc::open(&node)),
            Encoding::Group => Self::Group(Self::open_boxed(reader)?),
            Encoding::KeyedDelta => Self::KeyedDelta(KeyedDelta::open(&node, reader)?),
            Encoding::KeyedDelta2 => Self::KeyedDelta2(KeyedDelta2::open(&node, reader)?),
        })
    }

    /// Opens the next subtree as a child.
    pub(crate) fn open_boxed(reader: &mut NodeReader<'a>) -> Result<Box<Self>, Fault> {
        Self::open(reader).map(Box::new)
    }

    /// Decodes the tile's values into `out`, which has as many places as the tile has values, at
    /// most 1,024.
    ///
    /// # Errors
    /// What FORMAT.md, section 6, refuses in a tile; `out` holds nothing of use then.
    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        match self {
            Self::Raw(node) => {
                node.tile(context.tile, out);
                Ok(())
            }
            Self::Afl(node) => node.tile(context.tile, out),
            Self::Delta(node) => node.tile(context, out),
            Self::Delta2(node) => node.tile(context, out),
            Self::Scale(node) => node.tile(context, out),
            Self::Divisor(node) => node.tile(context, out),
            Self::FloatToInt(node) => node.tile(context, out),
            Self::Patch(node) => node.tile(context, out),
            Self::Rle(node) => node.tile(context, out),
            Self::Dict(node) => node.tile(context, out),
            Self::Const(node) => {
                node.tile(out);
                Ok(())
            }
            Self::Gfc(node) => node.tile(context.tile, out),
            Self::Group(child) => child.tile(context, out),
            Self::KeyedDelta(node) => node.tile(context, out),
            Self::KeyedDelta2(node) => node.tile(context, out),
        }
    }
}

/// Counts of a sparse child, one u16 for each tile, must add up to what the child's node says.
pub(crate) fn check_sum(section: &Section<'_>, child: &PlanNode) -> Result<(), Fault> {
    let counts = section.bytes.as_chunks::<2>().0.iter();
    let sum: u64 = counts.map(|count| u64::from(u16::from_le_bytes(*count))).sum();
    if sum == u64::from(child.values) {
        return Ok(());
    }
    let problem = format!("tiles count {sum} values of a child that has {}", child.values);
    section.fault(0, problem)
}

impl<'a> NodeReader<'a> {
    /// The node that comes next.
    pub(crate) fn peek(&self) -> &'a PlanNode {
        &self.nodes[0]
    }
}
