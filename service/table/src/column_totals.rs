//! Sizes of the columns of a compressed table, by tree and node.
//!
//! All numbers come from blocks as a reader sees them, so they are the same for a file that was
//! just written and for any other file.

use serde::Serialize;
use shoal_codec::limits::{CHUNK_ENTRY_BYTES, NODE_BYTES, SECTION_ENTRY_BYTES};
use shoal_codec::{Chunk, Part, Plan, PlanNode, Table};

use crate::header::{BlockColumn, ColumnHeader, Header, Kind};

/// Sums over all blocks of a file.
#[derive(Clone, Debug)]
pub struct ColumnTotals {
    /// The columns of the header; a text column has one for each of its parts.
    pub columns: Vec<ColumnTotal>,
    /// Bytes of blocks outside their chunks: headers and padding.
    pub container_bytes: u64,
    /// Bytes that compact blocks save, relative to the other sums.
    pub compact_saved_bytes: u64,
    header: Header,
}

/// Sums over one column.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnTotal {
    /// Index of the column in the header, and the part.
    #[serde(skip)]
    place: (usize, Part),
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
    /// Empty sums for the blocks of a table.
    pub(crate) fn new(header: &Header) -> Self {
        let mut totals = Self {
            columns: Vec::new(),
            container_bytes: 0,
            compact_saved_bytes: 0,
            header: header.clone(),
        };
        for (index, column) in header.columns.iter().enumerate() {
            let parts: &[Part] = match column.kind {
                Kind::Text => &[Part::Lengths, Part::Bytes],
                _ => &[Part::Numbers],
            };
            for part in parts {
                totals.columns.push(ColumnTotal::new(column, (index, *part)));
            }
        }
        totals
    }

    /// Adds the blocks of a group: a table, then a block for each text column that is not UTF-8.
    pub(crate) fn add_group(&mut self, blocks: &[&Table], columns: &[BlockColumn]) {
        let Some((table, texts)) = blocks.split_first() else { return };
        let column_of = |id: u16| columns.iter().find(|column| column.id == id);
        let mut bytes_apart = Vec::new();
        let before = self.encoded_bytes();
        for chunk in table.chunks() {
            // Every block has the columns of the header.
            let Some(column) = column_of(chunk.id) else { continue };
            let part = match (column.text, chunk.part) {
                (Some(_), Part::Numbers) => {
                    bytes_apart.push(column.index);
                    Part::Lengths
                }
                (_, part) => part,
            };
            self.of((column.index, part)).add(chunk);
        }
        for (block, index) in texts.iter().zip(bytes_apart) {
            let total = self.of((index, Part::Bytes));
            block.chunks().iter().for_each(|chunk| total.add(chunk));
        }
        let sum =
            |bytes: fn(&Table) -> usize| blocks.iter().copied().map(bytes).sum::<usize>() as u64;
        let (bytes, stored) = (sum(|block| block.bytes().len()), sum(Table::stored_bytes));
        self.container_bytes += bytes - (self.encoded_bytes() - before);
        self.compact_saved_bytes += bytes - stored;
    }

    /// The sums over a part of a column.
    fn of(&mut self, place: (usize, Part)) -> &mut ColumnTotal {
        let found = self.columns.binary_search_by_key(&place, |total| total.place);
        let at = found.unwrap_or_else(|at| {
            self.columns.insert(at, ColumnTotal::new(&self.header.columns[place.0], place));
            at
        });
        &mut self.columns[at]
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
    fn new(column: &ColumnHeader, place: (usize, Part)) -> Self {
        let (name, kind) = match place.1 {
            Part::Numbers => (column.name.clone(), column.kind.name()),
            Part::Indexes => (format!("{} (indexes)", column.name), "u32"),
            Part::Lengths => (format!("{} (lengths)", column.name), "u32"),
            Part::Bytes => (format!("{} (text)", column.name), "u8"),
        };
        Self { place, name, kind, raw_bytes: 0, encoded_bytes: 0, trees: Vec::new() }
    }

    fn add(&mut self, chunk: &Chunk) {
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
