//! Runs the experiments: divides each data set once, and measures every codec column by column.
//!
//! It uses one core: nothing runs concurrently with a measurement. Rows are printed immediately.

use std::time::Duration;

use super::contender::{Contender, contender};
use super::experiment::{Prepared, codecs, each};
use super::measure::{Effort, measure, measure_whole, together};
use super::options::{CodecName, Experiment, Options};
use super::row::{ALL, Row, Setting};
use super::{plot, table};
use crate::error::BenchmarkError;
use crate::harness::Output;

/// Runs the requested experiments.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!(
        "codec, one core, seed {}\n# GB/s of raw bytes: median and best of the runs; every run is \
         compared with the values",
        options.common.seed
    );
    let one = |experiment: Experiment, name: &str, out: &mut Output<Row>| {
        println!("\n## {name}");
        each(experiment, options, |prepared| {
            let of_set = run_data_set(experiment, prepared, options, &out.machine)?;
            table::print_data_set(&of_set);
            table::print_trees(&of_set);
            out.keep(of_set);
            Ok(())
        })?;
        table::print_totals(out.rows());
        if experiment == Experiment::Changing {
            print_gains(out.rows());
        }
        Ok(())
    };
    options.common.run(&head, &options.experiment, one, plot::draw)
}

/// Measures every codec on one data set.
fn run_data_set(
    experiment: Experiment,
    prepared: &Prepared,
    options: &Options,
    machine: &str,
) -> Result<Vec<Row>, BenchmarkError> {
    let block_rows: Vec<usize> = prepared.blocks.iter().map(|block| block.rows()).collect();
    let setting = Setting {
        experiment,
        dataset: &prepared.name,
        block_rows: prepared.block_rows,
        rows: &block_rows,
        machine,
    };
    let mut rows = Vec::new();
    for name in codecs(experiment, options) {
        match contender(name, options.common.seed) {
            Ok(mut contender) => {
                rows.extend(run_codec(name, contender.as_mut(), prepared, setting, options)?);
            }
            Err(why) => println!("# {}: {} left out, {why}", prepared.name, name.text()),
        }
    }
    Ok(rows)
}

/// One codec: a row per column, and one for all of them.
fn run_codec(
    name: CodecName,
    contender: &mut dyn Contender,
    prepared: &Prepared,
    setting: Setting<'_>,
    options: &Options,
) -> Result<Vec<Row>, BenchmarkError> {
    let effort = Effort {
        runs: options.runs as usize,
        time_max: Duration::try_from_secs_f64(options.seconds).unwrap_or(Duration::MAX),
        together_bytes: u64::from(options.together_mib) << 20,
    };
    let blocks = &prepared.blocks;
    let Some(first) = blocks.first() else {
        return Ok(Vec::new());
    };
    let mut columns = Vec::new();
    for (index, column) in first.columns.iter().enumerate() {
        if contender.takes(&column.values) {
            let measured = measure(contender, blocks, index, effort)?;
            columns.push((column.name.as_str(), measured));
        } else {
            println!("# {}: {} does not support {}", prepared.name, name.text(), column.name);
        }
    }
    let codec = (name, contender.device());
    let mut rows: Vec<Row> = columns
        .iter()
        .map(|(column, measured)| Row::of_column(setting, column, codec, measured))
        .collect();
    if columns.len() == first.columns.len() {
        let whole = contender.whole(blocks);
        let whole = whole.map(|whole| measure_whole(whole, blocks, effort)).transpose()?;
        let raw_bytes = columns.iter().map(|(_, measured)| measured.raw_bytes).sum();
        let together =
            together(raw_bytes, effort, |copies| contender.decode_whole_together(blocks, copies))?;
        rows.push(Row::of_all(setting, codec, &columns, whole, together));
    }
    Ok(rows)
}

/// The gain of planning over the tree of the first block, by mix.
fn print_gains(rows: &[Row]) {
    let of = |codec| rows.iter().filter(move |row| row.codec == codec && row.column == ALL);
    for planned in of(CodecName::Shoal) {
        let same = |fixed: &&Row| fixed.dataset == planned.dataset;
        if let Some(fixed) = of(CodecName::ShoalFixed).find(same) {
            println!(
                "{:>16}: {:.2} times the fixed tree in bytes, {:.2} in the batches' mean ratio",
                planned.dataset,
                fixed.encoded_bytes as f64 / planned.encoded_bytes as f64,
                planned.block_ratio_mean / fixed.block_ratio_mean
            );
        }
    }
}
