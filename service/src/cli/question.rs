//! What do `get`, `range` and `nearest` have in common: conditions, projection, output?
//!
//! Turns flags into the wire's `QueryOptions`; ranges are sent as they were written, and the server
//! judges them.

use std::time::Duration;

use clap::{Args, ValueEnum};
use shoal_proto::v1;

use super::connection::FleetArgs;
use super::values::{IntervalValue, bits, duration, object, span};

/// Rows that a table shows unless `--limit` says otherwise.
pub const TABLE_ROWS: u64 = 1_000;

/// Conditions on the records.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Conditions (all must hold)")]
pub struct FilterArgs {
    /// Compare these bits of the state, decimal or 0x...
    #[arg(long, value_name = "BITS", value_parser = bits)]
    pub state_mask: Option<u32>,
    /// Their wanted value; all bits of the mask unless given
    #[arg(long, value_name = "BITS", value_parser = bits, requires = "state_mask")]
    pub state_value: Option<u32>,
    /// Last report at most this old at the fleet's clock, as in 90s
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub max_age: Option<Duration>,
    /// Speed in metres a second
    #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
    pub speed: Option<IntervalValue>,
    /// Heading in degrees clockwise from north; 350..10 passes through north
    #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
    pub heading: Option<IntervalValue>,
    /// Altitude in metres
    #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
    pub altitude: Option<IntervalValue>,
}

impl FilterArgs {
    /// As the wire says it; `None` when there is no condition.
    #[must_use]
    pub fn filter(&self) -> Option<v1::Filter> {
        let state_mask = self.state_mask.unwrap_or(0);
        let filter = v1::Filter {
            state_mask,
            state_value: self.state_value.unwrap_or(state_mask),
            age_max: self.max_age.map(duration),
            speed_mps: interval(self.speed),
            heading_deg: interval(self.heading),
            altitude_m: interval(self.altitude),
        };
        (filter != v1::Filter::default()).then_some(filter)
    }
}

fn interval(value: Option<IntervalValue>) -> Option<v1::Interval> {
    value.map(|IntervalValue { min, max }| v1::Interval { min, max })
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
pub struct QuestionArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Which part of the answer, in which form.
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
    /// Only objects with a greater id: continues a listing that --limit has cut
    #[arg(long, value_name = "ID", value_parser = object)]
    pub after: Option<u64>,
    /// Write one JSON document; ids are strings
    #[arg(long, conflicts_with = "geojson")]
    pub json: bool,
    /// Write a GeoJSON FeatureCollection (geographic fleets)
    #[arg(long)]
    pub geojson: bool,
}

impl QuestionArgs {
    /// The form asked for.
    #[must_use]
    pub fn form(&self) -> Form {
        match (self.output.json, self.output.geojson) {
            (true, _) => Form::Json,
            (_, true) => Form::GeoJson,
            _ => Form::Table,
        }
    }

    /// The projection asked for.
    #[must_use]
    pub fn projection(&self) -> v1::Projection {
        match (self.output.ids, self.output.count) {
            (true, _) => v1::Projection::Ids,
            (_, true) => v1::Projection::Count,
            _ => v1::Projection::Fixes,
        }
    }

    /// Common part of the request.
    #[must_use]
    pub fn options(&self) -> v1::QueryOptions {
        let is_table = self.form() == Form::Table && self.projection() == v1::Projection::Fixes;
        let limit_default = if is_table { TABLE_ROWS } else { 0 };
        v1::QueryOptions {
            fleet: self.fleet.fleet.clone(),
            min_token: Vec::new(),
            filter: self.filter.filter(),
            projection: self.projection().into(),
            limit: self.output.limit.unwrap_or(limit_default),
            after_object: self.output.after,
        }
    }
}
