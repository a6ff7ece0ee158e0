//! Prints results as tables.
//!
//! A ratio is raw bytes over encoded bytes; data sets are combined by sums of bytes and times.

use comfy_table::{CellAlignment, Table, presets};

use super::row::{ALL, Row};
use crate::harness::plot::distinct;

/// Prints the rows of one data set: a line per codec with its ratio on each column and its speed.
pub(super) fn print_data_set(rows: &[Row]) {
    let Some(first) = rows.first() else {
        return;
    };
    let raw_mb = rows.iter().find(|row| row.column == ALL).map_or(0, |row| row.raw_bytes) as f64;
    println!(
        "\n{}: {} rows, {:.1} MB, blocks of {}",
        first.dataset,
        first.rows,
        raw_mb / 1e6,
        first.block_rows
    );
    let columns = distinct(rows.iter().map(|row| row.column.as_str()));
    let mut table = plain(["codec"].into_iter().chain(columns.iter().copied()).chain([
        "encode GB/s",
        "best",
        "decode GB/s",
        "best",
        "together",
        "runs",
    ]));
    for all in rows.iter().filter(|row| row.column == ALL) {
        let ratio = |column: &&str| {
            let of_column = |row: &&Row| row.codec == all.codec && row.column == *column;
            rows.iter().find(of_column).map_or_else(String::new, |row| format!("{:.2}", row.ratio))
        };
        let speeds = [all.encode_gb_s, all.encode_gb_s_best, all.decode_gb_s, all.decode_gb_s_best];
        let mut line = vec![all.codec.text()];
        line.extend(columns.iter().map(ratio));
        line.extend(speeds.map(|speed| format!("{speed:.3}")));
        let together = all.decode_gb_s_together;
        line.push(together.map_or_else(String::new, |speed| format!("{speed:.3}")));
        line.push(all.runs.to_string());
        table.add_row(line);
    }
    println!("{}", trimmed(&table));
}

/// Prints the trees that Shoal chose, a line per column.
pub(super) fn print_trees(rows: &[Row]) {
    for row in rows.iter().filter(|row| row.column != ALL && row.codec.is_shoal()) {
        println!("  {} {}: {}", row.codec.text(), row.column, row.tree);
    }
}

/// Prints one table per block size: the totals of each codec over all data sets of an experiment.
pub(super) fn print_totals(rows: &[Row]) {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.block_rows).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for block_rows in sizes {
        println!("\nall data sets, blocks of {block_rows}");
        let mut table = plain(["codec", "ratio", "encode GB/s", "decode GB/s"]);
        for total in totals(rows, block_rows) {
            table.add_row([
                total.codec,
                format!("{:.3}", total.ratio),
                format!("{:.3}", total.encode_gb_s),
                format!("{:.3}", total.decode_gb_s),
            ]);
        }
        println!("{}", trimmed(&table));
    }
}

/// One codec over all data sets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Total {
    pub(super) codec: String,
    pub(super) ratio: f64,
    pub(super) encode_gb_s: f64,
    pub(super) decode_gb_s: f64,
}

/// Sums of bytes and of times over the data sets, in the order of the codecs.
pub(super) fn totals(rows: &[Row], block_rows: u32) -> Vec<Total> {
    let all = || rows.iter().filter(|row| row.column == ALL && row.block_rows == block_rows);
    let codecs = distinct(all().map(|row| row.codec));
    let total = |codec| {
        let of_codec = || all().filter(move |row| row.codec == codec);
        let raw: f64 = of_codec().map(|row| row.raw_bytes as f64).sum();
        let encoded: f64 = of_codec().map(|row| row.encoded_bytes as f64).sum();
        let encode: f64 = of_codec().map(|row| row.raw_bytes as f64 / row.encode_gb_s).sum();
        let decode: f64 = of_codec().map(|row| row.raw_bytes as f64 / row.decode_gb_s).sum();
        Total {
            codec: codec.text(),
            ratio: raw / encoded,
            encode_gb_s: raw / encode,
            decode_gb_s: raw / decode,
        }
    };
    codecs.into_iter().map(total).collect()
}

/// A table without a frame; all columns but the first are right-aligned.
fn plain<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn trimmed(table: &Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}
