//! What do the commands that run experiments have in common? Their order, the files of their rows.
//!
//! What was measured is written even if a later experiment fails. What a row is and how it is
//! measured is the command's own.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchmarkError;
use crate::machine;

/// Where rows go beside the terminal.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Files {
    /// Writes the rows to this file as a JSON list.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Draws SVG plots into this folder, one or more per experiment.
    #[arg(long)]
    pub(crate) svg: Option<PathBuf>,
}

/// A file that could not be written.
pub(crate) fn failed(path: &Path, source: std::io::Error) -> BenchmarkError {
    BenchmarkError::Write { path: path.display().to_string(), source }
}

impl Files {
    /// Prints the head of a command, runs `one` for each experiment with its name, the machine and
    /// the rows so far; draws each experiment's rows and writes all as JSON.
    ///
    /// # Errors
    /// A file that cannot be written, before anything runs; then the first of an experiment, of
    /// drawing or of writing.
    pub(crate) fn run<E: Copy + ValueEnum, R: Serialize>(
        &self,
        head: &str,
        experiments: &[E],
        mut one: impl FnMut(E, &str, &str, &mut Vec<R>) -> Result<(), BenchmarkError>,
        draw: impl Fn(&Path, &str, &[R]) -> Result<(), BenchmarkError>,
    ) -> (Vec<R>, Result<(), BenchmarkError>) {
        // Nobody wants to learn after an hour that the folder is missing.
        if let Err(error) = self.json.as_deref().map_or(Ok(()), check_writable) {
            return (Vec::new(), Err(error));
        }
        let machine = machine::describe();
        println!("# {head}\n# {machine}");
        let mut rows = Vec::new();
        let mut each = |experiment: &E| {
            let value = experiment.to_possible_value();
            let name = value.map_or_else(String::new, |value| value.get_name().to_owned());
            let first = rows.len();
            one(*experiment, &name, &machine, &mut rows)?;
            match &self.svg {
                Some(folder) if rows.len() > first => draw(folder, &name, &rows[first..]),
                _ => Ok(()),
            }
        };
        let ran = experiments.iter().try_for_each(&mut each);
        let written = self.json.as_ref().map_or(Ok(()), |path| write_json(path, &rows));
        (rows, written.and(ran))
    }
}

/// Confirms that a file can be written; makes it if it is missing, and changes nothing in it.
fn check_writable(path: &Path) -> Result<(), BenchmarkError> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map(drop).map_err(|source| failed(path, source))
}

/// Writes rows as a JSON list.
fn write_json<R: Serialize>(path: &Path, rows: &[R]) -> Result<(), BenchmarkError> {
    let file = File::create(path).map_err(|source| failed(path, source))?;
    serde_json::to_writer_pretty(file, rows).map_err(|error| failed(path, error.into()))
}

/// Options as the program would read them from its flags, small ones first.
///
/// # Errors
/// What clap says of them.
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
