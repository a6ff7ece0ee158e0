//! What became of each column: trees, bytes, ratios per node; as tables for people and as JSON.
//!
//! Everything is read from the blocks themselves, so it is the same for a file that was just
//! written and for one from elsewhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use shoal_codec::limits::{CHUNK_ENTRY_BYTES, NODE_BYTES, SECTION_ENTRY_BYTES};
use shoal_codec::{Plan, PlanNode, Table, TableChunk};

use super::frame::Trailer;
use super::header::Header;
use crate::cli::output::plain_table;

/// Sums over all blocks of a file.
#[derive(Clone, Debug)]
pub(crate) struct ColumnTotals {
    /// Columns of the header, then the bytes of its text columns.
    columns: Vec<ColumnTotal>,
    /// Number of the column that each text block belongs to, in order.
    texts: Vec<usize>,
    /// Bytes of blocks beside their chunks: headers and padding.
    container_bytes: u64,
}

/// Sums over one column.
#[derive(Clone, Debug)]
struct ColumnTotal {
    name: String,
    kind: String,
    raw_bytes: u64,
    encoded_bytes: u64,
    /// By the tree's text.
    trees: BTreeMap<String, TreeTotal>,
}

/// Sums over the blocks in which a column had one tree.
#[derive(Clone, Debug, Default)]
struct TreeTotal {
    blocks: u64,
    nodes: Vec<NodeTotal>,
}

/// One node of a tree, in pre-order.
#[derive(Clone, Debug)]
struct NodeTotal {
    name: &'static str,
    level: usize,
    /// Bytes of the values that it gives.
    given_bytes: u64,
    /// Bytes of the sections of it and of all nodes below it.
    section_bytes: u64,
}

impl ColumnTotals {
    /// Of no block.
    pub(crate) fn new(header: &Header) -> Self {
        let total = |name: String, kind: &str| ColumnTotal {
            name,
            kind: kind.to_owned(),
            raw_bytes: 0,
            encoded_bytes: 0,
            trees: BTreeMap::new(),
        };
        let numbers = header.columns.iter().map(|column| match column.kind {
            super::header::Kind::Text => total(format!("{} (lengths)", column.name), "u32"),
            kind => total(column.name.clone(), kind.name()),
        });
        let mut columns: Vec<_> = numbers.collect();
        let texts: Vec<usize> = header.texts().collect();
        for index in &texts {
            columns.push(total(format!("{} (text)", header.columns[*index].name), "u8"));
        }
        Self { columns, texts, container_bytes: 0 }
    }

    /// Adds the table block of a group; `columns` says which column each chunk is.
    pub(crate) fn add_table(&mut self, block: &Table, columns: &[usize]) {
        let before: u64 = self.encoded_bytes();
        for (chunk, column) in block.chunks().iter().zip(columns) {
            self.columns[*column].add(chunk);
        }
        self.container_bytes += block.bytes().len() as u64 - (self.encoded_bytes() - before);
    }

    /// Adds text block number `text` of a group.
    pub(crate) fn add_text(&mut self, block: &Table, text: usize) {
        let column = self.columns.len() - self.texts.len() + text;
        self.add_table(block, &[column]);
    }

    /// Bytes of all values.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.raw_bytes).sum()
    }

    /// Bytes of all chunks.
    fn encoded_bytes(&self) -> u64 {
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
        let total = self.trees.entry(tree_text(&chunk.plan)).or_default();
        total.blocks += 1;
        if total.nodes.is_empty() {
            total.nodes = added;
            return;
        }
        for (total, added) in total.nodes.iter_mut().zip(added) {
            total.given_bytes += added.given_bytes;
            total.section_bytes += added.section_bytes;
        }
    }

    /// The tree of most blocks, and how many others there are.
    fn usual_tree(&self) -> (String, usize) {
        let usual = self.trees.iter().max_by_key(|(_, total)| total.blocks);
        usual.map_or_else(Default::default, |(text, _)| (text.clone(), self.trees.len() - 1))
    }
}

/// Appends a node and all below it; gives the bytes of their sections.
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
    out.push(NodeTotal { name: node.encoding.name(), level, given_bytes, section_bytes });
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

/// Gigabytes a second; 0 of no bytes.
pub(crate) fn rate_gb_s(bytes: u64, spent: Duration) -> f64 {
    if bytes == 0 { 0.0 } else { bytes as f64 / 1e9 / spent.as_secs_f64() }
}

fn ratio(raw_bytes: u64, encoded_bytes: u64) -> String {
    match encoded_bytes {
        0 => "-".to_owned(),
        bytes => format!("{:.2}", raw_bytes as f64 / bytes as f64),
    }
}

/// Writes a line per column, and one for all.
pub(crate) fn print_columns(out: &mut impl Write, totals: &ColumnTotals) -> std::io::Result<()> {
    let header = ["column", "type", "values bytes", "encoded bytes", "ratio", "tree"];
    let mut table = plain_table(&header, &["column", "type", "tree"]);
    for column in &totals.columns {
        let (tree, others) = column.usual_tree();
        let others = if others == 0 { String::new() } else { format!(" and {others} more") };
        table.add_row([
            column.name.clone(),
            column.kind.clone(),
            column.raw_bytes.to_string(),
            column.encoded_bytes.to_string(),
            ratio(column.raw_bytes, column.encoded_bytes),
            format!("{tree}{others}"),
        ]);
    }
    let encoded_bytes = totals.encoded_bytes() + totals.container_bytes;
    table.add_row([
        "all, with headers".to_owned(),
        String::new(),
        totals.raw_bytes().to_string(),
        encoded_bytes.to_string(),
        ratio(totals.raw_bytes(), encoded_bytes),
        String::new(),
    ]);
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Writes the trees of every column node by node.
pub(crate) fn print_nodes(out: &mut impl Write, totals: &ColumnTotals) -> std::io::Result<()> {
    for column in &totals.columns {
        for (text, tree) in &column.trees {
            writeln!(out, "\n{}: {text}, {} blocks", column.name, tree.blocks)?;
            for node in &tree.nodes {
                writeln!(
                    out,
                    "  {:indent$}{:width$} {:>12} -> {:>12} bytes, ratio {}",
                    "",
                    node.name,
                    node.given_bytes,
                    node.section_bytes,
                    ratio(node.given_bytes, node.section_bytes),
                    indent = 2 * node.level,
                    width = 24 - 2 * node.level,
                )?;
            }
        }
    }
    Ok(())
}

/// The same as one JSON object.
pub(crate) fn totals_json(header: &Header, totals: &ColumnTotals) -> Value {
    let node = |node: &NodeTotal| {
        json!({
            "encoding": node.name,
            "level": node.level,
            "given_bytes": node.given_bytes,
            "section_bytes": node.section_bytes,
        })
    };
    let tree = |(text, tree): (&String, &TreeTotal)| {
        let nodes: Vec<Value> = tree.nodes.iter().map(node).collect();
        json!({ "tree": text, "blocks": tree.blocks, "nodes": nodes })
    };
    let column = |column: &ColumnTotal| {
        json!({
            "column": column.name,
            "type": column.kind,
            "raw_bytes": column.raw_bytes,
            "encoded_bytes": column.encoded_bytes,
            "trees": column.trees.iter().map(tree).collect::<Vec<_>>(),
        })
    };
    json!({
        "key": header.key,
        "is_csv": header.csv.is_some(),
        "columns": totals.columns.iter().map(column).collect::<Vec<_>>(),
        "raw_bytes": totals.raw_bytes(),
        "container_bytes": totals.container_bytes,
    })
}

/// Adds what the trailer says.
pub(crate) fn add_trailer(summary: &mut Value, trailer: &Trailer) {
    summary["rows"] = trailer.rows.into();
    summary["blocks"] = trailer.blocks.into();
    summary["file_bytes"] = trailer.file_bytes.into();
}
