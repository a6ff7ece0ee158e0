//! `shoal codec decompress`: a file of blocks becomes the table again.
//!
//! Text gets its name only when every block and the trailer were right.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::args::DecompressArgs;
use super::binary::BinarySink;
use super::csv_sink::CsvSink;
use super::frame::FrameReader;
use super::input::progress;
use super::output::{OutputFile, failed, refuse_existing};
use super::report::rate_gb_s;
use super::table_blocks::TableDecoder;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::stdout;

/// Opens a file of blocks.
pub(crate) fn open(path: &Path) -> Result<FrameReader<BufReader<File>>, CliError> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| CliError::Input { file: name.clone(), reason: error.to_string() })?;
    FrameReader::open(&name, BufReader::with_capacity(1 << 20, file))
}

/// Decompresses one file.
///
/// # Errors
/// A damaged file with the byte where it is, and those of writing; nothing is left half written.
pub(crate) fn run(args: &DecompressArgs) -> Result<Exit, CliError> {
    let path = args.output.clone().unwrap_or_else(|| default_output(&args.file));
    let started = Instant::now();
    let mut frame = open(&args.file)?;
    let header = frame.header().clone();
    let bar = progress();
    bar.set_message("decoding");
    bar.set_length(std::fs::metadata(&args.file).map_or(0, |data| data.len()));
    let mut decoder = TableDecoder::new(&header);
    match header.csv {
        Some(form) => {
            refuse_existing(&path, args.force)?;
            let out = OutputFile::create(&path, args.force)?;
            let is_packed = path.extension().is_some_and(|ending| ending == "gz");
            let out = if is_packed {
                TextOutput::Packed(GzEncoder::new(out, Compression::default()))
            } else {
                TextOutput::Plain(out)
            };
            let mut sink = CsvSink::open(out, form, header).map_err(failed(&path))?;
            while let Some((group, place)) = decoder.group(&mut frame)? {
                sink.write(&group).map_err(failed(&path))?;
                bar.set_position(place);
            }
            let has_end = !decoder.finish(&frame)?.last_without_end;
            sink.finish(has_end).map_err(failed(&path))?.finish(&path)?;
        }
        None => {
            let mut sink = BinarySink::open(&path, header, args.force)?;
            while let Some((group, place)) = decoder.group(&mut frame)? {
                sink.write(&group).map_err(failed(&path))?;
                bar.set_position(place);
            }
            decoder.finish(&frame)?;
            sink.finish()?;
        }
    }
    bar.finish_and_clear();
    let mut out = stdout();
    let rate = rate_gb_s(decoder.raw_bytes(), decoder.spent());
    writeln!(
        out,
        "{}: {} rows, {} bytes of values\n\
         decoded at {rate:.2} GB/s on one core; {:.1} s with writing",
        path.display(),
        decoder.rows(),
        decoder.raw_bytes(),
        started.elapsed().as_secs_f64()
    )?;
    out.flush()?;
    Ok(Exit::Done)
}

/// CSV text, as it is or gzip.
enum TextOutput {
    Plain(OutputFile),
    Packed(GzEncoder<OutputFile>),
}

impl TextOutput {
    fn finish(self, path: &Path) -> Result<(), CliError> {
        match self {
            Self::Plain(out) => out.finish(),
            Self::Packed(out) => out.finish().map_err(failed(path))?.finish(),
        }
    }
}

impl std::io::Write for TextOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Packed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Packed(out) => out.flush(),
        }
    }
}

/// The file's name without `.shoal`; a name without it gets `.out`.
fn default_output(file: &Path) -> PathBuf {
    if file.extension().is_some_and(|ending| ending == "shoal") {
        return file.with_extension("");
    }
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".out");
    file.with_file_name(name)
}
