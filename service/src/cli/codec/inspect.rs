//! `shoal codec inspect`: what is in a compressed file, from its blocks' directories.
//!
//! Checksums and plans of every block are checked in any case; values only if that is asked for.

use std::io::Write as _;

use super::args::InspectArgs;
use super::decompress::open;
use super::report::{
    ColumnTotals, add_trailer, print_columns, print_nodes, rate_gb_s, totals_json,
};
use super::table_blocks::TableDecoder;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::stdout;

/// Shows one file.
///
/// # Errors
/// A damaged file, with the byte where it is.
pub(crate) fn run(args: &InspectArgs) -> Result<Exit, CliError> {
    let mut frame = open(&args.file)?;
    let header = frame.header().clone();
    let mut decoder = TableDecoder::new(&header);
    let mut totals = ColumnTotals::new(&header);
    while let Some(mut blocks) = decoder.blocks(&mut frame)? {
        decoder.count(&blocks, &mut totals);
        while args.check && decoder.part(&frame, &mut blocks)?.is_some() {}
    }
    let trailer = decoder.finish(&frame)?;
    let rate = rate_gb_s(decoder.raw_bytes(), decoder.spent());
    let mut out = stdout();
    if args.json {
        let mut summary = totals_json(&header, &totals);
        add_trailer(&mut summary, &trailer);
        if args.check {
            summary["decode_gb_s"] = rate.into();
        }
        writeln!(out, "{summary}")?;
    } else {
        let form = if header.csv.is_some() { "CSV text" } else { "binary columns" };
        let key = header.key.as_ref().map_or_else(String::new, |key| format!(", key {key}"));
        writeln!(
            out,
            "{form}{key}: {} rows in {} blocks, {} bytes\n",
            trailer.rows, trailer.blocks, trailer.file_bytes
        )?;
        print_columns(&mut out, &totals)?;
        print_nodes(&mut out, &totals)?;
        if args.check {
            writeln!(out, "\nall values decoded, {rate:.2} GB/s on one core")?;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}
