//! Opens a table: CSV text, plain or gzip, or a header file with binary columns.
//!
//! A file whose name ends in `.toml` is a header file; every other file is text.

use std::fs::File;
use std::path::Path;

use crate::TableError;
use crate::binary_columns::BinarySource;
use crate::csv_source::{CsvSource, infer};
use crate::header::{ColumnHeader, CsvForm, Header, LineEnd};
use crate::progress::{CountedRead, ProgressEvent, ProgressFn, Stage};
use crate::row_group::RowGroup;
use crate::text_input::TextInput;

/// Name of the key column if neither options nor header name one and the table has an integer
/// column with this name.
const KEY_DEFAULT: &str = "object_id";

/// Options for reading a table.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// Header of CSV text with the types of its columns; without it the text is read twice.
    pub header: Option<Header>,
    /// The byte between two fields of CSV.
    pub separator: u8,
    /// Name of the key column.
    pub key: Option<String>,
    /// True if the table has no key, not even the default one.
    pub has_no_key: bool,
}

impl TableOptions {
    /// Reads a header file for [`header`](Self::header).
    ///
    /// # Errors
    /// [`TableError::Io`]; [`TableError::Input`] with the fault.
    pub fn read_header(&mut self, path: &Path) -> Result<(), TableError> {
        // This line end is a placeholder. The line ends of the text replace it.
        let form = CsvForm { separator: char::from(self.separator), line_end: LineEnd::Lf };
        self.header = Some(read_header(path, Some(form))?);
        Ok(())
    }

    /// Returns the name of the key column; `stated` is the key in the header.
    fn key(&self, columns: &[ColumnHeader], stated: Option<String>) -> Option<String> {
        if self.has_no_key {
            return None;
        }
        let is_default =
            |column: &&ColumnHeader| column.name == KEY_DEFAULT && column.kind.integers().is_some();
        let default = || columns.iter().find(is_default).map(|column| column.name.clone());
        self.key.clone().or(stated).or_else(default)
    }
}

/// The rows of a table.
pub struct TableSource<'a> {
    rows: Rows<'a>,
    progress: ProgressFn<'a>,
}

enum Rows<'a> {
    Csv(Box<CsvSource<TextInput<CountedRead<'a, File>>>>),
    Binary(BinarySource),
}

impl<'a> TableSource<'a> {
    /// Opens a table.
    ///
    /// # Errors
    /// [`TableError::Io`], [`TableError::ReadOnce`]; [`TableError::Input`] with file and line.
    pub fn open(
        path: &Path,
        options: &TableOptions,
        progress: ProgressFn<'a>,
    ) -> Result<Self, TableError> {
        let name = path.display().to_string();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let mut header = read_header(path, None)?;
            header.key = options.key(&header.columns, header.key.take());
            let folder = path.parent().unwrap_or(Path::new(""));
            let source = BinarySource::open(header.checked(&name)?, folder)?;
            progress(ProgressEvent::Begin { stage: Stage::Encode, total: source.rows_left });
            return Ok(Self { rows: Rows::Binary(source), progress });
        }
        let header = match &options.header {
            Some(header) => header.clone(),
            None => {
                check_twice(path)?;
                let text = open_text(path, Stage::InferTypes, progress)?;
                infer(&name, text, options.separator)?
            }
        };
        let key = options.key(&header.columns, header.key);
        let text = open_text(path, Stage::Encode, progress)?;
        let source = CsvSource::open(&name, text, &header.columns, options.separator, key)?;
        Ok(Self { rows: Rows::Csv(Box::new(source)), progress })
    }

    /// The table's header.
    pub fn header(&self) -> &Header {
        match &self.rows {
            Rows::Csv(source) => &source.header,
            Rows::Binary(source) => &source.header,
        }
    }

    /// Reads the next rows, at most `rows_max`; `None` after the last row.
    ///
    /// # Errors
    /// [`TableError::Input`].
    pub(crate) fn group(&mut self, rows_max: usize) -> Result<Option<RowGroup>, TableError> {
        match &mut self.rows {
            Rows::Csv(source) => source.group(rows_max),
            Rows::Binary(source) => {
                let group = source.group(rows_max)?;
                let rows = group.as_ref().map_or(0, |group| group.rows as u64);
                (self.progress)(ProgressEvent::Advance(rows));
                Ok(group)
            }
        }
    }

    /// False if the last line of CSV text lacks its end.
    pub(crate) fn last_has_end(&self) -> bool {
        match &self.rows {
            Rows::Csv(source) => source.last_has_end(),
            Rows::Binary(_) => true,
        }
    }
}

/// Opens a text at its start.
fn open_text<'a>(
    path: &Path,
    stage: Stage,
    progress: ProgressFn<'a>,
) -> Result<TextInput<CountedRead<'a, File>>, TableError> {
    let file = File::open(path).map_err(TableError::reading(path))?;
    let total = file.metadata().map_err(TableError::reading(path))?.len();
    progress(ProgressEvent::Begin { stage, total });
    TextInput::new(CountedRead::new(file, progress)).map_err(TableError::reading(path))
}

/// Checks that a text can be read twice, which a pipe cannot.
fn check_twice(path: &Path) -> Result<(), TableError> {
    let kind = std::fs::metadata(path).map(|found| found.file_type());
    if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
        return Err(TableError::ReadOnce { file: path.to_owned() });
    }
    Ok(())
}

/// Reads a header file for CSV text in this form, or for binary columns.
fn read_header(path: &Path, form: Option<CsvForm>) -> Result<Header, TableError> {
    let text = std::fs::read_to_string(path).map_err(TableError::reading(path))?;
    Header::parse_as(text.trim_start_matches('\u{feff}'), |_| form)
        .map_err(|reason| TableError::input(path.display().to_string(), reason))
}
