//! Bounds the memory of the pages of a Parquet file before they are decoded.
//!
//! The library allocates what the header of a page states, up to 2 GiB, and three of its
//! decompressors go on beyond that. [`BoundedFile`] keeps each header that the library reads, and
//! checks the page when the library asks for its bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::page_header::PageHeader;

/// Bytes of a page. Most writers aim at one mebibyte; DuckDB writes up to 100 MB with large row
/// groups.
const PAGE_BYTES_MAX: u64 = 128 << 20;
/// Bytes of the pages of all columns that are decoded for a chunk of rows, and of the texts of a
/// column.
pub(super) const CHUNK_BYTES_MAX: u64 = 512 << 20;
/// Bytes of the header of a page: numbers, and statistics of two values.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Headers without a page that is read: those of pages of other kinds.
const HEADERS_MAX: usize = 1 << 10;
/// Buffer of the Brotli decoder.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// A file whose pages are bounded.
pub(super) struct BoundedFile {
    file: File,
    pages: Pages,
}

/// The state of the pages of a file, for the reader of the file as well.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether the metadata was read, so that only pages follow.
    is_open: AtomicBool,
    /// The bytes of headers, by the places of what follows them.
    headers: Mutex<HashMap<u64, Arc<Mutex<Vec<u8>>>>>,
    /// Places of column chunks whose compression does not keep to the stated size.
    unbounded: Mutex<Vec<(Range<u64>, Compression)>>,
    /// Bytes of the pages since the last call of [`Pages::begin_chunk`].
    chunk_bytes: AtomicU64,
    /// Bytes of the largest page.
    largest_bytes: AtomicU64,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pages {
    /// Notes the compression of each column.
    pub(super) fn open(&self, metadata: &ParquetMetaData) {
        let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
        let is_unbounded = |compression| {
            matches!(compression, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4)
        };
        let columns = columns.filter(|column| is_unbounded(column.compression()));
        self.0.is_open.store(true, Ordering::Relaxed);
        *lock(&self.0.unbounded) = columns
            .map(|column| {
                let (first, bytes) = column.byte_range();
                (first..first.saturating_add(bytes), column.compression())
            })
            .collect();
    }

    /// The pages that follow are those of another chunk of rows.
    pub(super) fn begin_chunk(&self) {
        self.0.chunk_bytes.store(0, Ordering::Relaxed);
    }

    /// Bytes of the largest page so far.
    pub(super) fn largest_bytes(&self) -> u64 {
        self.0.largest_bytes.load(Ordering::Relaxed)
    }

    /// Checks a page before its bytes are read, of which `stored` are in the file.
    fn check(&self, header: &PageHeader, stored: usize) -> Result<()> {
        let bytes = header.bytes.max(stored as u64);
        if bytes > PAGE_BYTES_MAX {
            return Err(refused(format!(
                "a page has {bytes} bytes, more than {PAGE_BYTES_MAX}: write smaller row groups"
            )));
        }
        self.0.largest_bytes.fetch_max(bytes, Ordering::Relaxed);
        let before = self.0.chunk_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > CHUNK_BYTES_MAX {
            return Err(refused(format!(
                "the pages of a few thousand rows have more than {CHUNK_BYTES_MAX} bytes: write \
                 smaller row groups"
            )));
        }
        Ok(())
    }

    /// Checks the bytes of a page whose decompressor does not keep to the stated size.
    fn check_content(&self, place: u64, header: &PageHeader, content: &Bytes) -> Result<()> {
        let of_page = |(range, _): &&(Range<u64>, Compression)| range.contains(&place);
        let found = lock(&self.0.unbounded).iter().find(of_page).map(|(_, of)| *of);
        let found = found.filter(|_| header.is_compressed);
        let Some(compressed) = content.get(header.levels_bytes..) else {
            return Err(refused("a page is shorter than its header states".to_owned()));
        };
        let longest = match found {
            Some(Compression::GZIP(_)) => beyond(MultiGzDecoder::new(compressed), header),
            Some(Compression::BROTLI(_)) => {
                beyond(brotli::Decompressor::new(compressed, BROTLI_BUFFER_BYTES), header)
            }
            Some(Compression::LZ4) => {
                beyond(lz4_flex::frame::FrameDecoder::new(compressed), header)
            }
            _ => false,
        };
        if longest {
            return Err(refused("a page is longer than its header states".to_owned()));
        }
        Ok(())
    }
}

/// Whether a page has more bytes than its header states. The library finds out what else is wrong.
fn beyond(content: impl Read, header: &PageHeader) -> bool {
    let read = io::copy(&mut content.take(header.bytes + 1), &mut io::sink());
    read.is_ok_and(|bytes| bytes > header.bytes)
}

fn refused(reason: String) -> ParquetError {
    ParquetError::General(reason)
}

impl BoundedFile {
    /// A file and the state of its pages.
    pub(super) fn new(file: File) -> (Self, Pages) {
        let pages = Pages::default();
        (Self { file, pages: pages.clone() }, pages)
    }
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for BoundedFile {
    type T = HeaderReader;

    fn get_read(&self, start: u64) -> Result<HeaderReader> {
        let (inner, pages) = (self.file.get_read(start)?, self.pages.clone());
        Ok(HeaderReader { inner, end: start, bytes: Arc::default(), pages })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if !self.pages.0.is_open.load(Ordering::Relaxed) {
            return self.file.get_bytes(start, length);
        }
        let header = lock(&self.pages.0.headers).remove(&start);
        let header = header.and_then(|header| PageHeader::parse(&lock(&header)));
        let header =
            header.ok_or_else(|| refused("the header of a page cannot be read".to_owned()))?;
        self.pages.check(&header, length)?;
        let content = self.file.get_bytes(start, length)?;
        self.pages.check_content(start, &header, &content)?;
        Ok(content)
    }
}

/// Reads the header of a page and keeps its bytes.
pub(super) struct HeaderReader {
    inner: BufReader<File>,
    /// The place after the bytes.
    end: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
    pages: Pages,
}

impl Read for HeaderReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let mut bytes = lock(&self.bytes);
        bytes.extend_from_slice(&buffer[..read]);
        if bytes.len() > HEADER_BYTES_MAX {
            return Err(io::Error::other("the header of a page is too long"));
        }
        let mut headers = lock(&self.pages.0.headers);
        if headers.len() > HEADERS_MAX {
            return Err(io::Error::other("too many pages hold no values"));
        }
        headers.remove(&self.end);
        self.end += read as u64;
        headers.insert(self.end, self.bytes.clone());
        Ok(read)
    }
}
