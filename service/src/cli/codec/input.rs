//! Where does a table come from: CSV text, plain or gzip, or a header file with binary columns?
//!
//! By the name of the file: `.toml` is a header file, everything else is text.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

use super::binary::BinarySource;
use super::csv_source::{CsvSource, infer};
use super::group::Group;
use super::header::{ColumnHeader, CsvForm, Header};
use crate::cli::error::CliError;

/// The first two bytes of every gzip member (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes of a file at hand at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// Column that is the key of a table unless something else is said: the one of positions.
const USUAL_KEY: &str = "object_id";

/// A table's rows, whatever they come from.
pub(crate) enum Input {
    /// CSV text.
    Csv(Box<CsvSource<Box<dyn BufRead>>>),
    /// Columns in files of their own.
    Binary(Box<BinarySource>),
}

/// What is said of a table beside its file.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputOptions {
    /// Types of CSV columns, instead of finding them.
    pub(crate) header: Option<Header>,
    /// What separates the fields of CSV.
    pub(crate) separator: u8,
    /// The key column, if it is named.
    pub(crate) key: Option<String>,
    /// There is no key, not even the usual one.
    pub(crate) has_no_key: bool,
}

impl InputOptions {
    /// The key of a table with these columns.
    fn key(&self, columns: &[ColumnHeader], stated: Option<String>) -> Option<String> {
        let is_usual =
            |column: &&ColumnHeader| column.name == USUAL_KEY && column.kind.integers().is_some();
        if self.has_no_key {
            return None;
        }
        let usual = || columns.iter().find(is_usual).map(|column| column.name.clone());
        self.key.clone().or(stated).or_else(usual)
    }
}

/// Reads a file that can be read again from its start.
fn open_text(path: &Path, bar: &ProgressBar) -> Result<Box<dyn BufRead>, CliError> {
    let input = |reason: String| CliError::Input { file: path.display().to_string(), reason };
    let file = File::open(path).map_err(|error| input(error.to_string()))?;
    let length = file.metadata().map_err(|error| input(error.to_string()))?.len();
    bar.set_length(length);
    bar.set_position(0);
    let mut plain = BufReader::with_capacity(BUFFER_BYTES, bar.wrap_read(file));
    let start = plain.fill_buf().map_err(|error| input(error.to_string()))?;
    if !start.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(plain));
    }
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(plain))))
}

/// Refuses what can be read only once, such as a pipe, where text has to be read twice.
fn check_twice(path: &Path) -> Result<(), CliError> {
    let kind = std::fs::metadata(path).map(|found| found.file_type());
    if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
        let reason = "it can be read only once; --header names the types of its columns".to_owned();
        return Err(CliError::Input { file: path.display().to_string(), reason });
    }
    Ok(())
}

/// Reads a header file for CSV text in this form, or for binary columns.
///
/// # Errors
/// [`CliError::Input`] with what is wrong with it.
pub(crate) fn read_header(path: &Path, form: Option<CsvForm>) -> Result<Header, CliError> {
    let input = |reason: String| CliError::Input { file: path.display().to_string(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| input(error.to_string()))?;
    Header::parse_as(&text, |_| form).map_err(input)
}

impl Input {
    /// Opens a table: `.toml` is a header file of binary columns, all else is CSV text.
    ///
    /// # Errors
    /// [`CliError::Input`] with file and line.
    pub(crate) fn open(
        path: &Path,
        options: &InputOptions,
        bar: &ProgressBar,
    ) -> Result<Self, CliError> {
        if path.extension().is_some_and(|ending| ending == "toml") {
            let mut header = read_header(path, None)?;
            header.key = options.key(&header.columns, header.key.take());
            let input = |reason| CliError::Input { file: path.display().to_string(), reason };
            header.check().map_err(input)?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let source = BinarySource::open(header, folder)?;
            bar.set_length(source.rows_left());
            return Ok(Self::Binary(Box::new(source)));
        }
        let name = path.display().to_string();
        let header = match &options.header {
            Some(header) => header.clone(),
            None => {
                check_twice(path)?;
                bar.set_message("finding types");
                infer(&name, open_text(path, bar)?, options.separator)?
            }
        };
        let key = options.key(&header.columns, header.key);
        bar.set_message("encoding");
        let text = open_text(path, bar)?;
        let source = CsvSource::open(&name, text, &header.columns, options.separator, key)?;
        Ok(Self::Csv(Box::new(source)))
    }

    /// The table's header.
    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Csv(source) => source.header(),
            Self::Binary(source) => source.header(),
        }
    }

    /// The next rows, at most `rows_max`; none at the end.
    ///
    /// # Errors
    /// [`CliError::Input`] for what cannot be read.
    pub(crate) fn group(
        &mut self,
        rows_max: usize,
        bar: &ProgressBar,
    ) -> Result<Option<Group>, CliError> {
        match self {
            Self::Csv(source) => source.group(rows_max),
            Self::Binary(source) => {
                let group = source.group(rows_max)?;
                bar.inc(group.as_ref().map_or(0, |group| group.rows as u64));
                Ok(group)
            }
        }
    }

    /// Whether the last line of CSV text lacks its end.
    pub(crate) fn last_without_end(&self) -> bool {
        match self {
            Self::Csv(source) => !source.last_has_end(),
            Self::Binary(_) => false,
        }
    }
}

/// A line on standard error while it is a terminal, nothing otherwise.
pub(crate) fn progress() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let form = "{spinner} {msg} [{wide_bar}] {percent} %, {elapsed}, {eta} left";
    bar.set_style(ProgressStyle::with_template(form).expect("the template is well-formed"));
    bar
}
