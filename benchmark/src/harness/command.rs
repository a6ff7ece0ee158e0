//! The common frame of commands: flags, head, experiments in order, output files.
//!
//! Measured rows are written even if a later experiment fails.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::machine;
use super::table::ResultRow;
use crate::error::BenchmarkError;

/// The flags of every command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Common {
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the rows to this file as a JSON list.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the rows to this file as CSV.
    #[arg(long)]
    pub(crate) csv: Option<PathBuf>,
    /// Draw SVG plots into this folder, one or more per experiment.
    #[arg(long)]
    pub(crate) svg: Option<PathBuf>,
}

/// A file that could not be written.
pub(crate) fn failed(path: &Path, source: std::io::Error) -> BenchmarkError {
    BenchmarkError::Write { path: path.display().to_string(), source }
}

/// A file that could not be read.
pub(crate) fn read_failed(path: &Path, source: std::io::Error) -> BenchmarkError {
    BenchmarkError::Read { path: path.display().to_string(), source }
}

/// The command-line name of a value.
pub(crate) fn value_name<E: ValueEnum>(value: &E) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The rows of a command, and where they were measured.
pub(crate) struct Output<R> {
    pub(crate) machine: String,
    rows: Vec<R>,
    /// Index of the first row of the current experiment.
    first: usize,
    /// Messages about what the current experiment leaves out, and why.
    left_out: Vec<String>,
}

impl<R> Output<R> {
    /// Creates an output without rows.
    pub(crate) fn new(machine: String) -> Self {
        Self { machine, rows: Vec::new(), first: 0, left_out: Vec::new() }
    }

    /// The rows of the current experiment.
    pub(crate) fn rows(&self) -> &[R] {
        &self.rows[self.first..]
    }

    /// Adds rows without printing them.
    pub(crate) fn keep(&mut self, rows: Vec<R>) {
        self.rows.extend(rows);
    }

    /// Prints why something is left out, once per experiment.
    pub(crate) fn leave_out(&mut self, what: &str, why: &str) {
        let text = format!("# {what} left out: {why}");
        if !self.left_out.contains(&text) {
            println!("{text}");
            self.left_out.push(text);
        }
    }
}

impl<R: ResultRow> Output<R> {
    /// Prints and keeps a row.
    pub(crate) fn add(&mut self, row: R) {
        row.print();
        self.rows.push(row);
    }
}

impl Common {
    /// Confirms that the files can be written. Called before a run, because a run may take an hour.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(crate) fn check_files(&self) -> Result<(), BenchmarkError> {
        self.json.iter().chain(&self.csv).try_for_each(|path| check_writable(path))?;
        match &self.svg {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))
            }
            None => Ok(()),
        }
    }

    /// Prints the head of a command and runs `one` for each experiment with its name. Draws each
    /// experiment's rows and writes all rows.
    ///
    /// # Errors
    /// A file that cannot be written, before anything runs; then the first error of an experiment,
    /// of drawing or of writing.
    pub(crate) fn run<E: Copy + ValueEnum, R: Serialize>(
        &self,
        head: &str,
        experiments: &[E],
        mut one: impl FnMut(E, &str, &mut Output<R>) -> Result<(), BenchmarkError>,
        draw: impl Fn(&Path, &str, &[R]) -> Result<(), BenchmarkError>,
    ) -> Result<(), BenchmarkError> {
        self.check_files()?;
        let machine = machine::describe();
        println!("# {head}\n# {machine}");
        let mut out = Output::new(machine);
        let ran = experiments.iter().try_for_each(|experiment| {
            let name = value_name(experiment);
            out.first = out.rows.len();
            out.left_out.clear();
            one(*experiment, &name, &mut out)?;
            match &self.svg {
                Some(folder) if !out.rows().is_empty() => draw(folder, &name, out.rows()),
                _ => Ok(()),
            }
        });
        let json = self.json.as_ref().map_or(Ok(()), |path| write_json(path, &out.rows));
        let csv = self.csv.as_ref().map_or(Ok(()), |path| write_csv(path, &out.rows));
        json.and(csv).and(ran)
    }
}

/// Confirms that a file can be written. Creates it if it is missing and changes nothing in it.
pub(crate) fn check_writable(path: &Path) -> Result<(), BenchmarkError> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map(drop).map_err(|source| failed(path, source))
}

fn write_json<R: Serialize>(path: &Path, rows: &[R]) -> Result<(), BenchmarkError> {
    let file = File::create(path).map_err(|source| failed(path, source))?;
    serde_json::to_writer_pretty(file, rows).map_err(|error| failed(path, error.into()))
}

/// Writes rows as CSV. The first line has the keys of the JSON objects.
fn write_csv<R: Serialize>(path: &Path, rows: &[R]) -> Result<(), BenchmarkError> {
    let csv_failed = |error| failed(path, csv::Error::into(error));
    let mut writer = csv::Writer::from_path(path).map_err(csv_failed)?;
    rows.iter().try_for_each(|row| writer.serialize(row)).map_err(csv_failed)?;
    writer.flush().map_err(|source| failed(path, source))
}

/// Parses options like the program, small ones first.
///
/// # Errors
/// The errors of clap.
#[cfg(test)]
pub(crate) fn parsed<T: Args>(small: &[&str], flags: &[&str]) -> Result<T, clap::Error> {
    #[derive(clap::Parser)]
    #[command(args_override_self = true)]
    struct Flags<T: Args> {
        #[command(flatten)]
        options: T,
    }
    let words = ["command"].iter().chain(small).chain(flags);
    <Flags<T> as clap::Parser>::try_parse_from(words).map(|flags| flags.options)
}
