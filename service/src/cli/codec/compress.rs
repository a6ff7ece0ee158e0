//! `shoal codec compress`: a table becomes a file of blocks.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::args::{CompressArgs, TableArgs};
use super::frame::FrameWriter;
use super::input::{Input, progress};
use super::output::{OutputFile, failed};
use super::report::{ColumnTotals, add_trailer, print_columns, rate_gb_s, totals_json};
use super::table_blocks::TableEncoder;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::stdout;

/// Compresses one table.
///
/// # Errors
/// Those of the input and of writing; nothing is left half written.
pub(crate) fn run(args: &CompressArgs) -> Result<Exit, CliError> {
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.table));
    super::output::refuse_existing(&path, args.force)?;
    let started = Instant::now();
    let bar = progress();
    let mut input = Input::open(&args.table.input, &args.table.options()?, &bar)?;
    let header = input.header().clone();
    let out = OutputFile::create(&path, args.force)?;
    let mut frame = FrameWriter::open(out, &header).map_err(failed(&path))?;
    let mut encoder = TableEncoder::new(&header);
    let mut totals = ColumnTotals::new(&header);
    while let Some(group) = input.group(args.table.block_rows as usize, &bar)? {
        let blocks = encoder.encode(&group, frame.sequence())?;
        encoder.count(&blocks, &mut totals)?;
        for (index, block) in blocks.iter().enumerate() {
            let rows = if index == 0 { group.rows as u64 } else { 0 };
            frame.block(block, rows).map_err(failed(&path))?;
        }
    }
    bar.finish_and_clear();
    let (out, trailer) = frame.finish(input.last_without_end()).map_err(failed(&path))?;
    out.finish()?;
    let elapsed = started.elapsed();
    let mut out = stdout();
    if args.table.json {
        let mut summary = totals_json(&header, &totals);
        add_trailer(&mut summary, &trailer);
        summary["file"] = path.display().to_string().into();
        summary["elapsed_s"] = elapsed.as_secs_f64().into();
        summary["encode_s"] = encoder.spent().as_secs_f64().into();
        writeln!(out, "{summary}")?;
    } else {
        print_columns(&mut out, &totals)?;
        let rate = rate_gb_s(totals.raw_bytes(), encoder.spent());
        let text = std::fs::metadata(&args.table.input).map_or(0, |data| data.len());
        writeln!(
            out,
            "\n{}: {} rows, {} bytes of input, {} bytes of values -> {} bytes\n\
             encoded at {rate:.2} GB/s of values on one core; {:.1} s with reading and parsing",
            path.display(),
            trailer.rows,
            text,
            totals.raw_bytes(),
            trailer.file_bytes,
            elapsed.as_secs_f64()
        )?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// The input's name without `.gz` and `.toml`, and `.shoal` behind it.
fn default_output(table: &TableArgs) -> PathBuf {
    let input: &Path = &table.input;
    let is_dropped = input.extension().is_some_and(|ending| ending == "gz" || ending == "toml");
    let stem = if is_dropped { input.with_extension("") } else { input.to_owned() };
    let mut name = stem.file_name().unwrap_or_default().to_owned();
    name.push(".shoal");
    stem.with_file_name(name)
}
