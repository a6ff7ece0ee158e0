//! `shoal codec`: arguments, progress and summaries of the table compressor.
//!
//! The work is in `shoal-table`, the format in its `FILE.md`.

mod args;
mod device;
mod summary;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use shoal_table::{
    CpuTableCodec, FrameReader, OutputFile, ProgressEvent, Stage, TableCodec, TableError,
    TableSink, TableSource,
};

pub use args::{
    CodecArgs, CodecCommand, CompressArgs, DecompressArgs, InspectArgs, PlanArgs, TableArgs,
};
use summary::{add_trailer, print_columns, print_nodes, print_statistics, rate_gb_s, totals_json};

use super::error::{CliError, Exit};
use crate::output::stdout;
use crate::stop_signal::remove_output_at_signal;

/// Runs the command.
///
/// # Errors
/// Those of files that cannot be read or written, and of standard output.
pub fn run(args: &CodecArgs) -> Result<Exit, CliError> {
    match &args.command {
        CodecCommand::Compress(args) => compress(args),
        CodecCommand::Decompress(args) => decompress(args),
        CodecCommand::Inspect(args) => inspect(args),
        CodecCommand::Plan(args) => plan(args),
    }?;
    Ok(Exit::Done)
}

fn compress(args: &CompressArgs) -> Result<(), CliError> {
    let table = &args.table;
    let path = args.output.clone().unwrap_or_else(|| compressed_path(&table.input));
    OutputFile::check(&path, args.force)?;
    let (mut codec, place) = table_codec(table.device)?;
    let (started, bar) = (Instant::now(), progress_bar());
    let progress = |event| show(&bar, event);
    let mut source = TableSource::open(&table.input, &table.options()?, &progress)?;
    remove_output_at_signal()?;
    let out = OutputFile::create(&path, args.force)?;
    let (out, done) =
        shoal_table::compress(&mut source, table.plans(), codec.as_mut(), out, &path)?;
    bar.finish_and_clear();
    out.finish()?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let mut out = stdout();
    if table.json {
        let mut summary = totals_json(source.header(), &done.totals);
        add_trailer(&mut summary, &done.trailer);
        summary["file"] = path.display().to_string().into();
        summary["elapsed_s"] = elapsed_s.into();
        summary["encode_s"] = done.encode_time.as_secs_f64().into();
        writeln!(out, "{summary}")?;
    } else {
        print_columns(&mut out, &done.totals)?;
        let raw_bytes = done.totals.raw_bytes();
        let rate = rate_gb_s(raw_bytes, done.encode_time);
        let input_bytes = std::fs::metadata(&table.input).map_or(0, |data| data.len());
        writeln!(
            out,
            "\n{}: {} rows, {input_bytes} bytes of input, {raw_bytes} bytes of values -> {} bytes\n\
             encoded at {rate:.2} GB/s of values on {place}; {elapsed_s:.1} s with reading and \
             parsing",
            path.display(),
            done.trailer.rows,
            done.trailer.file_bytes,
        )?;
    }
    Ok(out.flush()?)
}

fn decompress(args: &DecompressArgs) -> Result<(), CliError> {
    let path = args.output.clone().unwrap_or_else(|| decompressed_path(&args.file));
    let started = Instant::now();
    let file = FrameReader::open_file(&args.file)?;
    let bar = progress_bar();
    let (mut codec, place) = table_codec(args.device)?;
    remove_output_at_signal()?;
    let sink = TableSink::create(&path, file.header(), args.force, args.max_bytes)?;
    let done = shoal_table::decompress(file, codec.as_mut(), sink, &|event| show(&bar, event))?;
    bar.finish_and_clear();
    let mut out = stdout();
    writeln!(
        out,
        "{}: {} rows, {} bytes of values\n\
         decoded at {:.2} GB/s on {place}; {:.1} s with writing",
        path.display(),
        done.rows,
        done.raw_bytes,
        rate_gb_s(done.raw_bytes, done.decode_time),
        started.elapsed().as_secs_f64()
    )?;
    Ok(out.flush()?)
}

fn inspect(args: &InspectArgs) -> Result<(), CliError> {
    let file = FrameReader::open_file(&args.file)?;
    let (mut codec, place) = table_codec(args.device)?;
    let found = shoal_table::inspect(file, codec.as_mut(), args.check)?;
    let (header, totals, trailer) = (&found.header, &found.totals, &found.trailer);
    let rate = rate_gb_s(found.raw_bytes, found.decode_time);
    let mut out = stdout();
    if args.json {
        let mut summary = totals_json(header, totals);
        add_trailer(&mut summary, trailer);
        if args.check {
            summary["decode_gb_s"] = rate.into();
        }
        writeln!(out, "{summary}")?;
    } else {
        let form = if header.csv.is_some() { "CSV text" } else { "binary columns" };
        let key = header.key.as_ref().map_or_else(String::new, |key| format!(", key {key}"));
        writeln!(
            out,
            "{form}{key}: {} rows in {} blocks, {} bytes\n",
            trailer.rows, trailer.blocks, trailer.file_bytes
        )?;
        print_columns(&mut out, totals)?;
        print_nodes(&mut out, totals)?;
        if args.check {
            writeln!(out, "\nall values decoded, {rate:.2} GB/s on {place}")?;
        }
    }
    Ok(out.flush()?)
}

fn plan(args: &PlanArgs) -> Result<(), CliError> {
    let table = &args.table;
    let (started, bar) = (Instant::now(), progress_bar());
    let progress = |event| show(&bar, event);
    let mut source = TableSource::open(&table.input, &table.options()?, &progress)?;
    let (mut codec, place) = table_codec(table.device)?;
    let planned = shoal_table::plan(&mut source, table.plans(), codec.as_mut())?;
    bar.finish_and_clear();
    let (header, totals) = (source.header(), &planned.totals);
    let rate = rate_gb_s(totals.raw_bytes(), planned.encode_time);
    let mut out = stdout();
    if table.json {
        let mut summary = totals_json(header, totals);
        summary["header"] = header.text().into();
        summary["encode_gb_s"] = rate.into();
        summary["statistics"] = serde_json::json!(planned.statistics);
        writeln!(out, "{summary}")?;
    } else {
        writeln!(out, "{}", header.text())?;
        print_statistics(&mut out, header, &planned.statistics)?;
        writeln!(out)?;
        print_columns(&mut out, totals)?;
        print_nodes(&mut out, totals)?;
        writeln!(
            out,
            "\nencoded at {rate:.2} GB/s of values on {place}; {:.1} s with reading and parsing",
            started.elapsed().as_secs_f64()
        )?;
    }
    Ok(out.flush()?)
}

/// Returns the codec and its name for the summary: the GPU with `is_device`, otherwise the CPU.
fn table_codec(is_device: bool) -> Result<(Box<dyn TableCodec>, &'static str), CliError> {
    if is_device {
        return Ok((device::device_table_codec()?, "the GPU"));
    }
    Ok((Box::new(CpuTableCodec), "one core"))
}

/// The input's name without `.gz` or `.toml`, followed by `.shoal`.
fn compressed_path(input: &Path) -> PathBuf {
    let is_dropped = input.extension().is_some_and(|ending| ending == "gz" || ending == "toml");
    let stem = if is_dropped { input.with_extension("") } else { input.to_owned() };
    with_ending(&stem, ".shoal")
}

/// The file's name without `.shoal`, or followed by `.out`.
fn decompressed_path(file: &Path) -> PathBuf {
    let is_usual = file.extension().is_some_and(|ending| ending == "shoal");
    if is_usual { file.with_extension("") } else { with_ending(file, ".out") }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Creates a progress bar on standard error; hidden unless that is a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let form =
        "{spinner} {msg} [{wide_bar}] {percent} %, {decimal_bytes_per_sec}, {elapsed}, {eta} left";
    bar.set_style(ProgressStyle::with_template(form).expect("the template is well-formed"));
    bar
}

fn show(bar: &ProgressBar, event: ProgressEvent) {
    match event {
        ProgressEvent::Begin { stage, total } => {
            bar.set_message(match stage {
                Stage::InferTypes => "finding types",
                Stage::Encode => "encoding",
                Stage::Decode => "decoding",
            });
            bar.set_length(total);
            bar.set_position(0);
        }
        ProgressEvent::Advance(units) => bar.inc(units),
    }
}

impl From<TableError> for CliError {
    /// Adds a hint with the flag that avoids the error, if there is one.
    fn from(error: TableError) -> Self {
        let input =
            |file: &Path, reason: String| Self::Input { file: file.display().to_string(), reason };
        match error {
            TableError::Io { file, source } => input(&file, source.to_string()),
            TableError::Input { file, reason } => Self::Input { file, reason },
            TableError::ReadOnce { file } => {
                let reason = "it can be read only once; --header names the types of its columns";
                input(&file, reason.to_owned())
            }
            TableError::Exists { .. } => Self::Usage(format!("{error}; --force replaces it")),
            TableError::OutputBytes { .. } => {
                Self::Usage(format!("{error}; --max-bytes N permits more"))
            }
            TableError::Block { reason } => {
                Self::Usage(format!("{reason}; take fewer rows with --block-rows"))
            }
            TableError::Write { file, source } => {
                Self::Local { what: format!("writing {}", file.display()), source }
            }
            TableError::Device { .. } => Self::Device(error.to_string()),
            TableError::Csv(_) | TableError::Unit { .. } | TableError::NotReplaceable { .. } => {
                Self::Usage(error.to_string())
            }
        }
    }
}
