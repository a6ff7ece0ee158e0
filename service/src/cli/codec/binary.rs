//! How do binary columns become groups of rows, and the other way round?
//!
//! One file a column beside the header file, values little-endian and nothing else; all files have
//! the same number of values.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::group::Group;
use super::header::{ColumnHeader, HEADER_FILE, Header};
use super::output::{OutputFile, failed};
use crate::cli::error::CliError;

/// Where the values of a column lie, beside the header file.
fn column_path(folder: &Path, column: &ColumnHeader) -> Result<PathBuf, CliError> {
    let name = column.file_name();
    // A file of somebody else's making must not reach outside its folder.
    let is_plain = Path::new(&name).file_name().is_some_and(|plain| plain == name.as_str());
    if is_plain {
        return Ok(folder.join(name));
    }
    let reason = format!("column {}: `{name}` is not the plain name of a file", column.name);
    Err(CliError::Input { file: folder.display().to_string(), reason })
}

/// Reads columns from their files.
pub(crate) struct BinarySource {
    header: Header,
    files: Vec<BufReader<File>>,
    rows_left: u64,
}

impl BinarySource {
    /// Opens the files that a header names, beside it.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that is missing, or has another number of values.
    pub(crate) fn open(header: Header, folder: &Path) -> Result<Self, CliError> {
        let (mut files, mut rows) = (Vec::new(), None);
        for column in &header.columns {
            let path = column_path(folder, column)?;
            let input =
                |reason: String| CliError::Input { file: path.display().to_string(), reason };
            let file = File::open(&path).map_err(|error| input(error.to_string()))?;
            let bytes = file.metadata().map_err(|error| input(error.to_string()))?.len();
            let width = column.kind.value_type().width_bytes() as u64;
            if !bytes.is_multiple_of(width) {
                let kind = column.kind.name();
                return Err(input(format!("{bytes} bytes are no whole number of {kind}")));
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

    /// The table's header.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Rows that no group has yet.
    pub(crate) fn rows_left(&self) -> u64 {
        self.rows_left
    }

    /// The next rows, at most `rows_max`; none at the end.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that has become shorter.
    pub(crate) fn group(&mut self, rows_max: usize) -> Result<Option<Group>, CliError> {
        let rows = self.rows_left.min(rows_max as u64) as usize;
        if rows == 0 {
            return Ok(None);
        }
        let mut group = Group::new(&self.header);
        group.rows = rows;
        for (index, column) in self.header.columns.iter().enumerate() {
            let values = &mut group.columns[index];
            values.resize(rows * column.kind.value_type().width_bytes(), 0);
            self.files[index].read_exact(values).map_err(|error| CliError::Input {
                file: column.name.clone(),
                reason: error.to_string(),
            })?;
        }
        self.rows_left -= rows as u64;
        Ok(Some(group))
    }
}

/// Writes columns to files of their own, with the header beside them.
pub(crate) struct BinarySink {
    folder: PathBuf,
    header: Header,
    force: bool,
    files: Vec<OutputFile>,
    /// The folder is ours to remove.
    is_new: bool,
}

impl BinarySink {
    /// Makes the folder if it is not there.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a file that exists, unless forced.
    pub(crate) fn open(folder: &Path, header: Header, force: bool) -> Result<Self, CliError> {
        let is_new = !folder.exists();
        if is_new {
            std::fs::create_dir(folder).map_err(failed(folder))?;
        }
        let mut sink = Self { folder: folder.to_owned(), header, force, files: Vec::new(), is_new };
        super::output::refuse_existing(&folder.join(HEADER_FILE), force)?;
        for column in &sink.header.columns {
            sink.files.push(OutputFile::create(&column_path(folder, column)?, force)?);
        }
        Ok(sink)
    }

    /// Writes some rows.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn write(&mut self, group: &Group) -> std::io::Result<()> {
        self.files
            .iter_mut()
            .zip(&group.columns)
            .try_for_each(|(file, values)| file.write_all(values))
    }

    /// Gives the files their names and writes the header.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        let path = self.folder.join(HEADER_FILE);
        let mut file = OutputFile::create(&path, self.force)?;
        file.write_all(self.header.text().as_bytes()).map_err(failed(&path))?;
        self.files.drain(..).try_for_each(OutputFile::finish)?;
        file.finish()?;
        self.is_new = false;
        Ok(())
    }
}

impl Drop for BinarySink {
    fn drop(&mut self) {
        if self.is_new {
            self.files.clear();
            // Only empty folders go: whatever else came into it is not ours.
            let _ = std::fs::remove_dir(&self.folder);
        }
    }
}
