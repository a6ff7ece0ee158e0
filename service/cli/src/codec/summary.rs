//! Summaries of tables: text for people, JSON for programs.
//!
//! The JSON of columns and statistics is that of their types in `shoal-table`.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::Table;
use serde_json::{Value, json};
use shoal_table::{
    ColumnStatistics, ColumnTotal, ColumnTotals, DISTINCT_MAX, Header, Kind, Number, Trailer,
};

use crate::output::plain_table;

/// Gigabytes per second; 0 for no bytes.
pub(super) fn rate_gb_s(bytes: u64, spent: Duration) -> f64 {
    if bytes == 0 { 0.0 } else { bytes as f64 / 1e9 / spent.as_secs_f64() }
}

fn ratio(raw_bytes: u64, encoded_bytes: u64) -> String {
    match encoded_bytes {
        0 => "-".to_owned(),
        bytes => format!("{:.2}", raw_bytes as f64 / bytes as f64),
    }
}

/// Prints a line for each column and one for their sum.
pub(super) fn print_columns(out: &mut impl Write, totals: &ColumnTotals) -> io::Result<()> {
    let header = ["column", "type", "values bytes", "encoded bytes", "ratio", "tree"];
    let mut table = plain_table(&header, &["column", "type", "tree"]);
    for column in &totals.columns {
        table.add_row([
            column.name.clone(),
            column.kind.to_owned(),
            column.raw_bytes.to_string(),
            column.encoded_bytes.to_string(),
            ratio(column.raw_bytes, column.encoded_bytes),
            usual_tree(column),
        ]);
    }
    let encoded_bytes = totals.stored_bytes();
    table.add_row([
        "all, with headers".to_owned(),
        String::new(),
        totals.raw_bytes().to_string(),
        encoded_bytes.to_string(),
        ratio(totals.raw_bytes(), encoded_bytes),
        String::new(),
    ]);
    print_table(out, &table)
}

/// Prints the nodes of every tree of each column.
pub(super) fn print_nodes(out: &mut impl Write, totals: &ColumnTotals) -> io::Result<()> {
    for column in &totals.columns {
        for tree in &column.trees {
            writeln!(out, "\n{}: {}, {} blocks", column.name, tree.tree, tree.blocks)?;
            for node in &tree.nodes {
                writeln!(
                    out,
                    "  {:indent$}{:width$} {:>12} -> {:>12} bytes, ratio {}",
                    "",
                    node.encoding,
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

/// The most frequent tree of a column, and the number of other trees.
fn usual_tree(column: &ColumnTotal) -> String {
    let Some(usual) = column.trees.iter().max_by_key(|total| total.blocks) else {
        return String::new();
    };
    match column.trees.len() - 1 {
        0 => usual.tree.clone(),
        others => format!("{} and {others} more", usual.tree),
    }
}

/// Prints a line for each column; values of decimals are the stored integers.
pub(super) fn print_statistics(
    out: &mut impl Write,
    header: &Header,
    statistics: &[ColumnStatistics],
) -> io::Result<()> {
    let names = ["column", "type", "least", "greatest", "different", "mean run", "ascending"];
    let mut table = plain_table(&names, &["column", "type"]);
    for (column, found) in header.columns.iter().zip(statistics) {
        let shown = |end: Option<Number>| end.map_or("-".to_owned(), |end| end.to_string());
        let distinct = found.distinct.map(|count| count.to_string());
        let kind = if column.kind == Kind::Text { "text lengths" } else { column.kind.name() };
        table.add_row([
            column.name.clone(),
            kind.to_owned(),
            shown(found.least),
            shown(found.greatest),
            distinct.unwrap_or_else(|| format!("> {DISTINCT_MAX}")),
            format!("{:.2}", found.run_mean),
            format!("{:.1} %", 100.0 * found.ascending_share),
        ]);
    }
    print_table(out, &table)
}

fn print_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// The sizes of a table as one JSON object.
pub(super) fn totals_json(header: &Header, totals: &ColumnTotals) -> Value {
    json!({
        "key": header.key,
        "is_csv": header.csv.is_some(),
        "columns": totals.columns,
        "raw_bytes": totals.raw_bytes(),
        "container_bytes": totals.container_bytes,
        "compact_saved_bytes": totals.compact_saved_bytes,
    })
}

/// Adds the sizes of a file.
pub(super) fn add_trailer(summary: &mut Value, trailer: &Trailer) {
    summary["rows"] = trailer.rows.into();
    summary["blocks"] = trailer.blocks.into();
    summary["file_bytes"] = trailer.file_bytes.into();
}
