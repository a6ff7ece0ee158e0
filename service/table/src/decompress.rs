//! Decompresses a file, and inspects one without writing.
//!
//! Output files get their names only after the trailer was read and matches the blocks.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::binary_columns::BinarySink;
use crate::column_totals::ColumnTotals;
use crate::compress::joined;
use crate::csv_sink::CsvSink;
use crate::frame::{FrameReader, Trailer};
use crate::header::Header;
use crate::limits::GROUPS_IN_FLIGHT;
use crate::progress::{ProgressEvent, ProgressFn, Stage};
use crate::row_group::RowGroup;
use crate::table_decoder::TableDecoder;
use crate::{OutputFile, TableCodec, TableError};

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

/// Destination of a decompressed table; dropping it unfinished removes its files.
pub struct TableSink {
    sink: Sink,
    /// The file or folder.
    path: PathBuf,
    bytes: u64,
    bytes_max: Option<u64>,
}

/// Without another limit, a file may become this many times as large.
const OUTPUT_RATIO_MAX: u64 = 1_000;
/// A small file may become this large, bytes: tables of few values have larger ratios.
const OUTPUT_BYTES_LEAST: u64 = 64 << 20;

enum Sink {
    Csv(Box<CsvSink<TextOutput>>),
    Binary(BinarySink),
}

impl TableSink {
    /// Creates a text file (gzip if `path` ends in `.gz`) or a folder of binary columns, depending
    /// on the header. It takes `bytes_max` bytes of text, before gzip, or of binary columns, since
    /// a small file can state many more. Without that, it takes 1,000 times the bytes of the file,
    /// or of those read so far if the file is a pipe, at least 64 MiB.
    ///
    /// # Errors
    /// [`TableError::Exists`] and [`TableError::NotReplaceable`], and those of writing.
    pub fn create(
        path: &Path,
        header: &Header,
        force: bool,
        bytes_max: Option<u64>,
    ) -> Result<Self, TableError> {
        let mut bytes = 0;
        let sink = match header.csv {
            None => Sink::Binary(BinarySink::open(path, header.clone(), force)?),
            Some(form) => {
                let out = OutputFile::create(path, force)?;
                let is_gzip = path.extension().is_some_and(|ending| ending == "gz");
                let out = if is_gzip {
                    TextOutput::Gzip(GzEncoder::new(out, Compression::default()))
                } else {
                    TextOutput::Plain(out)
                };
                let sink = CsvSink::open(out, path, form, header.clone())?;
                bytes = sink.text_bytes();
                Sink::Csv(Box::new(sink))
            }
        };
        Ok(Self { sink, path: path.to_owned(), bytes, bytes_max })
    }

    /// Writes a group of a file that has `file_bytes` bytes.
    fn write(&mut self, group: &RowGroup, file_bytes: u64) -> Result<(), TableError> {
        self.bytes += match &mut self.sink {
            Sink::Csv(sink) => {
                sink.write(group)?;
                sink.text_bytes()
            }
            Sink::Binary(sink) => {
                sink.write(group)?;
                group.raw_bytes()
            }
        };
        let by_ratio = || file_bytes.saturating_mul(OUTPUT_RATIO_MAX).max(OUTPUT_BYTES_LEAST);
        let bytes_max = self.bytes_max.unwrap_or_else(by_ratio);
        if self.bytes > bytes_max {
            return Err(TableError::OutputBytes { file: self.path.clone(), bytes_max });
        }
        Ok(())
    }

    /// Gives the files their names; `has_end` is true if the last line of text has a line end.
    fn finish(self, has_end: bool) -> Result<(), TableError> {
        match self.sink {
            Sink::Csv(sink) => sink.finish(has_end)?.finish(&self.path),
            Sink::Binary(sink) => sink.finish(),
        }
    }
}

/// Decompresses a file into `sink`, whose files get their names only if every block and the trailer
/// are valid. A second thread reads and decodes while the calling thread writes.
///
/// # Errors
/// [`TableError::Input`] with the byte for a damaged file, [`TableError::Device`], and those of
/// writing.
pub fn decompress<R: Read + Send>(
    file: FrameReader<R>,
    codec: &mut dyn TableCodec,
    mut sink: TableSink,
    progress: ProgressFn<'_>,
) -> Result<Decompressed, TableError> {
    let file_bytes = file.file_bytes;
    progress(ProgressEvent::Begin { stage: Stage::Decode, total: file_bytes });
    let mut decoder = TableDecoder::new(file, codec);
    let decoder = std::thread::scope(|scope| {
        let (groups, queue) = sync_channel(GROUPS_IN_FLIGHT);
        let decoding = scope.spawn(move || {
            while let Some(group) = decoder.group()? {
                // The writer ends early with an error.
                if groups.send((group, decoder.frame.place)).is_err() {
                    break;
                }
            }
            Ok::<_, TableError>(decoder)
        });
        let (mut place, mut written) = (0, Ok(()));
        for (group, end) in queue {
            written = sink.write(&group, file_bytes.max(end));
            if written.is_err() {
                break;
            }
            progress(ProgressEvent::Advance(end - place));
            place = end;
        }
        let decoded = joined(decoding);
        written.and(decoded)
    })?;
    sink.finish(!decoder.finish()?.last_without_end)?;
    let TableDecoder { rows, raw_bytes, decode_time, .. } = decoder;
    Ok(Decompressed { rows, raw_bytes, decode_time })
}

/// Reads all blocks of a file; `check` decodes their values too.
///
/// # Errors
/// [`TableError::Input`] with the byte for a damaged file. Without `check`, headers, checksums and
/// plans of blocks are checked.
pub fn inspect<R: Read>(
    file: FrameReader<R>,
    codec: &mut dyn TableCodec,
    check: bool,
) -> Result<Inspected, TableError> {
    let header = file.header().clone();
    let mut totals = ColumnTotals::new(&header);
    let mut decoder = TableDecoder::new(file, codec);
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
