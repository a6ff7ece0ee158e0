//! The regions of a subscription, from the query string or a document.
//!
//! A query string states one region, which has the id 1.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use shoal_client::duration::from_millis;
use shoal_proto::v1;

use super::call::Call;
use super::document::bounded_list;
use super::filter::{filter, millis};
use super::geometry::{Geometry, circle, of_query, rectangle, shape};
use super::param::{Kind, Param, Query, token};
use super::region_id::RegionId;
use crate::http::limits::HTTP_DOCUMENT_BYTES_MAX;
use crate::http::problem::Problem;
use crate::limits::REGION_CHANGES_MAX;

/// Longest dwell time and interval: a day.
const DAY_MS: i64 = 86_400_000;

/// The words of `events`.
const KINDS: &[&str] = &[
    "enter",
    "move",
    "cross",
    "left",
    "removed",
    "expired",
    "filtered",
    "region_changed",
    "cleared",
];

/// How a region is evaluated and what is reported of it.
pub(super) const RULES: &[Param] = &[
    Param::new("events", Kind::SomeOf(KINDS), "Kinds of events to report; all if absent"),
    Param::new("projection", Kind::OneOf(&["ids", "fixes"]), "Add the record; fixes if absent"),
    Param::new(
        "evaluation",
        Kind::OneOf(&["per_cycle", "every_fix", "crossing"]),
        "Evaluate the state after each cycle (if absent), every fix, or also the line between two",
    ),
    Param::new("move_interval_ms", Kind::Integer(0, DAY_MS), "Least time between two moves"),
    Param::new("enter_dwell_ms", Kind::Integer(0, DAY_MS), "Enter only after so long inside"),
    Param::new("leave_dwell_ms", Kind::Integer(0, DAY_MS), "Leave only after so long outside"),
    Param::new(
        "hysteresis_m",
        Kind::Number(0.0, f64::INFINITY),
        "Leave only at this distance, in metres, from the last position inside",
    ),
    Param::new("snapshot", Kind::Flag, "Report all members first; true if absent"),
    Param::new(
        "retention_ms",
        Kind::Integer(0, DAY_MS),
        "How long the session continues without a stream; the limit of the server if absent",
    ),
    Param::new(
        "last_event_id",
        Kind::Token,
        "The id of the last event received: the stream continues after it; the header beats it",
    ),
];

/// Regions to follow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Subscription {
    /// The regions. With the id of an event they are used only if the session has ended.
    #[serde(default)]
    #[schemars(length(max = 16_384))]
    #[serde(deserialize_with = "bounded_list::<_, _, REGION_CHANGES_MAX>")]
    regions: Vec<FollowedRegion>,
    /// How long the session continues without a stream, milliseconds; the limit of the server if
    /// absent.
    #[schemars(range(max = 86_400_000))]
    retention_ms: Option<u64>,
    /// The id of the last event received: the stream continues after it. The header
    /// `Last-Event-ID` beats it.
    last_event_id: Option<String>,
}

/// A region and what to report of it. Give one of `circle`, `rectangle` and `geometry`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowedRegion {
    /// Chosen by the client; distinct in the document.
    region_id: RegionId,
    /// x, y and radius in metres.
    circle: Option<[f64; 3]>,
    /// West, south, east and north.
    rectangle: Option<[f64; 4]>,
    /// A GeoJSON geometry: a Polygon or a MultiPolygon.
    #[schemars(with = "Option<Geometry>")]
    geometry: Option<Box<RawValue>>,
    /// Only objects whose record passes.
    filter: Option<FilterJson>,
    /// Kinds of events to report; all if empty.
    #[serde(default)]
    events: Vec<EventKindWord>,
    /// Whether events have the record.
    #[serde(default)]
    projection: ProjectionWord,
    /// Which fixes are evaluated.
    #[serde(default)]
    evaluation: EvaluationWord,
    /// Least time between two moves of an object, milliseconds.
    #[schemars(range(max = 86_400_000))]
    move_interval_ms: Option<u64>,
    /// Enter only after so long inside, milliseconds.
    #[schemars(range(max = 86_400_000))]
    enter_dwell_ms: Option<u64>,
    /// Leave only after so long outside, milliseconds.
    #[schemars(range(max = 86_400_000))]
    leave_dwell_ms: Option<u64>,
    /// Leave only at this distance, in metres, from the last position inside.
    #[schemars(range(min = 0))]
    hysteresis_m: Option<f64>,
    /// Report all members first.
    #[serde(default = "yes")]
    snapshot: bool,
}

/// Conditions on the record of an object; an absent side of an interval is open.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FilterJson {
    #[serde(default)]
    state_mask: u32,
    #[serde(default)]
    state_value: u32,
    #[schemars(range(max = 3_162_240_000_000_u64))]
    age_max_ms: Option<u64>,
    speed_mps: Option<[Option<f64>; 2]>,
    heading_deg: Option<[Option<f64>; 2]>,
    altitude_m: Option<[Option<f64>; 2]>,
    valid_s: Option<[Option<f64>; 2]>,
    /// Of a named fleet: only names that match, as `truck-*`.
    #[serde(default)]
    #[schemars(length(max = 512))]
    name_pattern: String,
}

macro_rules! words {
    ($(#[$attribute:meta])* $name:ident -> $wire:ident { $($word:ident = $value:ident,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        enum $name {
            #[default]
            $($word,)*
        }

        impl From<$name> for v1::$wire {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$word => Self::$value,)*
                }
            }
        }
    };
}

fn yes() -> bool {
    true
}

impl From<FilterJson> for v1::Filter {
    fn from(filter: FilterJson) -> Self {
        let interval = |sides: Option<[Option<f64>; 2]>| {
            sides.map(|[min, max]| v1::Interval {
                min: min.unwrap_or(f64::NEG_INFINITY),
                max: max.unwrap_or(f64::INFINITY),
            })
        };
        Self {
            state_mask: filter.state_mask,
            state_value: filter.state_value,
            age_max: filter.age_max_ms.map(from_millis),
            speed_mps: interval(filter.speed_mps),
            heading_deg: interval(filter.heading_deg),
            altitude_m: interval(filter.altitude_m),
            valid_s: interval(filter.valid_s),
            name_pattern: filter.name_pattern,
        }
    }
}

impl FollowedRegion {
    fn into_wire(self, place: &str) -> Result<v1::RegionSubscription, Problem> {
        let path = |name: &str| format!("{place}.{name}");
        let geometry = self.geometry.map(|text| shape(text.get().as_bytes())).transpose();
        let geometry = geometry.map_err(|problem| problem.under(&path("geometry.")))?;
        let kinds = [self.circle.map(circle), self.rectangle.map(rectangle), geometry];
        let mut kinds = kinds.into_iter().flatten();
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            let why = "give one of circle, rectangle and geometry";
            return Err(Problem::field(&path("circle"), why));
        };
        let events = self.events.into_iter().map(|kind| v1::EventKind::from(kind).into());
        Ok(v1::RegionSubscription {
            region_id: self.region_id.0,
            region: Some(v1::Region { kind: Some(kind) }),
            filter: self.filter.map(v1::Filter::from),
            events: events.collect(),
            projection: v1::Projection::from(self.projection).into(),
            evaluation: v1::Evaluation::from(self.evaluation).into(),
            move_interval: self.move_interval_ms.map(from_millis),
            enter_dwell: self.enter_dwell_ms.map(from_millis),
            leave_dwell: self.leave_dwell_ms.map(from_millis),
            hysteresis_m: self.hysteresis_m.unwrap_or(0.0),
            snapshot: self.snapshot,
        })
    }
}

words! {
    /// A kind of event.
    EventKindWord -> EventKind {
        Enter = Enter,
        Move = Move,
        Cross = Cross,
        Left = Left,
        Removed = Removed,
        Expired = Expired,
        Filtered = Filtered,
        RegionChanged = RegionChanged,
        Cleared = Cleared,
    }
}

words! {
    /// What an event has.
    ProjectionWord -> Projection {
        Fixes = Fixes,
        Ids = Ids,
    }
}

words! {
    /// Which fixes are evaluated.
    EvaluationWord -> Evaluation {
        PerCycle = PerCycle,
        EveryFix = EveryFix,
        Crossing = Crossing,
    }
}

/// The word of a kind of event.
pub(super) fn event_word(kind: v1::EventKind) -> &'static str {
    // Kinds are numbered from 1 in the order of the words.
    (kind as usize).checked_sub(1).and_then(|at| KINDS.get(at).copied()).unwrap_or("unknown")
}

/// The region of a query string, with the id 1.
fn of_parameters(query: &Query) -> Result<Option<v1::RegionSubscription>, Problem> {
    let Some(region) = of_query(query)? else { return Ok(None) };
    let events = query.words("events").iter().filter_map(|word| {
        let at = KINDS.iter().position(|known| known == word)?;
        Some(at as i32 + 1)
    });
    let projection = match query.word("projection") {
        Some("ids") => v1::Projection::Ids,
        _ => v1::Projection::Fixes,
    };
    let evaluation = match query.word("evaluation") {
        Some("every_fix") => v1::Evaluation::EveryFix,
        Some("crossing") => v1::Evaluation::Crossing,
        _ => v1::Evaluation::PerCycle,
    };
    Ok(Some(v1::RegionSubscription {
        region_id: 1,
        region: Some(region),
        filter: filter(query),
        events: events.collect(),
        projection: projection.into(),
        evaluation: evaluation.into(),
        move_interval: millis(query, "move_interval_ms"),
        enter_dwell: millis(query, "enter_dwell_ms"),
        leave_dwell: millis(query, "leave_dwell_ms"),
        hysteresis_m: query.number("hysteresis_m").unwrap_or(0.0),
        snapshot: query.flag("snapshot").unwrap_or(true),
    }))
}

/// The regions of a list of a document.
///
/// # Errors
/// Names the first wrong one.
pub(super) fn into_wire(
    list: &str,
    regions: Vec<FollowedRegion>,
) -> Result<Vec<v1::RegionSubscription>, Problem> {
    let regions = regions.into_iter().enumerate();
    regions.map(|(number, region)| region.into_wire(&format!("{list}[{number}]"))).collect()
}

impl Subscription {
    /// The request of the subscription.
    ///
    /// # Errors
    /// Names what is wrong.
    pub(super) fn request(self, fleet: &str) -> Result<v1::SubscribeRequest, Problem> {
        let last = self.last_event_id.as_deref().map_or(Ok(Vec::new()), token);
        Ok(v1::SubscribeRequest {
            fleet: fleet.to_owned(),
            regions: into_wire("regions", self.regions)?,
            resume_token: last.map_err(|why| Problem::field("last_event_id", why))?,
            retention: self.retention_ms.map(from_millis),
        })
    }
}

impl Call {
    /// The request of a stream of events.
    ///
    /// # Errors
    /// Names what is wrong.
    pub(super) async fn subscription(&mut self) -> Result<v1::SubscribeRequest, Problem> {
        if !self.route.body.is_empty() {
            let document: Subscription = self.parsed(HTTP_DOCUMENT_BYTES_MAX).await?;
            return document.request(&self.fleet);
        }
        Ok(v1::SubscribeRequest {
            fleet: self.fleet.clone(),
            regions: of_parameters(&self.query)?.into_iter().collect(),
            resume_token: self.query.bytes("last_event_id").unwrap_or_default().to_vec(),
            retention: millis(&self.query, "retention_ms"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_words_of_the_protocol() {
        for (at, word) in KINDS.iter().enumerate() {
            let kind = v1::EventKind::try_from(at as i32 + 1).unwrap();
            assert_eq!(event_word(kind), *word);
            let name = kind.as_str_name().trim_start_matches("EVENT_KIND_").to_lowercase();
            assert_eq!(name, *word);
            let parsed: EventKindWord = serde_json::from_str(&format!("\"{word}\"")).unwrap();
            assert_eq!(v1::EventKind::from(parsed), kind);
        }
        assert!(v1::EventKind::try_from(KINDS.len() as i32 + 1).is_err());
        assert_eq!(event_word(v1::EventKind::Unspecified), "unknown");
    }
}
