//! `shoal get`, `range` and `nearest`: flags, requests, and writing of answers.
//!
//! Flags become the wire's messages; the server validates them. Errors in files are found before a
//! server is contacted.

use std::io::Write as _;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use shoal_client::v1::{self, Projection, region::Kind};
use shoal_client::{AnswerStream, Client, duration};
use shoal_service::fleet_space;

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::logs::note;
use super::measures::MeasureRanges;
use super::object_ids::ObjectList;
use super::output::{AnswerWriter, GeoJsonWriter, JsonWriter, LinesWriter, TableWriter, stdout};
use super::polygon;
use super::values::{bits, circle, metres, object, point, rectangle, span};

/// Rows that a table shows unless `--limit` is given.
pub const TABLE_ROWS: u64 = 1_000;

/// Flags of `shoal get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// Object ids, at most 65,536: numbers, or names in a named fleet; all that match with --name
    #[arg(required_unless_present = "name_pattern", value_name = "ID")]
    pub objects: Vec<String>,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
}

/// Flags of `shoal range`.
#[derive(Args, Debug)]
pub struct RangeArgs {
    #[command(flatten)]
    pub(crate) region: RegionArgs,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
}

/// Flags of `shoal nearest`.
#[derive(Args, Debug)]
pub struct NearestArgs {
    /// Where: longitude and latitude in degrees, or metres
    #[arg(value_name = "X,Y", allow_hyphen_values = true, value_parser = point)]
    pub centre: (f64, f64),
    /// How many, at most 4,096
    #[arg(short, value_name = "N", default_value_t = 10)]
    pub k: u32,
    /// Only objects at this distance or nearer, in metres
    #[arg(long, value_name = "METRES", value_parser = metres)]
    pub within: Option<f64>,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
}

/// A region: exactly one of three.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct RegionArgs {
    /// Rectangle; west > east crosses the antimeridian
    #[arg(long, value_name = "WEST,SOUTH,EAST,NORTH", allow_hyphen_values = true,
          value_parser = rectangle)]
    pub rect: Option<v1::Rectangle>,
    /// Circle
    #[arg(long, value_name = "X,Y,RADIUS_M", allow_hyphen_values = true, value_parser = circle)]
    pub circle: Option<v1::Circle>,
    /// GeoJSON file with one Polygon or MultiPolygon, bare or in a Feature; - for standard input
    #[arg(long, value_name = "FILE")]
    pub polygon: Option<String>,
}

impl RegionArgs {
    /// The region; reads the polygon's file.
    ///
    /// # Errors
    /// [`CliError::Input`] for a file that does not hold exactly one polygon.
    pub fn region(&self) -> Result<v1::Region, CliError> {
        let kind = match (self.rect, self.circle, &self.polygon) {
            (Some(rectangle), ..) => Kind::Rectangle(rectangle),
            (_, Some(circle), _) => Kind::Circle(circle),
            (.., Some(file)) => polygon::read(file)?,
            _ => {
                return Err(CliError::Usage("give --rect, --circle or --polygon".to_owned()));
            }
        };
        Ok(v1::Region { kind: Some(kind) })
    }
}

/// Conditions on the records.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Conditions (all must hold)")]
pub struct FilterArgs {
    /// Last report at most this old at the fleet's clock, as in 90s
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub max_age: Option<Duration>,
    #[command(flatten)]
    pub(crate) attributes: AttributeFilterArgs,
}

impl FilterArgs {
    /// The filter; `None` without conditions.
    #[must_use]
    pub fn filter(&self) -> Option<v1::Filter> {
        let attributes = self.attributes.filter().unwrap_or_default();
        let filter = v1::Filter { age_max: self.max_age.map(duration::from_std), ..attributes };
        (filter != v1::Filter::default()).then_some(filter)
    }
}

/// Conditions on the attributes of records. Unlike an age they have a meaning in the past.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Conditions (all must hold)")]
pub struct AttributeFilterArgs {
    /// Compare these bits of the state, decimal or 0x...
    #[arg(long, value_name = "BITS", value_parser = bits)]
    pub state_mask: Option<u32>,
    /// Value that the bits of --state-mask must have; all ones unless given
    #[arg(long, value_name = "BITS", value_parser = bits, requires = "state_mask")]
    pub state_value: Option<u32>,
    /// Only objects whose name matches, in a named fleet: * stands for any characters, ? for one,
    /// and \ before a character for that character
    #[arg(long = "name", value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub name_pattern: Option<String>,
    #[command(flatten)]
    pub(crate) measures: MeasureRanges,
}

impl AttributeFilterArgs {
    /// The filter; `None` without conditions.
    #[must_use]
    pub fn filter(&self) -> Option<v1::Filter> {
        let state_mask = self.state_mask.unwrap_or(0);
        let filter = v1::Filter {
            state_mask,
            state_value: self.state_value.unwrap_or(state_mask),
            name_pattern: self.name_pattern.clone().unwrap_or_default(),
            ..self.measures.filter()
        };
        (filter != v1::Filter::default()).then_some(filter)
    }
}

/// A filter by name alone; `None` without a pattern.
pub(crate) fn of_names(pattern: Option<&str>) -> Option<v1::Filter> {
    pattern.map(|pattern| v1::Filter { name_pattern: pattern.to_owned(), ..Default::default() })
}

/// The form in which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table for people.
    Table,
    /// One JSON document, each row on its own line.
    Json,
    /// A GeoJSON FeatureCollection.
    GeoJson,
}

/// What to return, and how to write it.
#[derive(Args, Clone, Debug)]
pub struct QueryArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The part of the answer to return, and its form.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Only the ids
    #[arg(long, conflicts_with_all = ["count", "geojson"])]
    pub ids: bool,
    /// Only how many
    #[arg(long, conflicts_with = "geojson")]
    pub count: bool,
    /// Most rows to return, 0 for all [default: 1000 in a table, else all]
    #[arg(long, value_name = "ROWS")]
    pub limit: Option<u64>,
    /// Only objects with a greater id: continues a listing that --limit has cut. In a named fleet
    /// it is the number of the last object, which --json shows
    #[arg(long, value_name = "ID", value_parser = object)]
    pub after: Option<u64>,
    /// Write one JSON document; ids are strings
    #[arg(long, conflicts_with = "geojson")]
    pub json: bool,
    /// Write a GeoJSON FeatureCollection (geographic fleets)
    #[arg(long)]
    pub geojson: bool,
}

impl QueryArgs {
    fn form(&self) -> Form {
        match (self.output.json, self.output.geojson) {
            (true, _) => Form::Json,
            (_, true) => Form::GeoJson,
            _ => Form::Table,
        }
    }

    fn projection(&self) -> Projection {
        match (self.output.ids, self.output.count) {
            (true, _) => Projection::Ids,
            (_, true) => Projection::Count,
            _ => Projection::Fixes,
        }
    }

    fn options(&self) -> Option<v1::QueryOptions> {
        let is_table = self.form() == Form::Table && self.projection() == Projection::Fixes;
        let limit_default = if is_table { TABLE_ROWS } else { 0 };
        Some(v1::QueryOptions {
            fleet: self.fleet.fleet.clone(),
            min_token: Vec::new(),
            filter: self.filter.filter(),
            projection: self.projection().into(),
            limit: self.output.limit.unwrap_or(limit_default),
            after_object: self.output.after,
        })
    }

    /// Writes an answer to standard output as it arrives.
    async fn write(&self, client: &Client, mut answer: AnswerStream) -> Result<(), CliError> {
        let mut writer = self.writer(client, &answer.header().fleet).await?;
        let mut out = stdout();
        writer.begin(answer.header(), &mut out)?;
        while let Some(rows) = answer.next().await? {
            writer.rows(rows.into_rows().collect(), &mut out)?;
        }
        writer.end(&mut out)?;
        Ok(out.flush()?)
    }

    /// The writer of the form; asks for the fleet's space only if the form depends on it.
    async fn writer(&self, client: &Client, name: &str) -> Result<Box<dyn AnswerWriter>, CliError> {
        let projection = self.projection();
        let count_only = projection == Projection::Count;
        match (self.form(), projection) {
            (Form::Json, _) => return Ok(Box::new(JsonWriter::new(count_only))),
            (Form::Table, Projection::Count | Projection::Ids) => {
                return Ok(Box::new(LinesWriter::new(count_only)));
            }
            _ => {}
        }
        let is_geographic = fleet_space::is_geographic(&client.get_fleet(name).await?);
        match (self.form(), is_geographic) {
            (Form::GeoJson, false) => Err(planar_geojson(name, "--json")),
            (Form::GeoJson, true) => Ok(Box::new(GeoJsonWriter::default())),
            _ => Ok(Box::new(TableWriter::new(is_geographic))),
        }
    }
}

/// The error for GeoJSON of a planar fleet.
pub(crate) fn planar_geojson(fleet: &str, instead: &str) -> CliError {
    CliError::Usage(format!(
        "fleet {fleet} is planar: metres are not GeoJSON coordinates; use {instead}"
    ))
}

/// Queries and writes; [`Exit::NotFound`] if an id is unknown or its record fails the conditions.
///
/// # Errors
/// Those of the server and of writing.
pub async fn get(client: &Client, args: &GetArgs) -> Result<Exit, CliError> {
    let fleet = client.get_fleet(&args.query.fleet.fleet).await?;
    let ids = ObjectList::of(&fleet, &args.objects)?;
    let count = ids.count();
    let (objects, names) = ids.into_fields();
    let options = args.query.options();
    let has_filter = options.as_ref().is_some_and(|options| options.filter.is_some());
    let request = v1::GetRequest { options, objects, names };
    let answer = client.get(request).await?;
    let missing = (count as u64).saturating_sub(answer.header().total);
    args.query.write(client, answer).await?;
    if missing > 0 {
        let or = if has_filter { ", or not selected by the conditions" } else { "" };
        note(&format!("{missing} of {count} objects not found{or}"));
        return Ok(Exit::NotFound);
    }
    Ok(Exit::Done)
}

/// Queries and writes. An empty region is an answer, not an error.
///
/// # Errors
/// Those of the server and of writing.
pub async fn range(
    client: &Client,
    args: &RangeArgs,
    region: v1::Region,
) -> Result<Exit, CliError> {
    let request = v1::RangeRequest { options: args.query.options(), region: Some(region) };
    args.query.write(client, client.range(request).await?).await?;
    Ok(Exit::Done)
}

/// Queries and writes. Order and distances are the server's.
///
/// # Errors
/// Those of the server and of writing.
pub async fn nearest(client: &Client, args: &NearestArgs) -> Result<Exit, CliError> {
    let request = v1::NearestRequest {
        options: args.query.options(),
        x: args.centre.0,
        y: args.centre.1,
        k: args.k,
        distance_max_m: args.within,
    };
    args.query.write(client, client.nearest(request).await?).await?;
    Ok(Exit::Done)
}
