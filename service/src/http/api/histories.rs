//! Queries of the past: tracks, who passed, and the state at a moment.

use axum::response::Response;
use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1;

use super::answer::answer;
use super::call::Call;
use super::filter::{filter, millis, projection, window};
use super::param::{Kind, Param};
use crate::http::problem::Problem;

/// Longest pause between two fixes of a track that a parameter can ask for: a day.
const DAY_MS: i64 = 86_400_000;
const EXACT_MAX: i64 = 1 << 53;

pub(super) const EVERY: &[Param] = &[Param::new(
    "every_ms",
    Kind::Integer(0, DAY_MS),
    "Leaves out a fix less than this time after the one before of its object",
)];

pub(super) const PASSED: &[Param] = &[Param::new(
    "projection",
    Kind::OneOf(&["ids", "fixes"]),
    "Each object once, or all its fixes in the region; ids if absent",
)];

pub(super) const MOMENT: &[Param] = &[
    Param::new("time_ms", Kind::Integer(-EXACT_MAX, EXACT_MAX), "The moment, Unix milliseconds")
        .required(),
    Param::new("objects", Kind::Objects(GET_OBJECTS_MAX), "Only these objects"),
];

pub(super) async fn trajectory(call: Call) -> Result<Response, Problem> {
    let (objects, names) = call.identified("objects", call.query.objects("objects")).await?;
    let request = v1::TrajectoryRequest {
        fleet: call.fleet.clone(),
        objects,
        names,
        window: window(&call.query),
        every: millis(&call.query, "every_ms"),
    };
    let reply = call.histories().trajectory(call.request(request)).await;
    answer(&call, reply).await
}

pub(super) async fn passed(mut call: Call) -> Result<Response, Problem> {
    let region = call.region().await?;
    if region.is_none() {
        return Err(Problem::field("circle", "give it or rectangle"));
    }
    let projection = match call.query.has("projection") {
        true => projection(&call.query),
        false => v1::Projection::Ids,
    };
    let request = v1::PassedRequest {
        fleet: call.fleet.clone(),
        filter: filter(&call.query),
        region,
        window: window(&call.query),
        projection: projection.into(),
    };
    let reply = call.histories().passed(call.request(request)).await;
    answer(&call, reply).await
}

pub(super) async fn as_of(mut call: Call) -> Result<Response, Problem> {
    let region = call.region().await?;
    let (objects, names) = call.identified("objects", call.query.objects("objects")).await?;
    let request = v1::AsOfRequest {
        fleet: call.fleet.clone(),
        filter: filter(&call.query),
        time_ms: call.query.integer("time_ms").unwrap_or(0),
        region,
        objects,
        names,
    };
    let reply = call.histories().as_of(call.request(request)).await;
    answer(&call, reply).await
}
