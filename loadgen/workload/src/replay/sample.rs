//! A seeded sample of the positions in the first rows of a file, and their box.
//!
//! The box leaves out the lowest and highest hundredth of each coordinate, so that outliers of a
//! source (0,0, jumps across a continent) do not enlarge it.

use std::path::Path;

use shoal_table::{CsvReader, FixFileOptions};

use crate::limits::{REPLAY_PREFIX_ROWS, REPLAY_SAMPLE_ROWS};
use crate::random::{Domain, below, stream};
use crate::{SpeedUnit, Window, WorkloadError};

/// A sample of the positions of a file, and a box of the sample.
#[derive(Debug)]
pub(super) struct Sample {
    /// Longitude and latitude of up to [`REPLAY_SAMPLE_ROWS`] rows, at least one.
    pub(super) positions: Vec<(f64, f64)>,
    /// From the 1st to the 99th percentile of the longitudes and of the latitudes of the sample.
    pub(super) data_box: Window,
}

impl Sample {
    /// Samples the first [`REPLAY_PREFIX_ROWS`] rows with equal probability (reservoir sampling,
    /// Vitter, ACM TOMS 1985, algorithm R).
    pub(super) fn read(file: &Path, seed: u64) -> Result<Self, WorkloadError> {
        let reader = CsvReader::open(file, &FixFileOptions::strict(SpeedUnit::default()))?;
        let mut random = stream(seed, Domain::Sample, 0);
        let mut positions = Vec::new();
        let fixes = reader.take(REPLAY_PREFIX_ROWS).filter_map(Result::ok);
        for (row, fix) in fixes.enumerate() {
            if row < REPLAY_SAMPLE_ROWS {
                positions.push((fix.x, fix.y));
                continue;
            }
            let place = below(&mut random, row + 1);
            if let Some(kept) = positions.get_mut(place) {
                *kept = (fix.x, fix.y);
            }
        }
        if positions.is_empty() {
            return Err(WorkloadError::NoRows { file: file.to_owned(), rows: REPLAY_PREFIX_ROWS });
        }
        let (west, east) = inner(positions.iter().map(|position| position.0).collect());
        let (south, north) = inner(positions.iter().map(|position| position.1).collect());
        Ok(Self { positions, data_box: Window { west, south, east, north } })
    }
}

/// The 1st and the 99th percentile of the values.
fn inner(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len() - 1;
    let margin = last / 100;
    (values[margin], values[last - margin])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_leaves_out_outliers() {
        let mut values: Vec<f64> = (0..1_000).map(f64::from).collect();
        values[500] = 1e9;
        assert_eq!(inner(values), (9.0, 991.0));
        assert_eq!(inner(vec![7.0]), (7.0, 7.0));
    }
}
