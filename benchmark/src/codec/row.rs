//! A result: one row of the tables and of the files.
//!
//! The names and meaning of the first ten keys are published and do not change.

use std::fmt::Write as _;

use serde::Serialize;

use super::measure::{Measured, Times};
use super::options::{CodecName, Experiment};

/// The name of the row that sums up the columns of a data set.
pub(super) const ALL: &str = "all";

/// One codec on one column of a data set, or on all of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) dataset: String,
    /// [`ALL`] for complete, self-contained blocks.
    pub(super) column: String,
    pub(super) rows: usize,
    pub(super) codec: CodecName,
    pub(super) device: &'static str,
    pub(super) raw_bytes: u64,
    pub(super) encoded_bytes: u64,
    /// Raw bytes per second, median of the runs.
    pub(super) encode_gb_s: f64,
    /// Raw bytes per second, median of the runs.
    pub(super) decode_gb_s: f64,
    /// The tree, or the options of a foreign codec.
    pub(super) tree: String,
    pub(super) experiment: Experiment,
    pub(super) block_rows: u32,
    pub(super) blocks: usize,
    pub(super) ratio: f64,
    /// Mean of the blocks' ratios.
    pub(super) block_ratio_mean: f64,
    pub(super) encode_gb_s_best: f64,
    pub(super) decode_gb_s_best: f64,
    /// Rate for many blocks decoded at once, if requested of a device codec.
    pub(super) decode_gb_s_together: Option<f64>,
    /// Minimum number of runs of any column.
    pub(super) runs: usize,
    pub(super) machine: String,
}

/// The common fields of the rows of one data set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) experiment: Experiment,
    pub(super) dataset: &'a str,
    pub(super) block_rows: u32,
    /// Rows of each block.
    pub(super) rows: &'a [usize],
    pub(super) machine: &'a str,
}

impl Row {
    /// One column.
    pub(super) fn of_column(
        setting: Setting<'_>,
        column: &str,
        (codec, device): (CodecName, &'static str),
        measured: &Measured,
    ) -> Self {
        let width = measured.raw_bytes as f64 / setting.rows.iter().sum::<usize>().max(1) as f64;
        let ratios = setting.rows.iter().zip(&measured.encoded_bytes);
        let sum: f64 = ratios.map(|(rows, bytes)| *rows as f64 * width / *bytes as f64).sum();
        let encoded_bytes: u64 = measured.encoded_bytes.iter().sum();
        let rate = |seconds: f64| measured.raw_bytes as f64 / 1e9 / seconds;
        Self {
            dataset: setting.dataset.to_owned(),
            column: column.to_owned(),
            rows: setting.rows.iter().sum(),
            codec,
            device,
            raw_bytes: measured.raw_bytes,
            encoded_bytes,
            encode_gb_s: rate(measured.encode.median_s),
            decode_gb_s: rate(measured.decode.median_s),
            tree: measured.choice.clone(),
            experiment: setting.experiment,
            block_rows: setting.block_rows,
            blocks: setting.rows.len(),
            ratio: measured.raw_bytes as f64 / encoded_bytes as f64,
            block_ratio_mean: sum / setting.rows.len() as f64,
            encode_gb_s_best: rate(measured.encode.best_s),
            decode_gb_s_best: rate(measured.decode.best_s),
            decode_gb_s_together: measured.together_bytes_s.map(|rate| rate / 1e9),
            runs: measured.runs,
            machine: setting.machine.to_owned(),
        }
    }

    /// All columns together: measured whole blocks, or the sum of their columns.
    pub(super) fn of_all(
        setting: Setting<'_>,
        codec: (CodecName, &'static str),
        columns: &[(&str, Measured)],
        whole: Option<Measured>,
        whole_together_bytes_s: Option<f64>,
    ) -> Self {
        let mut choice = String::new();
        let mut summed_bytes = vec![0; setting.rows.len()];
        let (mut encode, mut decode) = (Times::default(), Times::default());
        for (name, measured) in columns {
            let separator = if choice.is_empty() { "" } else { "; " };
            let _ = write!(choice, "{separator}{name}: {}", measured.choice);
            for (sum, bytes) in summed_bytes.iter_mut().zip(&measured.encoded_bytes) {
                *sum += bytes;
            }
            encode = encode.and(measured.encode);
            decode = decode.and(measured.decode);
        }
        let raw_bytes: u64 = columns.iter().map(|(_, measured)| measured.raw_bytes).sum();
        // The sum of sequential times.
        let together = columns.iter().map(|(_, measured)| {
            measured.together_bytes_s.map(|rate| measured.raw_bytes as f64 / rate)
        });
        let together_s: Option<f64> = together.sum();
        let together_bytes_s =
            whole_together_bytes_s.or(together_s.map(|seconds| raw_bytes as f64 / seconds));
        let summed = Measured {
            raw_bytes,
            encoded_bytes: summed_bytes,
            encode,
            decode,
            runs: columns.iter().map(|(_, measured)| measured.runs).min().unwrap_or(0),
            choice: String::new(),
            together_bytes_s: None,
        };
        let measured = Measured { choice, together_bytes_s, ..whole.unwrap_or(summed) };
        Self::of_column(setting, ALL, codec, &measured)
    }
}
