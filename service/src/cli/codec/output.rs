//! How is a file written so that nothing is lost and nothing half done stays?
//!
//! Bytes go to a file beside the wanted one, which gets its name when all is written; one that is
//! dropped before is removed. What exists is replaced only by force.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;

/// A file in the making.
pub(crate) struct OutputFile {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl OutputFile {
    /// Begins a file that gets the name `path` in the end.
    ///
    /// # Errors
    /// [`CliError::Usage`] if it exists and `force` is not set, or is no file; [`CliError::Local`]
    /// if the folder cannot be written.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self, CliError> {
        refuse_existing(path, force)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(name);
        let file = File::create(&partial).map_err(failed(path))?;
        Ok(Self { path: path.to_owned(), partial, writer: Some(BufWriter::new(file)) })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`CliError::Local`] if what is left cannot be written, or the name cannot be given.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        if let Some(writer) = self.writer.take() {
            let file = writer.into_inner().map_err(|error| failed(&self.path)(error.into()))?;
            file.sync_all().map_err(failed(&self.path))?;
            fs::rename(&self.partial, &self.path).map_err(failed(&self.path))?;
        }
        Ok(())
    }
}

/// Refuses a name that is taken, unless forced, and any that is no file's.
pub(crate) fn refuse_existing(path: &Path, force: bool) -> Result<(), CliError> {
    let problem = match fs::metadata(path) {
        // A device or a folder would be lost, or lose its place to a file.
        Ok(found) if !found.is_file() => "is no file that can be replaced",
        Ok(_) if !force => "exists; --force replaces it",
        _ => return Ok(()),
    };
    Err(CliError::Usage(format!("{} {problem}", path.display())))
}

/// Says which file could not be written.
pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> CliError {
    CliError::local(format!("writing {}", path.display()))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // After `finish` there is nothing left under this name; before, it is not wanted.
        let _ = fs::remove_file(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there_and_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.bin");
        let count = || fs::read_dir(folder.path()).unwrap().count();

        let mut half = OutputFile::create(&path, false).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(count(), 0);

        let mut whole = OutputFile::create(&path, false).unwrap();
        whole.write_all(b"whole").unwrap();
        whole.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), count()), (b"whole".to_vec(), 1));

        let refused = OutputFile::create(&path, false).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("out.bin exists; --force"), "{refused}");
        drop(OutputFile::create(&path, true).unwrap());
        assert_eq!((fs::read(&path).unwrap(), count()), (b"whole".to_vec(), 1));
        OutputFile::create(&path, true).unwrap().finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), count()), (Vec::new(), 1));
        let refused = OutputFile::create(folder.path(), true).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("is no file that can be replaced"), "{refused}");
        let missing = folder.path().join("missing").join("out.bin");
        assert!(OutputFile::create(&missing, true).is_err());
    }
}
