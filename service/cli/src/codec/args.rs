//! Flags of `shoal codec` and their help.
//!
//! The options of a table are shared by `compress` and `plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use shoal_codec::Aim;
use shoal_codec::limits::BLOCK_ROWS_MAX;
use shoal_table::{TableError, TableOptions};

/// Flags of `shoal codec`.
#[derive(Args, Debug)]
pub struct CodecArgs {
    /// The command.
    #[command(subcommand)]
    pub command: CodecCommand,
}

/// A command on tables and files.
#[derive(Subcommand, Debug)]
pub enum CodecCommand {
    /// Compress CSV text (plain or gzip), or binary columns named by a header file (.toml)
    Compress(CompressArgs),
    /// Restore the text or the columns, byte for byte
    Decompress(DecompressArgs),
    /// Show the contents of a compressed file: columns, trees, ratios per node
    Inspect(InspectArgs),
    /// Show statistics and the chosen tree of each column without writing a file
    Plan(PlanArgs),
}

/// A table and its options.
#[derive(Args, Debug)]
pub struct TableArgs {
    /// CSV text, plain or gzip, whose first line names the columns; or a header file (.toml) beside
    /// binary columns
    pub input: PathBuf,
    /// Header file with the types of the CSV columns; without it the text is read twice
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// The byte that separates the fields of CSV
    #[arg(long, default_value = ",", value_parser = separator)]
    pub separator: u8,
    /// Column of integers whose equal values mark rows of one series [default: object_id if there
    /// is one]
    #[arg(long, value_name = "COLUMN", conflicts_with = "no_key")]
    pub key: Option<String>,
    /// Use no column as a key
    #[arg(long)]
    pub no_key: bool,
    /// Most rows of a block
    #[arg(long, value_name = "ROWS", default_value_t = 65_536,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCK_ROWS_MAX)))]
    pub block_rows: u32,
    /// Aim of the plans: fast (to encode and decode), balanced, or small
    #[arg(long, value_name = "AIM", default_value_t = Aim::Fast)]
    pub aim: Aim,
    /// Plan and encode on the GPU; the bytes are the same
    #[arg(long)]
    pub device: bool,
    /// Write the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl TableArgs {
    /// Most rows of a block, and the aim of its plan.
    pub(super) fn plans(&self) -> (usize, Aim) {
        (self.block_rows as usize, self.aim)
    }

    /// The options that the flags give.
    ///
    /// # Errors
    /// Those of a header file that cannot be used.
    pub(super) fn options(&self) -> Result<TableOptions, TableError> {
        let mut options = TableOptions {
            header: None,
            separator: self.separator,
            key: self.key.clone(),
            has_no_key: self.no_key,
        };
        self.header.as_ref().map_or(Ok(()), |header| options.read_header(header))?;
        Ok(options)
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
    /// Fail if the text, before gzip, or the columns have more bytes, and leave no file [default:
    /// 1,000 times those of the compressed file, at least 64 MiB]
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<u64>,
    /// Decode on the GPU
    #[arg(long)]
    pub device: bool,
}

/// Flags of `shoal codec inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// Compressed file
    pub file: PathBuf,
    /// Decode all values too, and show the speed
    #[arg(long)]
    pub check: bool,
    /// Decode on the GPU
    #[arg(long, requires = "check")]
    pub device: bool,
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

/// Parses a byte that can separate fields.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ if text == "\\t" => Ok(b'\t'),
        _ => Err("it must be one byte of ASCII, no quote and no line end; \\t is a tab".to_owned()),
    }
}
