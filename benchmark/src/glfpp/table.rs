//! Results as lines for people, and as CSV for programs.

use std::path::Path;

use super::row::Row;
use crate::error::BenchmarkError;
use crate::experiments::failed;

/// Prints what stands above the rows of one experiment.
pub(super) fn print_head(experiment: &str) {
    println!("\n## {experiment}");
    println!(
        "{:>9} {:>6} {:>9} {:>11} {:>11} {:>8} {:>8} {:>6} {:>6} {:>8} {:>9} {:>6}  answers",
        "case",
        "",
        "objects",
        "updates/s",
        "queries/s",
        "p50 ms",
        "p99 ms",
        "behind",
        "found",
        "B/object",
        "cells",
        "bucket",
    );
}

/// Prints one row; `behind` is staleness in epochs, `found` objects a query.
pub(super) fn print(row: &Row) {
    println!(
        "{:>9} {:>6} {:>9} {:>11.0} {:>11.0} {:>8.2} {:>8.2} {:>6} {:>6.2} {:>8.1} {:>9} {:>6}  {}",
        row.case,
        row.backend_name(),
        row.objects,
        row.updates_per_s,
        row.queries_per_s,
        row.cycle_ms_p50,
        row.cycle_ms_p99,
        row.epochs_behind,
        row.results_per_query,
        row.bytes_per_object,
        row.cells,
        row.bucket_objects,
        row.answer_hash
    );
}

/// Writes the rows as CSV, the keys of the JSON as its head.
pub(super) fn write_csv(path: &Path, rows: &[Row]) -> Result<(), BenchmarkError> {
    let csv_failed = |error| failed(path, csv::Error::into(error));
    let mut writer = csv::Writer::from_path(path).map_err(csv_failed)?;
    for row in rows {
        writer.serialize(row).map_err(csv_failed)?;
    }
    writer.flush().map_err(|source| failed(path, source))
}
