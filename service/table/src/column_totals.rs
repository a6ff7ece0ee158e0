//! Sizes of the columns of a compressed table, by tree and node.
//!
//! All numbers come from blocks as a reader sees them, so a file that was just written and a
//! foreign one have the same.

use serde::Serialize;
use shoal_codec::limits::{CHUNK_ENTRY_BYTES, NODE_BYTES, SECTION_ENTRY_BYTES};
use shoal_codec::{Plan, PlanNode, Table, TableChunk};

use crate::header::{BlockColumn, Header, Kind};

/// Sums over all blocks of a file.
#[derive(Clone, Debug)]
pub struct ColumnTotals {
    /// The columns of the header, then the bytes of its text columns.
    pub columns: Vec<ColumnTotal>,
    /// Bytes of blocks beside their chunks: headers and padding.
    pub container_bytes: u64,
    /// Bytes that compact blocks save against what the other sums count.
    pub compact_saved_bytes: u64,
    text_columns: usize,
}

/// Sums over one column.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnTotal {
    /// Name of the column, with the part of a text column.
    #[serde(rename = "column")]
    pub name: String,
    /// Type of the values.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Bytes of its values.
    pub raw_bytes: u64,
    /// Bytes of its chunks.
    pub encoded_bytes: u64,
    /// The trees of its chunks, ordered by their texts.
    pub trees: Vec<TreeTotal>,
}

/// Sums over the blocks in which a column had one tree.
#[derive(Clone, Debug, Serialize)]
pub struct TreeTotal {
    /// The tree on one line: `keyed_delta(patch(afl), scale(afl))`.
    pub tree: String,
    /// Number of blocks.
    pub blocks: u64,
    /// Its nodes in pre-order.
    pub nodes: Vec<NodeTotal>,
}

/// One node of a tree.
#[derive(Clone, Debug, Serialize)]
pub struct NodeTotal {
    /// Name of its encoding.
    pub encoding: &'static str,
    /// Distance from the root.
    pub level: usize,
    /// Bytes of the values that it decodes to.
    pub given_bytes: u64,
    /// Bytes of the sections of the node and its descendants.
    pub section_bytes: u64,
}

impl ColumnTotals {
    /// No block of a table.
    pub(crate) fn new(header: &Header) -> Self {
        let total = |name: String, kind| ColumnTotal {
            name,
            kind,
            raw_bytes: 0,
            encoded_bytes: 0,
            trees: Vec::new(),
        };
        let numbers = header.columns.iter().map(|column| match column.kind {
            Kind::Text => total(format!("{} (lengths)", column.name), "u32"),
            kind => total(column.name.clone(), kind.name()),
        });
        let texts = header
            .texts()
            .map(|index| total(format!("{} (text)", header.columns[index].name), "u8"));
        Self {
            columns: numbers.chain(texts).collect(),
            container_bytes: 0,
            compact_saved_bytes: 0,
            text_columns: header.texts().count(),
        }
    }

    /// Adds the table block of a group.
    pub(crate) fn add_table(&mut self, block: &Table, columns: &[BlockColumn]) {
        self.add(block, columns.iter().map(|column| column.index));
    }

    /// Adds text block number `text` of a group.
    pub(crate) fn add_text(&mut self, block: &Table, text: usize) {
        let column = self.columns.len() - self.text_columns + text;
        self.add(block, std::iter::once(column));
    }

    /// Adds a block; `columns` has the column of each chunk.
    fn add(&mut self, block: &Table, columns: impl Iterator<Item = usize>) {
        let before = self.encoded_bytes();
        for (chunk, column) in block.chunks().iter().zip(columns) {
            self.columns[column].add(chunk);
        }
        let bytes = block.bytes().len();
        self.container_bytes += bytes as u64 - (self.encoded_bytes() - before);
        self.compact_saved_bytes += (bytes - block.stored_bytes()) as u64;
    }

    /// Bytes of all blocks as they are stored.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.encoded_bytes() + self.container_bytes - self.compact_saved_bytes
    }

    /// Bytes of all values.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.raw_bytes).sum()
    }

    /// Bytes of all chunks.
    #[must_use]
    pub fn encoded_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.encoded_bytes).sum()
    }
}

impl ColumnTotal {
    fn add(&mut self, chunk: &TableChunk) {
        let nodes = chunk.plan.nodes();
        let entry_bytes = CHUNK_ENTRY_BYTES
            + nodes.len() * NODE_BYTES
            + chunk.sections.len() * SECTION_ENTRY_BYTES;
        let root = chunk.plan.root();
        self.raw_bytes += u64::from(root.values) * root.value_type.width_bytes() as u64;
        self.encoded_bytes += (entry_bytes + chunk.payload.len()) as u64;
        let mut sections = chunk.sections.iter().map(|section| section.len() as u64);
        let mut added = Vec::with_capacity(nodes.len());
        add_node(&mut nodes.iter(), &mut sections, 0, &mut added);
        let tree = tree_text(&chunk.plan);
        match self.trees.binary_search_by(|total| total.tree.cmp(&tree)) {
            Ok(found) => {
                let total = &mut self.trees[found];
                total.blocks += 1;
                for (total, added) in total.nodes.iter_mut().zip(added) {
                    total.given_bytes += added.given_bytes;
                    total.section_bytes += added.section_bytes;
                }
            }
            Err(place) => self.trees.insert(place, TreeTotal { tree, blocks: 1, nodes: added }),
        }
    }
}

/// Appends a node and its descendants; returns the bytes of their sections.
fn add_node<'a>(
    nodes: &mut impl Iterator<Item = &'a PlanNode>,
    sections: &mut impl Iterator<Item = u64>,
    level: usize,
    out: &mut Vec<NodeTotal>,
) -> u64 {
    // A parsed plan describes exactly one tree, and owns exactly the chunk's sections.
    let Some(node) = nodes.next() else {
        return 0;
    };
    let mut section_bytes: u64 = sections.take(node.sections.into()).sum();
    let place = out.len();
    let given_bytes = u64::from(node.values) * node.value_type.width_bytes() as u64;
    out.push(NodeTotal { encoding: node.encoding.name(), level, given_bytes, section_bytes });
    for _ in 0..node.children {
        section_bytes += add_node(nodes, sections, level + 1, out);
    }
    out[place].section_bytes = section_bytes;
    section_bytes
}

/// A plan as one line: `keyed_delta(patch(afl), scale(afl))`.
fn tree_text(plan: &Plan) -> String {
    fn write<'a>(nodes: &mut impl Iterator<Item = &'a PlanNode>, out: &mut String) {
        let Some(node) = nodes.next() else {
            return;
        };
        out.push_str(node.encoding.name());
        for child in 0..node.children {
            out.push_str(if child == 0 { "(" } else { ", " });
            write(nodes, out);
        }
        if node.children > 0 {
            out.push(')');
        }
    }
    let mut out = String::new();
    write(&mut plan.nodes().iter(), &mut out);
    out
}
