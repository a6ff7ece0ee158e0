//! Queries of the past: tracks, who passed, the state at a moment, all fixes in the order of time,
//! and how many each square has.

use axum::response::Response;
use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1;

use super::answer::answer;
use super::call::Call;
use super::filter::{EXACT_MAX, UNIX_MS, filter, millis, projection, time, window};
use super::param::{Kind, Param};
use crate::http::coding::Timed;
use crate::http::problem::Problem;

/// Longest pause between two fixes of a track that a parameter can ask for: a day.
const DAY_MS: i64 = 86_400_000;

pub(super) const TRACKED: &[Param] =
    &[Param::new("objects", Kind::Objects(GET_OBJECTS_MAX), "The objects").required()];

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
    Param::new("time", Kind::Time, "The moment, RFC 3339 or `now`; or give time_ms"),
    Param::new("time_ms", UNIX_MS, "The moment, Unix milliseconds"),
    Param::new("objects", Kind::Objects(GET_OBJECTS_MAX), "Only these objects"),
];

pub(super) const SPEED: &[Param] = &[Param::new(
    "speed",
    Kind::Number(0.0, 1e6),
    "How fast time passes: with 60 an hour takes a minute; if 0 or absent, as fast as it is read",
)];

pub(super) const SQUARES_OF: &[Param] = &[
    Param::new(
        "cell",
        Kind::Number(0.0, f64::INFINITY),
        "Side of a square, in degrees, or metres in a planar fleet",
    )
    .required(),
    Param::new(
        "step_ms",
        Kind::Integer(1, EXACT_MAX),
        "Counts each step of this length on its own; the window is one step if absent",
    ),
];

pub(super) async fn trajectory(call: &mut Call) -> Result<Response, Problem> {
    let (objects, names) = call.identified("objects", call.query.objects("objects")).await?;
    let request = v1::TrajectoryRequest {
        fleet: call.fleet.clone(),
        objects,
        names,
        window: Some(window(&call.query)?),
        every: millis(&call.query, "every_ms"),
    };
    let reply = call.histories().trajectory(call.request(request)).await;
    answer(call, reply).await
}

pub(super) async fn passed(call: &mut Call) -> Result<Response, Problem> {
    let region = Some(call.required_region().await?);
    let projection = match call.query.has("projection") {
        true => projection(&call.query),
        false => v1::Projection::Ids,
    };
    let request = v1::PassedRequest {
        fleet: call.fleet.clone(),
        filter: filter(&call.query),
        region,
        window: Some(window(&call.query)?),
        projection: projection.into(),
    };
    let reply = call.histories().passed(call.request(request)).await;
    answer(call, reply).await
}

pub(super) async fn as_of(call: &mut Call) -> Result<Response, Problem> {
    let region = call.region().await?;
    let (objects, names) = call.identified("objects", call.query.objects("objects")).await?;
    let request = v1::AsOfRequest {
        fleet: call.fleet.clone(),
        filter: filter(&call.query),
        time_ms: time(&call.query, "time", "time_ms")?,
        region,
        objects,
        names,
    };
    let reply = call.histories().as_of(call.request(request)).await;
    answer(call, reply).await
}

pub(super) async fn replay(call: &mut Call) -> Result<Response, Problem> {
    let region = call.region().await?;
    let request = v1::ReplayRequest {
        fleet: call.fleet.clone(),
        filter: filter(&call.query),
        region,
        window: Some(window(&call.query)?),
        speed: call.query.number("speed").unwrap_or(0.0),
    };
    let is_timed = request.speed > 0.0;
    let reply = call.histories().replay(call.request(request)).await;
    let mut response = answer(call, reply).await?;
    if is_timed {
        response.extensions_mut().insert(Timed);
    }
    Ok(response)
}

pub(super) async fn density(call: &mut Call) -> Result<Response, Problem> {
    let region = call.region().await?;
    let request = v1::DensityRequest {
        fleet: call.fleet.clone(),
        filter: filter(&call.query),
        region,
        window: Some(window(&call.query)?),
        cell: call.query.number("cell").unwrap_or(0.0),
        step: millis(&call.query, "step_ms"),
    };
    let reply = call.histories().density(call.request(request)).await;
    answer(call, reply).await
}
