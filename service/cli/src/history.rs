//! `shoal history`: tracks, who passed a region, the state at a moment, replays, densities, exports
//! and imports. Flags, requests, and the writing of answers.

mod density;
mod erase;
mod export;
mod import;
mod replay;
mod wait;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use shoal_client::v1::{self, Projection};
use shoal_client::{AnswerStream, Client, duration};
use shoal_service::fleet_space;
use shoal_service::timestamp;

use self::density::DensityArgs;
use self::erase::EraseArgs;
use self::export::{Export, ExportArgs};
use self::import::ImportArgs;
use self::replay::ReplayArgs;
use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::object_ids::ObjectList;
use super::output::{PastForm, PastWriter, TrackMap, stdout};
use super::query::{AttributeFilterArgs, RegionArgs, planar_geojson};
use super::report::RowSource;
use super::values::span;

/// Flags of `shoal history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// What to ask.
    #[command(subcommand)]
    pub question: Question,
}

/// Questions about the past.
#[derive(Subcommand, Debug)]
pub enum Question {
    /// Show the fixes of objects in a window of time
    Track(TrackArgs),
    /// Show which objects had a fix in a region in a window of time, or these fixes
    Passed(PassedArgs),
    /// Show the newest fix of each object at a moment
    AsOf(AsOfArgs),
    /// Show the fixes of a window in the order of time, at a given speed, or report them to a fleet
    Replay(ReplayArgs),
    /// Count the fixes of a window by squares of the map: as a picture or as text
    Density(DensityArgs),
    /// Erase objects: from the fleet, its history, its log and its checkpoints
    Erase(EraseArgs),
    /// Write the fixes of a window to a file: GeoParquet, CSV or GeoJSON
    Export(ExportArgs),
    /// Report the fixes of a file, of any age, and wait until they are in the history
    Import(ImportArgs),
}

/// Flags of `shoal history track`.
#[derive(Args, Debug)]
pub struct TrackArgs {
    /// Object ids, at most 65,536: numbers, or names in a named fleet
    #[arg(required = true, value_name = "ID")]
    pub objects: Vec<String>,
    #[command(flatten)]
    window: WindowArgs,
    /// Leave out fixes that follow the last one shown within this time, as in 1m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub every: Option<Duration>,
    /// Draw an SVG file, a line for each object
    #[arg(long, help_heading = "Output", value_name = "FILE",
          conflicts_with_all = ["json", "geojson", "csv"])]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    output: PastArgs,
}

/// Flags of `shoal history passed`.
#[derive(Args, Debug)]
pub struct PassedArgs {
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    window: WindowArgs,
    /// Show each object once, one id a line
    #[arg(long, conflicts_with_all = ["json", "geojson", "csv"])]
    pub ids: bool,
    #[command(flatten)]
    filter: AttributeFilterArgs,
    #[command(flatten)]
    output: PastArgs,
}

/// Flags of `shoal history as-of`.
#[derive(Args, Debug)]
#[command(mut_group("RegionArgs", |group| group.required(false)))]
pub struct AsOfArgs {
    /// The moment: Unix milliseconds, 2026-01-31T12:00:00Z or now
    #[arg(value_name = "TIME", allow_hyphen_values = true, value_parser = timestamp::parse)]
    pub time_ms: i64,
    /// Only this object, a number, or a name in a named fleet; may be repeated
    #[arg(long = "object", value_name = "ID")]
    pub objects: Vec<String>,
    #[command(flatten)]
    region: Option<RegionArgs>,
    #[command(flatten)]
    filter: AttributeFilterArgs,
    #[command(flatten)]
    output: PastArgs,
}

/// A window of time.
#[derive(Args, Clone, Copy, Debug)]
struct WindowArgs {
    /// First time: Unix milliseconds, 2026-01-31T12:00:00Z or now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = timestamp::parse)]
    from: i64,
    /// Last time, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "now",
          value_parser = timestamp::parse)]
    to: i64,
}

impl WindowArgs {
    fn window(self) -> Option<v1::TimeWindow> {
        Some(v1::TimeWindow { from_ms: self.from, to_ms: self.to })
    }
}

/// The fleet, and the form in which fixes are written.
#[derive(Args, Clone, Debug)]
struct PastArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Write one JSON document; ids are strings
    #[arg(long, help_heading = "Output", conflicts_with_all = ["geojson", "csv"])]
    json: bool,
    /// Write a GeoJSON FeatureCollection (geographic fleets)
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    geojson: bool,
    /// Write CSV: object, Unix milliseconds, position, measures in metres, seconds and degrees
    #[arg(long, help_heading = "Output")]
    csv: bool,
}

/// A request of any kind, without the objects: how they are identified depends on the fleet.
pub enum PastRequest {
    /// `track`.
    Track(v1::TrajectoryRequest),
    /// `passed`.
    Passed(v1::PassedRequest),
    /// `as-of`.
    AsOf(v1::AsOfRequest),
    /// `replay`.
    Replay(v1::ReplayRequest),
    /// `density`.
    Density(v1::DensityRequest),
    /// `erase` reads no file.
    Erase,
    /// `export`.
    Export(Export),
    /// `import`: the file that was opened.
    Import(RowSource),
}

impl HistoryArgs {
    /// The request; reads the polygon's file.
    ///
    /// # Errors
    /// As [`RegionArgs::region`].
    pub fn request(&self) -> Result<PastRequest, CliError> {
        Ok(match &self.question {
            Question::Track(args) => PastRequest::Track(v1::TrajectoryRequest {
                fleet: args.output.fleet.fleet.clone(),
                window: args.window.window(),
                every: args.every.map(duration::from_std),
                ..Default::default()
            }),
            Question::Passed(args) => PastRequest::Passed(v1::PassedRequest {
                fleet: args.output.fleet.fleet.clone(),
                filter: args.filter.filter(),
                region: Some(args.region.region()?),
                window: args.window.window(),
                projection: if args.ids { Projection::Ids } else { Projection::Fixes }.into(),
            }),
            Question::AsOf(args) => PastRequest::AsOf(v1::AsOfRequest {
                fleet: args.output.fleet.fleet.clone(),
                filter: args.filter.filter(),
                time_ms: args.time_ms,
                region: args.region.as_ref().map(RegionArgs::region).transpose()?,
                ..Default::default()
            }),
            Question::Replay(args) => PastRequest::Replay(args.request()?),
            Question::Density(args) => PastRequest::Density(args.request()?),
            Question::Erase(_) => PastRequest::Erase,
            Question::Export(args) => PastRequest::Export(args.request()?),
            Question::Import(args) => PastRequest::Import(args.source()?),
        })
    }
}

/// Asks, and writes the answer to standard output as it arrives.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(
    client: &Client,
    args: &HistoryArgs,
    request: PastRequest,
) -> Result<Exit, CliError> {
    match (&args.question, request) {
        (Question::Track(args), PastRequest::Track(mut request)) => {
            let objects = ObjectList::of_fleet(client, &request.fleet, &args.objects).await?;
            let unknown = objects.find_unknown(client, &request.fleet).await?;
            (request.objects, request.names) = objects.into_fields();
            let answer = client.trajectory(request).await?;
            let exit = match &args.svg {
                Some(file) => draw(client, &args.output, answer, file).await?,
                None => args.output.write(client, answer, args.output.form(), None).await?,
            };
            Ok(if unknown.is_empty() { exit } else { Exit::NotFound })
        }
        (Question::Passed(args), PastRequest::Passed(request)) => {
            let form = if args.ids { PastForm::Ids } else { args.output.form() };
            args.output.write(client, client.passed(request).await?, form, None).await
        }
        (Question::AsOf(args), PastRequest::AsOf(mut request)) => {
            let objects = ObjectList::of_fleet(client, &request.fleet, &args.objects).await?;
            let unknown = objects.find_unknown(client, &request.fleet).await?;
            (request.objects, request.names) = objects.into_fields();
            let answer = client.as_of(request).await?;
            let form = args.output.form();
            let exit = args.output.write(client, answer, form, Some(args.time_ms)).await?;
            Ok(if unknown.is_empty() { exit } else { Exit::NotFound })
        }
        (Question::Replay(args), PastRequest::Replay(request)) => {
            let answer = client.replay(request).await?;
            match (&args.into, args.output.form()) {
                (Some(fleet), _) => replay::into(client, answer, args, fleet).await,
                // A table would show nothing until the end.
                (None, PastForm::Table) => {
                    args.output.write(client, answer, PastForm::Csv, None).await
                }
                (None, form) => args.output.write(client, answer, form, None).await,
            }
        }
        (Question::Density(args), PastRequest::Density(request)) => {
            density::run(client, args, request).await
        }
        (Question::Erase(args), PastRequest::Erase) => erase::run(client, args).await,
        (Question::Export(args), PastRequest::Export(request)) => {
            export::run(client, args, request).await
        }
        (Question::Import(args), PastRequest::Import(source)) => {
            import::run(client, args, source).await
        }
        _ => unreachable!("the request is that of the question"),
    }
}

impl PastArgs {
    fn form(&self) -> PastForm {
        match *self {
            Self { json: true, .. } => PastForm::Json,
            Self { geojson: true, .. } => PastForm::GeoJson,
            Self { csv: true, .. } => PastForm::Csv,
            _ => PastForm::Table,
        }
    }

    async fn is_geographic(&self, client: &Client) -> Result<bool, CliError> {
        Ok(fleet_space::is_geographic(&client.get_fleet(&self.fleet.fleet).await?))
    }

    /// Writes an answer with ages at `now_ms`, by default the clock of its header.
    async fn write(
        &self,
        client: &Client,
        mut answer: AnswerStream<v1::HistoryHeader>,
        form: PastForm,
        now_ms: Option<i64>,
    ) -> Result<Exit, CliError> {
        let needs_space = !matches!(form, PastForm::Ids | PastForm::Json);
        let is_geographic = !needs_space || self.is_geographic(client).await?;
        if form == PastForm::GeoJson && !is_geographic {
            return Err(planar_geojson(&self.fleet.fleet, "--json or --csv"));
        }
        let (mut out, header) = (stdout(), answer.header().clone());
        let mut writer = PastWriter::begin(form, is_geographic, header, now_ms, &mut out)?;
        while let Some(rows) = answer.next().await? {
            writer.rows(rows.into_rows(), &mut out)?;
            // A replay may continue much later.
            out.flush()?;
        }
        writer.end(&mut out)?;
        out.flush()?;
        Ok(Exit::Done)
    }
}

/// Draws tracks.
async fn draw(
    client: &Client,
    args: &PastArgs,
    mut answer: AnswerStream<v1::HistoryHeader>,
    file: &Path,
) -> Result<Exit, CliError> {
    let mut map = TrackMap::new(args.is_geographic(client).await?);
    while let Some(rows) = answer.next().await? {
        rows.into_rows().for_each(|row| map.add(&row));
    }
    write_file(file, map.svg().as_bytes())?;
    let mut out = stdout();
    writeln!(out, "{} fixes in {}", map.fixes(), file.display())?;
    out.flush()?;
    Ok(Exit::Done)
}

fn write_file(file: &Path, content: &[u8]) -> Result<(), CliError> {
    fs::write(file, content).map_err(|source| CliError::Local {
        what: format!("cannot write {}", file.display()),
        source,
    })
}
