//! Reads and writes tables of binary columns.
//!
//! The values of each column are in a file of their own, little-endian, in the folder of the header
//! file. All files have the same number of values.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::TableError;
use crate::header::{ColumnHeader, HEADER_FILE, Header};
use crate::output_file::{OutputFile, Partial};
use crate::row_group::RowGroup;

/// The file of the values of a column.
fn column_path(folder: &Path, column: &ColumnHeader) -> Result<PathBuf, TableError> {
    let name = column.file_name();
    // The header may be untrusted, so it must not name files outside its folder.
    let is_plain = Path::new(&name).file_name().is_some_and(|plain| plain == name.as_str());
    if is_plain {
        return Ok(folder.join(name));
    }
    let reason = format!("column {}: `{name}` is not the plain name of a file", column.name);
    Err(TableError::input(folder.display().to_string(), reason))
}

/// Reads columns from their files.
pub(crate) struct BinarySource {
    /// The table's header.
    pub(crate) header: Header,
    files: Vec<BufReader<File>>,
    /// Number of rows that are not read yet.
    pub(crate) rows_left: u64,
}

impl BinarySource {
    /// Opens the files that a header in `folder` names.
    ///
    /// # Errors
    /// [`TableError::Io`] for a missing file, [`TableError::Input`] for one that has another number
    /// of values.
    pub(crate) fn open(header: Header, folder: &Path) -> Result<Self, TableError> {
        let (mut files, mut rows) = (Vec::new(), None);
        for column in &header.columns {
            let path = column_path(folder, column)?;
            let input = |reason: String| TableError::input(path.display().to_string(), reason);
            let file = File::open(&path).map_err(TableError::reading(&path))?;
            let bytes = file.metadata().map_err(TableError::reading(&path))?.len();
            let width = column.kind.value_type().width_bytes() as u64;
            if !bytes.is_multiple_of(width) {
                let kind = column.kind.name();
                return Err(input(format!("{bytes} bytes are not a whole number of {kind}")));
            }
            let count = bytes / width;
            if *rows.get_or_insert(count) != count {
                let expected = rows.unwrap_or(0);
                return Err(input(format!("{count} values, the first column has {expected}")));
            }
            files.push(BufReader::new(file));
        }
        Ok(Self { header, files, rows_left: rows.unwrap_or(0) })
    }

    /// Reads the next rows, at most `rows_max`; `None` after the last row.
    ///
    /// # Errors
    /// [`TableError::Input`] for a file that has become shorter.
    pub(crate) fn group(&mut self, rows_max: usize) -> Result<Option<RowGroup>, TableError> {
        let rows = self.rows_left.min(rows_max as u64) as usize;
        if rows == 0 {
            return Ok(None);
        }
        let mut group = RowGroup::new(&self.header);
        group.rows = rows;
        for (index, column) in self.header.columns.iter().enumerate() {
            let values = &mut group.columns[index];
            values.resize(rows * column.kind.value_type().width_bytes(), 0);
            self.files[index]
                .read_exact(values)
                .map_err(|error| TableError::input(&column.name, error.to_string()))?;
        }
        self.rows_left -= rows as u64;
        Ok(Some(group))
    }
}

/// Writes each column to its own file, and the header to the same folder.
pub(crate) struct BinarySink {
    folder: PathBuf,
    header: Header,
    force: bool,
    files: Vec<OutputFile>,
    /// The folder, if this writer created it. Dropped after `files`.
    new_folder: Option<Partial>,
}

impl BinarySink {
    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// [`TableError::Exists`] and [`TableError::NotReplaceable`], and those of writing.
    pub(crate) fn open(folder: &Path, header: Header, force: bool) -> Result<Self, TableError> {
        let is_new = !folder.exists();
        if is_new {
            std::fs::create_dir(folder).map_err(TableError::writing(folder))?;
        }
        let new_folder = is_new.then(|| Partial::new(folder.to_owned()));
        let (folder_path, files) = (folder.to_owned(), Vec::new());
        let mut sink = Self { folder: folder_path, header, force, files, new_folder };
        OutputFile::check(&folder.join(HEADER_FILE), force)?;
        for column in &sink.header.columns {
            sink.files.push(OutputFile::create(&column_path(folder, column)?, force)?);
        }
        Ok(sink)
    }

    /// Writes some rows.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn write(&mut self, group: &RowGroup) -> Result<(), TableError> {
        let mut files = self.files.iter_mut().zip(&group.columns);
        files
            .try_for_each(|(file, values)| file.write_all(values))
            .map_err(TableError::writing(&self.folder))
    }

    /// Gives the files their names and writes the header.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn finish(mut self) -> Result<(), TableError> {
        let path = self.folder.join(HEADER_FILE);
        let mut file = OutputFile::create(&path, self.force)?;
        file.write_all(self.header.text().as_bytes()).map_err(TableError::writing(&path))?;
        self.files.drain(..).try_for_each(OutputFile::finish)?;
        file.finish()?;
        if let Some(folder) = &mut self.new_folder {
            folder.keep();
        }
        Ok(())
    }
}
