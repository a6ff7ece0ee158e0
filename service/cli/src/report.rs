//! `shoal report`: sends positions, from a file of any format or one from flags.
//!
//! Ends with a summary. The exit code is 3 if rows were refused.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use shoal_client::{
    AckTotals, Aim, BlockEncoder, Client, Payload, PlanChoice, ReportOptions, parse_durability, v1,
};
use shoal_service::fleet_space;
use shoal_table::TimeDefault;
use tokio::sync::watch;

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::fleets::KindChoice;
use super::input::{Batching, FixSource, IdKind, InputArgs, RowBatches, is_stream};
use super::logs::note;
use super::measures::MeasureArgs;
use super::object_ids::ObjectList;
use super::output::stdout;
use super::report_summary::ReportSummary;
use super::stop_signal::stop_signal;
use super::values::{bits, time_default};

/// Least time between two lines that say why messages are sent again.
const RETRIES_TOLD_EVERY: Duration = Duration::from_secs(10);

/// Flags of `shoal report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// CSV, JSON or GeoJSON, Parquet, GPX, NMEA 0183 or AIS (AIVDM), or a GTFS-realtime feed; any
    /// but Parquet also with gzip, or - for standard input. Columns of the object, the time, the
    /// position and its measures are found by their names, as in object_id, t_ms, lon, lat or mmsi,
    /// timestamp, longitude, latitude
    #[arg(required_unless_present = "x")]
    pub file: Option<String>,
    #[command(flatten)]
    pub(crate) sending: SendArgs,
    /// Event time of one position, or of rows of a file that state none: Unix milliseconds,
    /// RFC 3339, or now (the time of reading) [default of one position: now]
    #[arg(long, value_parser = time_default)]
    pub time: Option<TimeDefault>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    // Last, because its heading applies to all flags that follow.
    #[command(flatten)]
    pub(crate) single: SingleArgs,
}

/// How rows are sent.
#[derive(Args, Clone, Debug)]
pub struct SendArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Create the fleet if it does not exist: named (its objects have names), or numeric
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true)]
    pub fleet_create: Option<KindChoice>,
    /// Encoding of rows: rows, or block (of the codec: smaller, and cheaper for the server)
    #[arg(long, value_enum, default_value_t = RowEncoding::Rows, hide_possible_values = true)]
    pub encoding: RowEncoding,
    /// How a block's columns are encoded: planned (trees learned from the rows), fixes (the same
    /// trees for every block), or raw
    #[arg(long, value_name = "PLAN", default_value_t = PlanChoice::Planned(Aim::Fast))]
    pub block_plan: PlanChoice,
    /// Aim of planned blocks: fast (to encode and decode), balanced, or small
    #[arg(long, value_name = "AIM", default_value_t = Aim::Fast)]
    pub block_aim: Aim,
    /// What acknowledgements stand for: applied, or logged (synced in the log of the fleet)
    /// [default: that of the fleet]
    #[arg(long, value_name = "LEVEL", value_parser = parse_durability)]
    pub durability: Option<v1::Durability>,
    /// Rows of a message. The rows of standard input or a pipe wait half a second at most for
    /// others, except with --producer
    #[arg(long, value_name = "ROWS", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub batch: u32,
    /// Number the messages under this name, so that each is applied once: the same command with the
    /// same file, --batch and --encoding continues one that was interrupted
    #[arg(long, value_name = "NAME")]
    pub producer: Option<String>,
    /// Write the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl SendArgs {
    /// The fleet to report to.
    ///
    /// # Errors
    /// Those of the server; as [`KindChoice::fleet`].
    pub(super) async fn fleet(&self, client: &Client) -> Result<v1::Fleet, CliError> {
        match self.fleet_create {
            Some(kind) => kind.fleet(client, &self.fleet.fleet).await,
            None => Ok(client.get_fleet(&self.fleet.fleet).await?),
        }
    }
}

/// One position, given by flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "One position instead of a file")]
pub struct SingleArgs {
    /// Longitude in degrees, or metres
    #[arg(long, allow_hyphen_values = true, requires_all = ["object", "y"],
          conflicts_with = "file")]
    pub x: Option<f64>,
    /// Latitude in degrees, or metres
    #[arg(long, allow_hyphen_values = true, requires = "x")]
    pub y: Option<f64>,
    #[command(flatten)]
    pub(crate) measures: MeasureArgs,
    /// State bits, decimal or 0x...
    #[arg(long, value_name = "BITS", value_parser = bits, requires = "x")]
    pub state: Option<u32>,
}

/// The encoding of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowEncoding {
    /// Plain messages.
    Rows,
    /// Blocks of the codec: smaller, and cheaper for the server.
    Block,
}

/// Where the rows come from.
pub enum RowSource {
    /// One position, whose object has this id.
    Single(String, Box<v1::Fix>),
    /// A file whose header was read.
    File(Box<dyn FixSource>),
    /// Standard input or a pipe, whose rows may come slowly.
    Stream(Box<dyn FixSource>),
}

impl RowSource {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`InputArgs::open`].
    pub(super) fn open(
        name: &str,
        input: &InputArgs,
        time: Option<TimeDefault>,
    ) -> Result<Self, CliError> {
        let source = input.open(name, time)?;
        Ok(if is_stream(name) { Self::Stream(source) } else { Self::File(source) })
    }

    /// The messages of a producer are the same each time.
    fn batching(&self, args: &SendArgs) -> Batching {
        match self {
            Self::Stream(_) if args.producer.is_none() => Batching::Timely,
            _ => Batching::Whole,
        }
    }
}

impl ReportArgs {
    /// Opens the source of the rows.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that cannot be read.
    pub fn source(&self) -> Result<RowSource, CliError> {
        let single = &self.single;
        match (&self.file, &self.input.object, single.x, single.y) {
            (Some(file), ..) => RowSource::open(file, &self.input, self.time),
            (None, Some(_), ..) if self.input.name_prefix.is_some() => {
                let problem = "--name-prefix is for files: give --object the whole name";
                Err(CliError::Usage(problem.to_owned()))
            }
            (None, Some(object), Some(x), Some(y)) => {
                let time_ms = self.time.unwrap_or(TimeDefault::Now).ms();
                let state = single.state.unwrap_or(0);
                let fix = v1::Fix { time_ms, x, y, state, ..single.measures.fix() };
                Ok(RowSource::Single(object.clone(), Box::new(fix)))
            }
            _ => Err(CliError::Usage("give a FILE, or --object with --x and --y".to_owned())),
        }
    }
}

/// Sends everything, waits for the acknowledgements and writes the summary.
///
/// # Errors
/// Those of the server and of writing. Refused rows give [`Exit::PartlyRefused`].
pub async fn run(client: &Client, args: &SendArgs, source: RowSource) -> Result<Exit, CliError> {
    let fleet = args.fleet(client).await?;
    let batching = source.batching(args);
    let summary = send(client, args, source, &fleet, |_| ()).await?;
    let exit = write_summary(args, &summary)?;
    Ok(if summary.is_stopped() && batching == Batching::Whole { Exit::Failed } else { exit })
}

/// Sends all rows and waits for the acknowledgements. Calls `see` with each batch before sending.
///
/// # Errors
/// Those of the server.
pub(super) async fn send(
    client: &Client,
    args: &SendArgs,
    source: RowSource,
    fleet: &v1::Fleet,
    mut see: impl FnMut(&[v1::Fix]),
) -> Result<ReportSummary, CliError> {
    let mut encoder = match args.encoding {
        RowEncoding::Rows => None,
        RowEncoding::Block => {
            Some(BlockEncoder::of_fleet(fleet, args.block_plan.aiming(args.block_aim)))
        }
    };
    let batching = source.batching(args);
    let mut batches = match source {
        RowSource::File(file) | RowSource::Stream(file) => {
            file.check_space(fleet_space::is_geographic(fleet))?;
            RowBatches::read(file, args.batch as usize, IdKind::of(fleet), batching)
        }
        RowSource::Single(id, fix) => {
            let (objects, names) = ObjectList::of(fleet, &[id])?.into_fields();
            let object = objects.first().copied().unwrap_or_default();
            let name = names.into_iter().next().unwrap_or_default();
            RowBatches::one(v1::Fix { object, name, ..*fix })
        }
    };
    let (started, bar) = (Instant::now(), bar());
    let mut stream = client.report(ReportOptions {
        producer: args.producer.clone(),
        durability: args.durability.unwrap_or_default(),
        retry_for: client.options().timeout,
        ..ReportOptions::unnumbered(&fleet.name)
    });
    let telling =
        tokio::spawn(tell_retries(stream.totals(), bar.clone(), client.options().timeout));
    let mut summary = ReportSummary::new(fleet);
    let signal = stop_signal()?;
    // A task of its own, since a second signal ends the process whatever this one waits for.
    let mut stopped = tokio::spawn(async {
        signal.await;
        note("stopping; a second signal ends the command at once");
    });
    loop {
        let next = tokio::select! {
            biased;
            _ = &mut stopped, if !summary.is_stopped() => {
                summary.stop();
                batches.stop();
                continue;
            }
            batch = batches.next() => batch,
        };
        let Some(batch) = next else { break };
        summary.unreadable(&batch);
        see(&batch.fixes);
        let (batch, mut first) = (Arc::new(batch), 0);
        for (rows, payload) in payloads(&mut encoder, &batch.fixes)? {
            summary.sent(&batch, first..first + rows);
            first += rows;
            let sent = stream.send(payload).await;
            sent.inspect_err(|_| say_acknowledged(args, &bar, &stream.totals().borrow()))?;
        }
        let totals = stream.totals();
        summary.settle(&totals.borrow());
        bar.set_position(totals.borrow().rows_total());
        bar.set_message(format!("{} rows sent", summary.rows_sent()));
    }
    let totals = stream.totals();
    let finished = stream.finish().await;
    // The task ends with the stream.
    let _ = telling.await;
    let finished = finished.inspect_err(|_| say_acknowledged(args, &bar, &totals.borrow()));
    summary.finish(finished?, batches.into_summary(), started.elapsed());
    bar.finish_and_clear();
    Ok(summary)
}

/// Says on standard error how many rows a report that fails has stored.
fn say_acknowledged(args: &SendArgs, bar: &ProgressBar, totals: &AckTotals) {
    bar.finish_and_clear();
    let again = match args.producer {
        Some(_) => "the same command goes on after them",
        None => "the same command sends all rows again; one with --producer NAME can go on",
    };
    note(&format!("{} rows are acknowledged; {again}", totals.rows_total()));
}

/// Says on standard error why messages are sent again.
async fn tell_retries(mut totals: watch::Receiver<AckTotals>, bar: ProgressBar, timeout: Duration) {
    let mut told_at: Option<Instant> = None;
    while totals.changed().await.is_ok() {
        let retried = totals.borrow_and_update().retried.clone();
        if let Some(error) = retried
            && told_at.is_none_or(|at| at.elapsed() >= RETRIES_TOLD_EVERY)
        {
            let seconds = timeout.as_secs_f64();
            bar.suspend(|| note(&format!("{error}; trying again for {seconds} s")));
            told_at = Some(Instant::now());
        }
    }
}

/// Writes the summary.
///
/// # Errors
/// Those of writing. Refused rows give [`Exit::PartlyRefused`].
pub(super) fn write_summary(args: &SendArgs, summary: &ReportSummary) -> Result<Exit, CliError> {
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", summary.json())?;
    } else {
        write!(out, "{}", summary.text())?;
    }
    out.flush()?;
    Ok(if summary.is_partly_refused() { Exit::PartlyRefused } else { Exit::Done })
}

/// The messages of one batch with their numbers of rows.
fn payloads(
    encoder: &mut Option<BlockEncoder>,
    fixes: &[v1::Fix],
) -> Result<Vec<(usize, Payload)>, CliError> {
    let Some(encoder) = encoder else {
        let rows = fixes.len();
        return Ok(if rows == 0 { vec![] } else { vec![(rows, Payload::Rows(fixes.to_vec()))] });
    };
    let blocks = encoder.encode(fixes)?;
    Ok(blocks.into_iter().map(|block| (block.rows, Payload::Block(block))).collect())
}

/// Creates a progress bar on standard error; hidden unless that is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let form = "{spinner} {human_pos} rows acknowledged, {msg}, {per_sec}, {elapsed}";
    bar.set_style(ProgressStyle::with_template(form).expect("the template is well-formed"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_one_position_have_their_own_heading() {
        let command = ReportArgs::augment_args(clap::Command::new("report"));
        let single = SingleArgs::augment_args(clap::Command::new("single"));
        let of_one: Vec<_> = single.get_arguments().map(clap::Arg::get_id).collect();
        for argument in command.get_arguments() {
            let name = argument.get_id().as_str();
            let is_of_one = argument.get_help_heading() == Some("One position instead of a file");
            assert_eq!(is_of_one, of_one.contains(&argument.get_id()), "{name}");
        }
    }
}
