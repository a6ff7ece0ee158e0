//! Queries of the current state: given objects, regions, neighbours.

use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use shoal_engine::limits::{GET_OBJECTS_MAX, NEAREST_MAX};
use shoal_proto::v1;

use super::answer::{answer, begin};
use super::call::{Call, json, text_of};
use super::filter::options;
use super::param::{Kind, Param};
use crate::http::problem::Problem;
use crate::json::RowText;
use crate::limits::NAME_PAGE_MAX;

/// Given objects.
pub(super) const OBJECTS: &[Param] =
    &[Param::new("objects", Kind::Objects(GET_OBJECTS_MAX), "The objects; or give name_pattern")];

/// Pages of names.
pub(super) const NAMES: &[Param] = &[
    Param::new(
        "name_pattern",
        Kind::Pattern,
        "Only names that match, as `truck-*`; `?` is one character",
    ),
    Param::new("page_size", Kind::Integer(0, NAME_PAGE_MAX as i64), "The most names; 0 for 1,000"),
    Param::new("after_object", Kind::Number64, "Only names of objects with a greater number"),
];

/// The point of a search.
pub(super) const POINT: &[Param] = &[
    Param::new("x", Kind::Number(f64::NEG_INFINITY, f64::INFINITY), "Longitude, or metres")
        .required(),
    Param::new("y", Kind::Number(f64::NEG_INFINITY, f64::INFINITY), "Latitude, or metres")
        .required(),
    Param::new("k", Kind::Integer(1, NEAREST_MAX as i64), "How many objects").required(),
    Param::new(
        "distance_max_m",
        Kind::Number(0.0, f64::INFINITY),
        "Only objects at this distance or nearer, in metres",
    ),
];

pub(super) async fn get(call: &mut Call) -> Result<Response, Problem> {
    if !call.query.has("objects") && call.query.text("name_pattern").is_none_or(str::is_empty) {
        return Err(Problem::field("objects", "give it or name_pattern"));
    }
    let (objects, names) = call.identified("objects", call.query.objects("objects")).await?;
    let options = Some(options(&call.query, &call.fleet));
    let request = call.request(v1::GetRequest { options, objects, names });
    let reply = call.queries().get(request).await;
    answer(call, reply).await
}

/// One object as a feature.
pub(super) async fn get_one(call: &mut Call) -> Result<Response, Problem> {
    let (objects, names) = call.identified("object", std::slice::from_ref(&call.object)).await?;
    let options = Some(options(&call.query, &call.fleet));
    let request = call.request(v1::GetRequest { options, objects, names });
    let reply = call.queries().get(request).await;
    let answer = begin(call, reply).await?;
    let Some(row) = answer.first.row(0) else {
        let detail = format!("fleet {} has no object {}", call.fleet, call.object);
        return Err(Problem::new(StatusCode::NOT_FOUND, "OBJECT_UNKNOWN", detail));
    };
    let mut text = Vec::new();
    RowText::default().feature(&mut text, row, answer.header.clock_ms);
    Ok(answer.document(text))
}

/// A page of names.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Names")]
pub(super) struct NamesJson {
    /// Ascending by number.
    names: Vec<NameJson>,
    /// Whether there may be more after the last one.
    has_more: bool,
}

/// A name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Name")]
struct NameJson {
    /// The object, that is its name.
    object: String,
    /// The number that orders listings.
    number: String,
}

pub(super) async fn names(call: &mut Call) -> Result<Response, Problem> {
    let request = v1::ListNamesRequest {
        fleet: call.fleet.clone(),
        name_pattern: call.query.text("name_pattern").unwrap_or_default().to_owned(),
        page_size: call.query.count("page_size").unwrap_or(0) as u32,
        after_object: call.query.number64("after_object").unwrap_or(0),
    };
    let reply = call.queries().list_names(call.request(request)).await;
    let page = reply.map_err(|status| call.problem(status))?.into_inner();
    let names = page.names.into_iter().zip(page.objects);
    let names = names.map(|(name, object)| NameJson { object: name, number: object.to_string() });
    json(StatusCode::OK, &NamesJson { names: names.collect(), has_more: page.has_more }, &[])
}

pub(super) async fn range(call: &mut Call) -> Result<Response, Problem> {
    let region = Some(call.required_region().await?);
    let options = Some(options(&call.query, &call.fleet));
    let request = call.request(v1::RangeRequest { options, region });
    let reply = call.queries().range(request).await;
    answer(call, reply).await
}

/// The number of objects in a region.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Count")]
pub(super) struct CountJson {
    /// The objects in the region.
    count: u64,
    /// The fleet.
    fleet: String,
    /// Its term.
    term: String,
    /// The count shows the state after this epoch.
    epoch: u64,
    /// The clock of the fleet at that epoch, Unix milliseconds.
    clock_ms: i64,
}

pub(super) async fn count(call: &mut Call) -> Result<Response, Problem> {
    let region = call.required_region().await?;
    let mut options = options(&call.query, &call.fleet);
    options.projection = v1::Projection::Count.into();
    let request = v1::RangeRequest { options: Some(options), region: Some(region) };
    let reply = call.queries().range(call.request(request)).await;
    let answer = begin(call, reply).await?;
    let header = &answer.header;
    let count = CountJson {
        count: header.total,
        fleet: header.fleet.clone(),
        term: header.term.to_string(),
        epoch: header.epoch,
        clock_ms: header.clock_ms,
    };
    Ok(answer.document(text_of(&count)?))
}

pub(super) async fn nearest(call: &mut Call) -> Result<Response, Problem> {
    let number = |name| call.query.number(name);
    let request = v1::NearestRequest {
        options: Some(options(&call.query, &call.fleet)),
        x: number("x").unwrap_or(f64::NAN),
        y: number("y").unwrap_or(f64::NAN),
        k: call.query.count("k").unwrap_or(0) as u32,
        distance_max_m: number("distance_max_m"),
    };
    let reply = call.queries().nearest(call.request(request)).await;
    answer(call, reply).await
}
