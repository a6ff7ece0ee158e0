//! A small text that is replaced as a whole (LOG.md, section 10.1).
//!
//! A crash leaves the old or the new text. A damaged file is an error.

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::MANIFEST_BYTES_MAX;
use crate::storage::Storage;
use crate::whole_file::{read_file, replace_file};
use crate::wire::{page_align, put, u32_at};

const MAGIC: [u8; 8] = *b"\x89SHSRV\r\n";
const HEADER_BYTES: usize = 16;

/// A text file, given by its path below the root of a storage.
#[derive(Clone, Copy, Debug)]
pub struct TextFile<'a>(pub &'a str);

impl TextFile<'_> {
    /// Reads the text; `None` if there is no file.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Storage`].
    pub fn load(&self, storage: &dyn Storage) -> Result<Option<String>, LogError> {
        let display = storage.display(self.0);
        let Some(bytes) = read_file(storage, self.0, MANIFEST_BYTES_MAX)? else {
            return Ok(None);
        };
        let damaged = |reason: &str| LogError::damaged(display.clone(), 0, reason);
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(damaged("it does not begin as a file of this server"));
        }
        let end = HEADER_BYTES.saturating_add(u32_at(&bytes, 8) as usize);
        let text = bytes.get(HEADER_BYTES..end).ok_or_else(|| damaged("it is incomplete"))?;
        if crc32c::crc32c(text) != u32_at(&bytes, 12) {
            return Err(damaged("the checksum differs"));
        }
        let text = std::str::from_utf8(text).map_err(|_| damaged("it is not UTF-8"))?;
        Ok(Some(text.to_owned()))
    }

    /// Reads and parses the text; `None` if there is no file. `parse` returns the value or a
    /// description of the fault.
    ///
    /// # Errors
    /// [`LogError::Content`] if `parse` fails; otherwise as [`Self::load`].
    pub fn read<T>(
        &self,
        storage: &dyn Storage,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, LogError> {
        let Some(text) = self.load(storage)? else { return Ok(None) };
        let read = parse(&text);
        read.map(Some).map_err(|reason| LogError::content(storage.display(self.0), 0, reason))
    }

    /// Replaces the text, durably.
    ///
    /// # Errors
    /// [`LogError::Input`] if it is too long; [`LogError::Storage`].
    pub fn store(&self, storage: &dyn Storage, text: &str) -> Result<(), LogError> {
        let end = HEADER_BYTES + text.len();
        if end > MANIFEST_BYTES_MAX {
            return Err(LogError::Input(format!("{} would have {end} bytes", self.0)));
        }
        let mut bytes = AlignedBuffer::zeroed(page_align(end));
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &(text.len() as u32).to_le_bytes());
        put(&mut bytes, 12, &crc32c::crc32c(text.as_bytes()).to_le_bytes());
        put(&mut bytes, HEADER_BYTES, text.as_bytes());
        replace_file(storage, self.0, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PAGE_BYTES;
    use crate::storage::SimulatedDisk;

    #[test]
    fn a_text_reads_back_and_every_flipped_bit_is_found() {
        let disk = SimulatedDisk::new(1);
        let file = TextFile("server.role");
        assert_eq!(file.load(&disk).unwrap(), None);
        for text in ["", "role leader\n", &"x".repeat(3 * PAGE_BYTES)] {
            file.store(&disk, text).unwrap();
            assert_eq!(file.load(&disk).unwrap().as_deref(), Some(text));
        }
        file.store(&disk, "role follower\n").unwrap();
        let mut bytes = AlignedBuffer::zeroed(PAGE_BYTES);
        disk.open("server.role").unwrap().read_at(0, &mut bytes).unwrap();
        for bit in 0..8 * (HEADER_BYTES + 14) {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            disk.put("server.role", &flipped);
            assert!(file.load(&disk).is_err(), "bit {bit}");
        }
    }
}
