//! Real positions: every CSV file of a folder, rows in the order of the file.
//!
//! Rows are converted to stored units: quanta of 1e-7 degree, milliseconds, mm/s, hundredths of a
//! degree. Rows that the product would refuse are skipped and counted.

use std::path::{Path, PathBuf};

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::Space;
use shoal_table::{CsvReader, Fix, FixFileOptions, SpeedUnit};
use shoal_workload::WorkloadError;

use super::data_set::{Content, DataSet};
use crate::error::BenchmarkError;

/// Name prefixes of files with speeds in knots, according to their description.
const IN_KNOTS: [&str; 2] = ["aircraft_", "vessel_"];

/// Every `.csv` and `.csv.gz` file of a folder, by name.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, BenchmarkError> {
    let failed = |source| BenchmarkError::Read { path: folder.display().to_string(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".csv") || name.ends_with(".csv.gz") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let text = format!("{} has no .csv and no .csv.gz file", folder.display());
        return Err(BenchmarkError::WorkloadRows(text));
    }
    Ok(files)
}

/// A file's name without folder and endings.
pub(super) fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".gz").trim_end_matches(".csv").to_owned()
}

/// The positions of one file, and the number of skipped rows.
pub(super) fn positions(file: &Path) -> Result<(DataSet, u64), BenchmarkError> {
    let name = stem(file);
    let in_knots = IN_KNOTS.iter().any(|prefix| name.starts_with(prefix));
    let unit = if in_knots { SpeedUnit::Knots } else { SpeedUnit::MetresPerSecond };
    let space = Space::geographic();
    let mut fixes = FixColumns::new();
    let mut left_out = 0;
    for read in CsvReader::open(file, &FixFileOptions::strict(unit)).map_err(WorkloadError::from)? {
        match read {
            Ok(fix) => match row(&space, &fix) {
                Some(row) => fixes.push_row(row),
                None => left_out += 1,
            },
            Err(error) if error.ends_file() => {
                return Err(BenchmarkError::WorkloadRows(error.to_string()));
            }
            Err(_) => left_out += 1,
        }
    }
    let content = Content::Fixes(Box::new(fixes), space.tag());
    Ok((DataSet { name, content }, left_out))
}

/// A row in stored units; `None` if the product would refuse it.
fn row(space: &Space, fix: &Fix) -> Option<FixRow> {
    let (x, y) = space.quantise(fix.x, fix.y).ok()?;
    let mut row = FixRow::new(fix.object, fix.time_ms, x, y);
    if let Some(speed_mps) = fix.speed_mps {
        let speed_mm_s = (speed_mps * 1e3).round_ties_even();
        if !(0.0..f64::from(u32::MAX)).contains(&speed_mm_s) {
            return None;
        }
        row.speed_mm_s = speed_mm_s as u32;
    }
    if let Some(heading_deg) = fix.heading_deg {
        // Sources also print due north as 360.
        let heading_cdeg = (heading_deg * 1e2).round_ties_even();
        if !(0.0..=36_000.0).contains(&heading_cdeg) {
            return None;
        }
        row.heading_cdeg = heading_cdeg as u16 % 36_000;
    }
    Some(row)
}
