//! Comparisons of the rows of one experiment, printed after them: the loss of updates to queries,
//! rates over resident threads, the best number of cells.

use super::options::Experiment;
use super::row::Row;
use crate::harness::BackendName;

/// The permitted loss of updates to concurrent queries, percent: the bar of the project.
const LOSS_MAX_PERCENT: f64 = 25.0;

/// Prints the comparison of an experiment, if it has one.
pub(super) fn print(experiment: Experiment, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    match experiment {
        Experiment::UpdatesAlone => print_losses(rows),
        Experiment::Threads => print_threads(rows),
        Experiment::CellsUpdates | Experiment::CellsQueries => print_best(rows),
        _ => {}
    }
}

/// Per row: the update rate lost to concurrent queries, in percent of the rate without queries.
pub(super) fn losses<'a>(rows: &'a [Row]) -> Vec<(&'a Row, f64)> {
    let alone =
        |backend: BackendName| rows.iter().find(|row| row.backend == backend && row.queries == 0);
    let loss = |row: &'a Row| {
        let alone = alone(row.backend)?;
        Some((row, 100.0 * (1.0 - row.updates_per_s / alone.updates_per_s)))
    };
    rows.iter().filter_map(loss).collect()
}

fn print_losses(rows: &[Row]) {
    println!("# loss of updates to queries, at most {LOSS_MAX_PERCENT} % on a device:");
    println!("# {:>7} {:>6} {:>13} {:>13} {:>6}", "", "case", "updates/s", "queries/s", "loss %");
    for (row, loss) in losses(rows) {
        let (updates, queries) = (row.updates_per_s, row.queries_per_s);
        let backend = row.backend.name();
        println!("# {backend:>7} {:>6} {updates:>13.0} {queries:>13.0} {loss:>6.1}", row.case);
    }
}

/// For each number of resident threads: updates per second alone, and queries per second alone.
pub(super) fn rates_by_threads(rows: &[Row]) -> Vec<(&str, f64, f64)> {
    let updating = rows.iter().filter(|row| row.updates > 0);
    let pair = |row: &Row| {
        let query_row = |other: &&Row| {
            other.updates == 0 && (other.backend, &other.case) == (row.backend, &row.case)
        };
        rows.iter().find(query_row).map(|row| row.queries_per_s)
    };
    updating.filter_map(|row| Some((row.case.as_str(), row.updates_per_s, pair(row)?))).collect()
}

fn print_threads(rows: &[Row]) {
    println!("# rates over resident threads on the device, each alone:");
    println!("# {:>7} {:>13} {:>13}", "threads", "updates/s", "queries/s");
    for (threads, updates, queries) in rates_by_threads(rows) {
        println!("# {threads:>7} {updates:>13.0} {queries:>13.0}");
    }
}

/// For each backend, the row with the highest rate.
pub(super) fn best(rows: &[Row]) -> Vec<&Row> {
    let mut backends: Vec<BackendName> = rows.iter().map(|row| row.backend).collect();
    backends.sort_unstable();
    backends.dedup();
    let best = |backend: BackendName| {
        let of_backend = rows.iter().filter(|row| row.backend == backend);
        of_backend.max_by(|one, other| one.rate().total_cmp(&other.rate()))
    };
    backends.into_iter().filter_map(best).collect()
}

fn print_best(rows: &[Row]) {
    for row in best(rows) {
        println!("# {}: best with {} cells", row.backend.name(), row.cells);
    }
}
