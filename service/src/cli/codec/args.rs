//! What can be typed after `shoal codec`?
//!
//! Flags and their help; what they mean to a table is settled in `input.rs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use shoal_codec::limits::BLOCK_ROWS_MAX;

use super::header::{CsvForm, LineEnd};
use super::input::{InputOptions, read_header};
use crate::cli::error::CliError;

/// Flags of `shoal codec`.
#[derive(Args, Debug)]
pub struct CodecArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CodecCommand,
}

/// What can be done with tables and files.
#[derive(Subcommand, Debug)]
pub enum CodecCommand {
    /// Compress CSV text (plain or gzip), or binary columns named by a header file (.toml)
    Compress(CompressArgs),
    /// Give the text or the columns back, byte for byte
    Decompress(DecompressArgs),
    /// Show what is in a compressed file: columns, trees, ratios per node
    Inspect(InspectArgs),
    /// Show statistics and the chosen tree of each column, and write nothing
    Plan(PlanArgs),
}

/// A table, and how it is cut and planned.
#[derive(Args, Debug)]
pub struct TableArgs {
    /// CSV text, plain or gzip, whose first line names the columns; or a header file (.toml) beside
    /// binary columns
    pub input: PathBuf,
    /// Header file with the types of the CSV columns, instead of finding them by reading twice
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// What separates the fields of CSV, one byte
    #[arg(long, default_value = ",", value_parser = separator)]
    pub separator: u8,
    /// Column of integers whose equal values mark rows that follow each other [default: object_id
    /// if there is one]
    #[arg(long, value_name = "COLUMN", conflicts_with = "no_key")]
    pub key: Option<String>,
    /// No column is a key
    #[arg(long)]
    pub no_key: bool,
    /// Rows of a block at most
    #[arg(long, value_name = "ROWS", default_value_t = 65_536,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCK_ROWS_MAX)))]
    pub block_rows: u32,
    /// Write the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl TableArgs {
    /// What is said of the table beside its file.
    ///
    /// # Errors
    /// [`CliError::Input`] for a header file that cannot be used.
    pub(crate) fn options(&self) -> Result<InputOptions, CliError> {
        // How lines end is found in the text itself.
        let form = CsvForm { separator: char::from(self.separator), line_end: LineEnd::Lf };
        let header = self.header.as_deref().map(|path| read_header(path, Some(form)));
        let header = header.transpose()?;
        Ok(InputOptions {
            header,
            separator: self.separator,
            key: self.key.clone(),
            has_no_key: self.no_key,
        })
    }
}

/// Flags of `shoal codec compress`.
#[derive(Args, Debug)]
pub struct CompressArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// File to write [default: the input's name with .shoal]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// Flags of `shoal codec decompress`.
#[derive(Args, Debug)]
pub struct DecompressArgs {
    /// Compressed file
    pub file: PathBuf,
    /// CSV file to write (gzip if it ends in .gz), or folder for binary columns [default: the
    /// file's name without .shoal]
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

/// Flags of `shoal codec inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// Compressed file
    pub file: PathBuf,
    /// Decode everything too, and say how fast
    #[arg(long)]
    pub check: bool,
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Flags of `shoal codec plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// One byte that can separate fields.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ if text == "\\t" => Ok(b'\t'),
        _ => Err("it must be one byte of ASCII, no quote and no line end; \\t is a tab".to_owned()),
    }
}
