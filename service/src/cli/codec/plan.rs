//! `shoal codec plan`: what a table's columns are like, and which trees they would take.
//!
//! Everything that `compress` does but for writing: the sizes are those that a file would have.

use std::io::Write as _;
use std::time::Instant;

use super::args::PlanArgs;
use super::input::{Input, progress};
use super::report::{ColumnTotals, print_columns, print_nodes, rate_gb_s, totals_json};
use super::statistics::ColumnStatistics;
use super::table_blocks::TableEncoder;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::stdout;

/// Plans one table.
///
/// # Errors
/// Those of the input.
pub(crate) fn run(args: &PlanArgs) -> Result<Exit, CliError> {
    let bar = progress();
    let started = Instant::now();
    let mut input = Input::open(&args.table.input, &args.table.options()?, &bar)?;
    let header = input.header().clone();
    let mut encoder = TableEncoder::new(&header);
    let mut totals = ColumnTotals::new(&header);
    let mut statistics: Vec<ColumnStatistics> =
        header.columns.iter().map(|column| ColumnStatistics::new(column.kind)).collect();
    while let Some(group) = input.group(args.table.block_rows as usize, &bar)? {
        for (statistics, values) in statistics.iter_mut().zip(&group.columns) {
            statistics.see(values);
        }
        let blocks = encoder.encode(&group, 0)?;
        encoder.count(&blocks, &mut totals)?;
    }
    bar.finish_and_clear();
    let rate = rate_gb_s(totals.raw_bytes(), encoder.spent());
    let mut out = stdout();
    if args.table.json {
        let mut summary = totals_json(&header, &totals);
        summary["header"] = header.text().into();
        summary["encode_gb_s"] = rate.into();
        let of_columns = header.columns.iter().zip(&statistics);
        summary["statistics"] =
            of_columns.map(|(column, statistics)| statistics.json(&column.name)).collect();
        writeln!(out, "{summary}")?;
    } else {
        writeln!(out, "{}", header.text())?;
        super::statistics::print(&mut out, &header, &statistics)?;
        writeln!(out)?;
        print_columns(&mut out, &totals)?;
        print_nodes(&mut out, &totals)?;
        writeln!(
            out,
            "\nencoded at {rate:.2} GB/s of values on one core; {:.1} s with reading and parsing",
            started.elapsed().as_secs_f64()
        )?;
    }
    out.flush()?;
    Ok(Exit::Done)
}
