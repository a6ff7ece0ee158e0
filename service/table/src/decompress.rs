//! Decompresses a file, and inspects one without writing.
//!
//! No file gets its name before the trailer was read and agrees with the blocks.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::binary_columns::BinarySink;
use crate::column_totals::ColumnTotals;
use crate::csv_sink::CsvSink;
use crate::frame::{FrameReader, Trailer};
use crate::header::Header;
use crate::progress::{ProgressEvent, ProgressFn, Stage};
use crate::table_decoder::TableDecoder;
use crate::{OutputFile, TableError};

/// A file that was decompressed.
#[derive(Clone, Copy, Debug)]
pub struct Decompressed {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of its values.
    pub raw_bytes: u64,
    /// Time spent in the codec.
    pub decode_time: Duration,
}

/// A file whose blocks were read.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Header of the table.
    pub header: Header,
    /// Sizes of its columns.
    pub totals: ColumnTotals,
    /// Sizes of the file.
    pub trailer: Trailer,
    /// Bytes of the values that were decoded.
    pub raw_bytes: u64,
    /// Time spent in the codec.
    pub decode_time: Duration,
}

/// The destination of a decompressed table; nothing remains of one that is dropped unfinished.
pub struct TableSink(Sink);

enum Sink {
    Csv(Box<CsvSink<TextOutput>>),
    Binary(BinarySink),
}

impl TableSink {
    /// Creates a text file, gzip if `path` ends in `.gz`, or a folder of binary columns, as the
    /// header has it.
    ///
    /// # Errors
    /// [`TableError::Exists`] and [`TableError::NotReplaceable`], and those of writing.
    pub fn create(path: &Path, header: &Header, force: bool) -> Result<Self, TableError> {
        let Some(form) = header.csv else {
            return Ok(Self(Sink::Binary(BinarySink::open(path, header.clone(), force)?)));
        };
        let out = OutputFile::create(path, force)?;
        let is_gzip = path.extension().is_some_and(|ending| ending == "gz");
        let out = if is_gzip {
            TextOutput::Gzip(GzEncoder::new(out, Compression::default()))
        } else {
            TextOutput::Plain(out)
        };
        Ok(Self(Sink::Csv(Box::new(CsvSink::open(out, path, form, header.clone())?))))
    }
}

/// Decompresses a file into `sink`, whose files get their names only if every block and the trailer
/// are valid.
///
/// # Errors
/// [`TableError::Input`] with the byte for a damaged file, and those of writing.
pub fn decompress<R: Read>(
    file: FrameReader<R>,
    mut sink: TableSink,
    progress: ProgressFn<'_>,
) -> Result<Decompressed, TableError> {
    progress(ProgressEvent::Begin { stage: Stage::Decode, total: file.file_bytes });
    let mut decoder = TableDecoder::new(file);
    let mut place = 0;
    while let Some(group) = decoder.group()? {
        match &mut sink.0 {
            Sink::Csv(sink) => sink.write(&group)?,
            Sink::Binary(sink) => sink.write(&group)?,
        }
        progress(ProgressEvent::Advance(decoder.frame.place - place));
        place = decoder.frame.place;
    }
    let has_end = !decoder.finish()?.last_without_end;
    match sink.0 {
        Sink::Csv(sink) => {
            let file = sink.file.clone();
            sink.finish(has_end)?.finish(&file)?;
        }
        Sink::Binary(sink) => sink.finish()?,
    }
    let TableDecoder { rows, raw_bytes, decode_time, .. } = decoder;
    Ok(Decompressed { rows, raw_bytes, decode_time })
}

/// Reads all blocks of a file; `check` decodes their values too.
///
/// # Errors
/// [`TableError::Input`] with the byte for a damaged file. Without `check`, headers, checksums and
/// plans of blocks are checked.
pub fn inspect<R: Read>(file: FrameReader<R>, check: bool) -> Result<Inspected, TableError> {
    let header = file.header().clone();
    let mut totals = ColumnTotals::new(&header);
    let mut decoder = TableDecoder::new(file);
    while let Some(mut blocks) = decoder.blocks()? {
        decoder.count(&blocks, &mut totals);
        while check && decoder.part(&mut blocks)?.is_some() {}
    }
    let trailer = decoder.finish()?;
    let TableDecoder { raw_bytes, decode_time, .. } = decoder;
    Ok(Inspected { header, totals, trailer, raw_bytes, decode_time })
}

/// A text file, plain or gzip.
enum TextOutput {
    Plain(OutputFile),
    Gzip(GzEncoder<OutputFile>),
}

impl TextOutput {
    fn finish(self, path: &Path) -> Result<(), TableError> {
        match self {
            Self::Plain(out) => out.finish(),
            Self::Gzip(out) => out.finish().map_err(TableError::writing(path))?.finish(),
        }
    }
}

impl Write for TextOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
        }
    }
}
