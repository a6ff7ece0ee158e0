//! A file that is overwritten from its beginning. It shows the limit of the disk for writes of
//! given sizes.
//!
//! It is zeroed and synced before the clock starts, as the segments of the log are.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use shoal_position_log::limits::WRITE_BYTES;
use shoal_position_log::{AlignedBuffer, StorageFile};

use super::content::{Content, ContentHash};
use super::options::Durability;
use super::trial::{GroupTimes, Run};
use crate::error::BenchmarkError;
use crate::harness::WorkFolder;
use crate::harness::command::failed;

/// How a raw file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caching {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// A file that is zeroed, then overwritten from its beginning.
pub(super) struct RawFile {
    file: Box<dyn StorageFile>,
    path: PathBuf,
}

impl RawFile {
    /// Creates a file of zeros.
    pub(super) fn create(
        folder: &WorkFolder,
        caching: Caching,
        bytes: u64,
    ) -> Result<Self, BenchmarkError> {
        let name = match caching {
            Caching::Direct => "raw_direct",
            Caching::Buffered => "raw_buffered",
        };
        let path = folder.path().join(name);
        let file = Self::open(folder, caching, name).map_err(|source| failed(&path, source))?;
        let zeros = AlignedBuffer::zeroed(WRITE_BYTES);
        let zeroed = (0..bytes.div_ceil(WRITE_BYTES as u64))
            .try_for_each(|piece| file.write_at(piece * WRITE_BYTES as u64, &zeros))
            .and_then(|()| file.sync_data());
        zeroed.map_err(|source| failed(&path, source))?;
        Ok(Self { file, path })
    }

    fn open(folder: &WorkFolder, caching: Caching, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let path = folder.path().join(name);
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        match caching {
            Caching::Direct => folder.storage().create(name),
            Caching::Buffered => {
                let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
                Ok(Box::new(BufferedFile(file)))
            }
        }
    }

    /// Writes the groups of some content, then reads them. Only writes and syncs are timed.
    pub(super) fn run(
        &self,
        content: &Content,
        frame_bytes: &[usize],
        durability: Durability,
        times: &mut GroupTimes,
    ) -> Result<Run, BenchmarkError> {
        let failed = |source| failed(&self.path, source);
        let largest = frame_bytes.iter().max().copied().unwrap_or(0);
        let mut buffer = AlignedBuffer::zeroed(largest);
        let (mut seconds, mut offset) = (0.0, 0);
        let last = content.groups.len() - 1;
        for (number, (cycles, bytes)) in content.groups.iter().zip(frame_bytes).enumerate() {
            let mut end = 0;
            for block in content.group(cycles) {
                buffer[end..end + block.len()].copy_from_slice(block);
                end += block.len();
            }
            let is_synced = durability == Durability::Logged || number == last;
            let write = |file: &mut &dyn StorageFile| file.write_at(offset, &buffer[..*bytes]);
            let sync = |file: &mut &dyn StorageFile| file.sync_data();
            let took = times.time(&mut &*self.file, write, is_synced.then_some(sync));
            seconds += took.map_err(failed)?.as_secs_f64();
            offset += *bytes as u64;
        }
        let hash = self.read(content, frame_bytes, &mut buffer).map_err(failed)?;
        Ok(Run::new(seconds, hash))
    }

    /// The hash of the blocks in the file.
    fn read(
        &self,
        content: &Content,
        frame_bytes: &[usize],
        buffer: &mut AlignedBuffer,
    ) -> io::Result<String> {
        let (mut hash, mut offset) = (ContentHash::new(), 0);
        for (cycles, bytes) in content.groups.iter().zip(frame_bytes) {
            buffer.fill(0);
            self.file.read_at(offset, &mut buffer[..*bytes])?;
            let mut start = 0;
            for block in content.group(cycles) {
                hash.add(&buffer[start..start + block.len()]);
                start += block.len();
            }
            offset += *bytes as u64;
        }
        Ok(hash.finish())
    }
}

/// A file through the page cache.
#[derive(Debug)]
struct BufferedFile(File);

impl StorageFile for BufferedFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read_exact_at(bytes, offset).map(|()| bytes.len())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
