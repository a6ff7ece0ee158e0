//! Frame of a compressed file: a prefix and the header before the blocks, and a trailer after them
//! (FILE.md, section 1). This file does not interpret blocks.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use shoal_codec::limits::{BLOCK_BYTES_MAX, BLOCK_PREFIX_BYTES};
use shoal_codec::{BlockError, BlockHeader, bytes_to_header};

use crate::TableError;
use crate::header::Header;
use crate::limits::HEADER_TEXT_BYTES_MAX;

const PREFIX_MAGIC: [u8; 8] = *b"\x89SHOCOL\n";
const TRAILER_MAGIC: [u8; 8] = *b"\x89SHOEND\n";
const VERSION_MAJOR: u16 = 1;
/// Bytes before the header's text.
const PREFIX_BYTES: usize = 24;
/// Bytes of the trailer.
const TRAILER_BYTES: usize = 64;
/// The first block begins at a multiple of this many bytes.
const ALIGN_BYTES: usize = 64;
/// This flag is set if the last line of the CSV text has no line end.
const LAST_WITHOUT_END: u32 = 1;

/// Number of bytes read from a file at a time. It is large because blocks are large.
const BUFFER_BYTES: usize = 1 << 20;

/// Contents of the trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Blocks of the file.
    pub blocks: u64,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// True if the last line of the CSV text has no line end.
    pub last_without_end: bool,
}

/// Writes prefix, blocks and trailer.
pub(crate) struct FrameWriter<W> {
    out: W,
    file: PathBuf,
    written: Trailer,
}

impl<W: Write> FrameWriter<W> {
    /// Writes prefix and header; `file` is the name of `out` in errors.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn open(out: W, file: &Path, header: &Header) -> Result<Self, TableError> {
        let text = header.text();
        assert!(text.len() <= HEADER_TEXT_BYTES_MAX, "a checked header is bounded");
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + text.len() + ALIGN_BYTES);
        bytes.extend_from_slice(&PREFIX_MAGIC);
        bytes.extend_from_slice(&VERSION_MAJOR.to_le_bytes());
        bytes.extend_from_slice(&header.version_minor().to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(text.as_bytes()).to_le_bytes());
        let prefix_crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&prefix_crc.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
        let mut writer = Self { out, file: file.to_owned(), written: Trailer::default() };
        writer.write(&bytes)?;
        Ok(writer)
    }

    /// Number of the next block.
    pub(crate) fn sequence(&self) -> u64 {
        self.written.blocks
    }

    /// Appends the blocks of a group of rows.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn group(&mut self, blocks: &[Vec<u8>], rows: usize) -> Result<(), TableError> {
        self.written.blocks += blocks.len() as u64;
        self.written.rows += rows as u64;
        blocks.iter().try_for_each(|block| self.write(block))
    }

    /// Writes the trailer; returns the writer and the trailer.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub(crate) fn finish(mut self, last_without_end: bool) -> Result<(W, Trailer), TableError> {
        let file_bytes = self.written.file_bytes + TRAILER_BYTES as u64;
        let trailer = Trailer { file_bytes, last_without_end, ..self.written };
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&TRAILER_MAGIC);
        for number in [trailer.blocks, trailer.rows, trailer.file_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let flags = if last_without_end { LAST_WITHOUT_END } else { 0 };
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.resize(TRAILER_BYTES - 4, 0);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.write(&bytes)?;
        Ok((self.out, trailer))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        self.written.file_bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(TableError::writing(&self.file))
    }
}

/// Reads prefix, blocks and trailer.
pub struct FrameReader<R> {
    file: String,
    input: R,
    /// Bytes of the file; 0 if they are unknown.
    pub(crate) file_bytes: u64,
    /// Offset of the next byte to read.
    pub(crate) place: u64,
    blocks: u64,
    header: Header,
    /// The trailer, once the last block was read.
    pub(crate) trailer: Option<Trailer>,
}

impl FrameReader<BufReader<File>> {
    /// Opens a compressed file.
    ///
    /// # Errors
    /// [`TableError::Io`], and those of [`open`](Self::open).
    pub fn open_file(path: &Path) -> Result<Self, TableError> {
        let file = File::open(path).map_err(TableError::reading(path))?;
        let file_bytes = file.metadata().map_or(0, |data| data.len());
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { file_bytes, ..Self::open(&path.display().to_string(), input)? })
    }
}

impl<R: Read> FrameReader<R> {
    /// Reads prefix and header; `file` is the name of `input` in errors.
    ///
    /// # Errors
    /// [`TableError::Input`] with the byte for a file of another format, or a damaged one.
    pub fn open(file: &str, input: R) -> Result<Self, TableError> {
        let (file, header) = (file.to_owned(), Header { key: None, csv: None, columns: vec![] });
        let mut reader =
            Self { file, input, file_bytes: 0, place: 0, blocks: 0, header, trailer: None };
        reader.header = reader.read_header()?;
        Ok(reader)
    }

    /// The header of the table.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// An error of this file.
    pub(crate) fn fault(&self, place: u64, problem: &str) -> TableError {
        TableError::input(&self.file, format!("byte {place}: {problem}"))
    }

    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], TableError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<(), TableError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.place += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.fault(self.place, &format!("{what}: the file ends")))
            }
            Err(error) => Err(self.fault(self.place, &format!("{what}: {error}"))),
        }
    }

    fn read_header(&mut self) -> Result<Header, TableError> {
        let prefix: [u8; PREFIX_BYTES] = self.take("prefix")?;
        if prefix[..8] != PREFIX_MAGIC {
            return Err(self.fault(0, "not a file of `shoal codec`"));
        }
        let major = u16::from_le_bytes([prefix[8], prefix[9]]);
        if major != VERSION_MAJOR {
            let problem = format!("version {major} is not supported, only {VERSION_MAJOR}");
            return Err(self.fault(8, &problem));
        }
        let word = |at: usize| u32::from_le_bytes(*prefix[at..].first_chunk().expect("4 bytes"));
        let [length, text_crc, prefix_crc] = [12, 16, 20].map(word);
        if crc32c::crc32c(&prefix[..20]) != prefix_crc {
            return Err(self.fault(20, "the checksum of the prefix is wrong"));
        }
        let length = length as usize;
        if length > HEADER_TEXT_BYTES_MAX {
            let problem = format!("a header of {length} bytes, at most {HEADER_TEXT_BYTES_MAX}");
            return Err(self.fault(12, &problem));
        }
        let mut bytes =
            vec![0; (PREFIX_BYTES + length).next_multiple_of(ALIGN_BYTES) - PREFIX_BYTES];
        self.fill(&mut bytes, "header")?;
        let (text, padding) = bytes.split_at(length);
        if crc32c::crc32c(text) != text_crc {
            return Err(self.fault(16, "the checksum of the header is wrong"));
        }
        if padding.iter().any(|byte| *byte != 0) {
            let place = (PREFIX_BYTES + length) as u64;
            return Err(self.fault(place, "the padding of the header is not 0"));
        }
        let start = PREFIX_BYTES as u64;
        let text =
            std::str::from_utf8(text).map_err(|error| self.fault(start, &error.to_string()))?;
        Header::parse(text).map_err(|problem| self.fault(start, &format!("header: {problem}")))
    }

    /// Returns offset and bytes of the next block. After the last block, reads the trailer, checks
    /// it against the blocks and returns `None`.
    ///
    /// # Errors
    /// [`TableError::Input`] if the file ends early or the bytes are not a block.
    pub(crate) fn block(&mut self) -> Result<Option<(u64, Vec<u8>)>, TableError> {
        let start = self.place;
        let mut bytes = self.take::<BLOCK_PREFIX_BYTES>("block or trailer")?.to_vec();
        if bytes[..8] == TRAILER_MAGIC {
            let rest: [u8; TRAILER_BYTES - BLOCK_PREFIX_BYTES] = self.take("trailer")?;
            bytes.extend_from_slice(&rest);
            self.read_trailer(start, bytes.first_chunk().expect("all of its bytes"))?;
            return Ok(None);
        }
        let refused = |reader: &Self, error: BlockError| {
            reader.fault(start, &format!("block {}: {error}", reader.blocks))
        };
        let prefix = bytes.first_chunk().expect("these bytes were read");
        let needed = bytes_to_header(prefix).map_err(|error| refused(self, error))?;
        self.fill_up(start, needed, &mut bytes)?;
        let header = BlockHeader::parse(&bytes).map_err(|error| refused(self, error))?;
        if header.sequence != self.blocks {
            let problem = format!("block {} has the number {}", self.blocks, header.sequence);
            return Err(self.fault(start, &problem));
        }
        let length = usize::try_from(header.block_bytes).unwrap_or(usize::MAX);
        self.fill_up(start, length, &mut bytes)?;
        self.blocks += 1;
        Ok(Some((start, bytes)))
    }

    /// Reads until `bytes`, the block that begins at `start`, has `length` bytes.
    fn fill_up(
        &mut self,
        start: u64,
        length: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), TableError> {
        if !(bytes.len()..=BLOCK_BYTES_MAX).contains(&length) {
            let problem = format!("a block of {length} bytes, at most {BLOCK_BYTES_MAX}");
            return Err(self.fault(start, &problem));
        }
        // Memory grows with the bytes that are present, not with the length in the header.
        let wanted = (length - bytes.len()) as u64;
        let read = Read::take(&mut self.input, wanted).read_to_end(bytes);
        let read = read.map_err(|error| self.fault(start, &error.to_string()))? as u64;
        self.place += read;
        if read < wanted {
            let problem = format!("block {} has {length} bytes, the file ends", self.blocks);
            return Err(self.fault(start, &problem));
        }
        Ok(())
    }

    fn read_trailer(&mut self, start: u64, bytes: &[u8; TRAILER_BYTES]) -> Result<(), TableError> {
        let number = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes"));
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("4 bytes"));
        if crc32c::crc32c(&bytes[..TRAILER_BYTES - 4]) != word(TRAILER_BYTES - 4) {
            return Err(self.fault(start, "the checksum of the trailer is wrong"));
        }
        let flags = word(32);
        let trailer = Trailer {
            blocks: number(8),
            rows: number(16),
            file_bytes: number(24),
            last_without_end: flags & LAST_WITHOUT_END != 0,
        };
        let is_valid =
            flags & !LAST_WITHOUT_END == 0 && bytes[36..60].iter().all(|byte| *byte == 0);
        if !is_valid {
            return Err(self.fault(start + 32, "the trailer has unknown flags"));
        }
        for (what, stated, found) in
            [("blocks", trailer.blocks, self.blocks), ("bytes", trailer.file_bytes, self.place)]
        {
            if stated != found {
                let problem = format!("the trailer states {stated} {what}, there are {found}");
                return Err(self.fault(start, &problem));
            }
        }
        if !matches!(self.input.read(&mut [0]), Ok(0)) {
            return Err(self.fault(self.place, "bytes follow the trailer"));
        }
        self.trailer = Some(trailer);
        Ok(())
    }
}
