//! What stands before and after the blocks of a file?
//!
//! The prefix with the header, and the trailer that shows that nothing is missing (FILE.md, section
//! 1). Blocks are passed through as bytes; what is in them is not looked at here.

use std::io::{Read, Write};

use shoal_codec::BlockHeader;
use shoal_codec::limits::{BLOCK_BYTES_MAX, HEADER_BYTES};

use super::header::{HEADER_TEXT_BYTES_MAX, Header};
use crate::cli::error::CliError;

const PREFIX_MAGIC: [u8; 8] = *b"\x89SHOCOL\n";
const TRAILER_MAGIC: [u8; 8] = *b"\x89SHOEND\n";
const VERSION_MAJOR: u16 = 1;
const VERSION_MINOR: u16 = 0;
/// Bytes before the header's text.
const PREFIX_BYTES: usize = 24;
/// Bytes of the trailer.
const TRAILER_BYTES: usize = 64;
/// The first block begins at a multiple of this.
const ALIGN_BYTES: usize = 64;
/// Flag: the last line of the CSV text has no line end.
const LAST_WITHOUT_END: u32 = 1;

/// What the trailer says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Blocks of the file.
    pub(crate) blocks: u64,
    /// Rows of the table.
    pub(crate) rows: u64,
    /// Bytes of the file.
    pub(crate) file_bytes: u64,
    /// The last line of the CSV text has no line end.
    pub(crate) last_without_end: bool,
}

/// Writes prefix, blocks and trailer.
pub(crate) struct FrameWriter<W> {
    out: W,
    written: Trailer,
}

impl<W: Write> FrameWriter<W> {
    /// Writes prefix and header.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn open(mut out: W, header: &Header) -> std::io::Result<Self> {
        let text = header.text();
        assert!(text.len() <= HEADER_TEXT_BYTES_MAX, "a header that was checked is bounded");
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + text.len() + ALIGN_BYTES);
        bytes.extend_from_slice(&PREFIX_MAGIC);
        bytes.extend_from_slice(&VERSION_MAJOR.to_le_bytes());
        bytes.extend_from_slice(&VERSION_MINOR.to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(text.as_bytes()).to_le_bytes());
        let prefix_crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&prefix_crc.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
        out.write_all(&bytes)?;
        let written = Trailer { file_bytes: bytes.len() as u64, ..Trailer::default() };
        Ok(Self { out, written })
    }

    /// Number of the next block.
    pub(crate) fn sequence(&self) -> u64 {
        self.written.blocks
    }

    /// Appends a block; `rows` of the table are new with it.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn block(&mut self, block: &[u8], rows: u64) -> std::io::Result<()> {
        self.out.write_all(block)?;
        self.written.blocks += 1;
        self.written.rows += rows;
        self.written.file_bytes += block.len() as u64;
        Ok(())
    }

    /// Writes the trailer; gives the writer back, and what the trailer says.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn finish(mut self, last_without_end: bool) -> std::io::Result<(W, Trailer)> {
        let trailer = Trailer {
            file_bytes: self.written.file_bytes + TRAILER_BYTES as u64,
            last_without_end,
            ..self.written
        };
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
        self.out.write_all(&bytes)?;
        Ok((self.out, trailer))
    }
}

/// Reads prefix, blocks and trailer.
pub(crate) struct FrameReader<R> {
    file: String,
    input: R,
    /// Byte that is read next.
    place: u64,
    blocks: u64,
    header: Header,
    trailer: Option<Trailer>,
}

impl<R: Read> FrameReader<R> {
    /// Reads prefix and header.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that is none of ours or damaged.
    pub(crate) fn open(file: &str, input: R) -> Result<Self, CliError> {
        let header = Header { key: None, csv: None, columns: Vec::new() };
        let mut reader =
            Self { file: file.to_owned(), input, place: 0, blocks: 0, header, trailer: None };
        reader.header = reader.read_header()?;
        Ok(reader)
    }

    /// What the file says of its columns.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The byte that is read next.
    pub(crate) fn place(&self) -> u64 {
        self.place
    }

    /// The trailer, once the last block was read.
    pub(crate) fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    /// An error of this file.
    pub(crate) fn fault(&self, place: u64, problem: &str) -> CliError {
        CliError::Input { file: self.file.clone(), reason: format!("byte {place}: {problem}") }
    }

    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], CliError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<(), CliError> {
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

    fn read_header(&mut self) -> Result<Header, CliError> {
        let prefix: [u8; PREFIX_BYTES] = self.take("prefix")?;
        if prefix[..8] != PREFIX_MAGIC {
            return Err(self.fault(0, "this is no file of `shoal codec`"));
        }
        let major = u16::from_le_bytes([prefix[8], prefix[9]]);
        if major != VERSION_MAJOR {
            let problem = format!("version {major} is not known, only {VERSION_MAJOR}");
            return Err(self.fault(8, &problem));
        }
        let [length, text_crc, prefix_crc] = [12, 16, 20].map(|at| {
            u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]])
        });
        if crc32c::crc32c(&prefix[..20]) != prefix_crc {
            return Err(self.fault(20, "the checksum of the prefix does not hold"));
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
            return Err(self.fault(16, "the checksum of the header does not hold"));
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

    /// The bytes of the next block and where it begins; none after the last one, when the trailer
    /// was read and holds so far.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that ends early, or something that is no block.
    pub(crate) fn block(&mut self) -> Result<Option<(u64, Vec<u8>)>, CliError> {
        let start = self.place;
        let first: [u8; TRAILER_BYTES] = self.take("block or trailer")?;
        if first[..8] == TRAILER_MAGIC {
            self.read_trailer(start, &first)?;
            return Ok(None);
        }
        let rest: [u8; HEADER_BYTES - TRAILER_BYTES] = self.take("block")?;
        let mut bytes = [first.as_slice(), &rest].concat();
        let header = BlockHeader::parse(&bytes)
            .map_err(|error| self.fault(start, &format!("block {}: {error}", self.blocks)))?;
        let length = usize::try_from(header.block_bytes).unwrap_or(usize::MAX);
        if !(HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&length) {
            let problem = format!("a block of {length} bytes, at most {BLOCK_BYTES_MAX}");
            return Err(self.fault(start, &problem));
        }
        if header.sequence != self.blocks {
            let problem = format!("block {} has the number {}", self.blocks, header.sequence);
            return Err(self.fault(start, &problem));
        }
        // Memory grows with the bytes that are there, not with those that are claimed.
        let wanted = (length - HEADER_BYTES) as u64;
        let read = Read::take(&mut self.input, wanted).read_to_end(&mut bytes);
        let read = read.map_err(|error| self.fault(start, &error.to_string()))? as u64;
        self.place += read;
        if read < wanted {
            let problem = format!("block {} has {length} bytes, the file ends", self.blocks);
            return Err(self.fault(start, &problem));
        }
        self.blocks += 1;
        Ok(Some((start, bytes)))
    }

    fn read_trailer(&mut self, start: u64, bytes: &[u8; TRAILER_BYTES]) -> Result<(), CliError> {
        let number = |at: usize| {
            u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes from each place"))
        };
        let word = |at: usize| {
            u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes from each place"))
        };
        if crc32c::crc32c(&bytes[..TRAILER_BYTES - 4]) != word(TRAILER_BYTES - 4) {
            return Err(self.fault(start, "the checksum of the trailer does not hold"));
        }
        let flags = word(32);
        let trailer = Trailer {
            blocks: number(8),
            rows: number(16),
            file_bytes: number(24),
            last_without_end: flags & LAST_WITHOUT_END != 0,
        };
        let is_known =
            flags & !LAST_WITHOUT_END == 0 && bytes[36..60].iter().all(|byte| *byte == 0);
        if !is_known {
            return Err(self.fault(start + 32, "the trailer has flags that are not known"));
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
            return Err(self.fault(self.place, "something follows the trailer"));
        }
        self.trailer = Some(trailer);
        Ok(())
    }
}
