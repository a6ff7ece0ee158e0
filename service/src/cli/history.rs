//! `shoal history`: tracks, who passed a region, and the state at a moment. Flags, requests, and
//! the writing of answers.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use shoal_client::v1::{self, Projection};
use shoal_client::{Client, duration};

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::fleet_space;
use super::output::{PastForm, PastWriter, stdout};
use super::query::{FilterArgs, RegionArgs, planar_geojson};
use super::timestamp;
use super::values::{object, span};

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
}

/// Flags of `shoal history track`.
#[derive(Args, Debug)]
pub struct TrackArgs {
    /// Object ids, at most 65,536
    #[arg(required = true, value_name = "ID", value_parser = object)]
    pub objects: Vec<u64>,
    #[command(flatten)]
    window: WindowArgs,
    /// Leave out fixes that follow the last one shown within this time, as in 1m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub every: Option<Duration>,
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
    filter: FilterArgs,
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
    /// Only this object; may be repeated
    #[arg(long = "object", value_name = "ID", value_parser = object)]
    pub objects: Vec<u64>,
    #[command(flatten)]
    region: Option<RegionArgs>,
    #[command(flatten)]
    filter: FilterArgs,
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

/// A request of any kind.
#[derive(Clone, Debug)]
pub enum PastRequest {
    /// `track`.
    Track(v1::TrajectoryRequest),
    /// `passed`.
    Passed(v1::PassedRequest),
    /// `as-of`.
    AsOf(v1::AsOfRequest),
}

impl HistoryArgs {
    /// The request; reads the polygon's file.
    ///
    /// # Errors
    /// As [`RegionArgs::region`].
    pub fn request(&self) -> Result<PastRequest, CliError> {
        let fleet = self.output().fleet.fleet.clone();
        Ok(match &self.question {
            Question::Track(args) => PastRequest::Track(v1::TrajectoryRequest {
                fleet,
                objects: args.objects.clone(),
                window: args.window.window(),
                every: args.every.map(duration::from_std),
            }),
            Question::Passed(args) => PastRequest::Passed(v1::PassedRequest {
                fleet,
                filter: args.filter.filter(),
                region: Some(args.region.region()?),
                window: args.window.window(),
                projection: if args.ids { Projection::Ids } else { Projection::Fixes }.into(),
            }),
            Question::AsOf(args) => PastRequest::AsOf(v1::AsOfRequest {
                fleet,
                filter: args.filter.filter(),
                time_ms: args.time_ms,
                region: args.region.as_ref().map(RegionArgs::region).transpose()?,
                objects: args.objects.clone(),
            }),
        })
    }

    fn output(&self) -> &PastArgs {
        match &self.question {
            Question::Track(args) => &args.output,
            Question::Passed(args) => &args.output,
            Question::AsOf(args) => &args.output,
        }
    }

    fn form(&self) -> PastForm {
        let PastArgs { json, geojson, csv, .. } = *self.output();
        match &self.question {
            Question::Passed(PassedArgs { ids: true, .. }) => PastForm::Ids,
            _ if json => PastForm::Json,
            _ if geojson => PastForm::GeoJson,
            _ if csv => PastForm::Csv,
            _ => PastForm::Table,
        }
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
    let (fleet, form) = (&args.output().fleet.fleet, args.form());
    let needs_space = !matches!(form, PastForm::Ids | PastForm::Json);
    let is_geographic = !needs_space || fleet_space::is_geographic(&client.get_fleet(fleet).await?);
    if form == PastForm::GeoJson && !is_geographic {
        return Err(planar_geojson(fleet, "--json or --csv"));
    }
    let (mut answer, now_ms) = match request {
        PastRequest::Track(request) => (client.trajectory(request).await?, None),
        PastRequest::Passed(request) => (client.passed(request).await?, None),
        PastRequest::AsOf(request) => {
            let time_ms = request.time_ms;
            (client.as_of(request).await?, Some(time_ms))
        }
    };
    let (mut out, header) = (stdout(), answer.header().clone());
    let mut writer = PastWriter::begin(form, is_geographic, header, now_ms, &mut out)?;
    while let Some(rows) = answer.next().await? {
        writer.rows(rows.into_rows(), &mut out)?;
    }
    writer.end(&mut out)?;
    out.flush()?;
    Ok(Exit::Done)
}
