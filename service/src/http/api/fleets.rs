//! Fleets: listed, created, described and deleted.
//!
//! Spaces are text, as on the command line.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shoal_client::duration::from_millis;
use shoal_engine::Space;
use shoal_proto::v1;

use super::call::{Call, json};
use super::param::{Kind, Param};
use super::reports;
use crate::fleet_space;
use crate::http::limits::HTTP_REGION_BYTES_MAX;
use crate::http::problem::Problem;
use crate::json::FleetJson;
use crate::limits::FLEET_PAGE_MAX;

/// Pages of the list.
pub(super) const PAGES: &[Param] = &[
    Param::new("page_size", Kind::Integer(0, FLEET_PAGE_MAX as i64), "The most fleets; 0 for 100"),
    Param::new("page_token", Kind::Text(64), "next_page_token of the page before"),
];

/// A fleet to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewFleet {
    /// 1 to 64 characters of a-z, 0-9, `_` and `-`.
    #[schemars(regex(pattern = "^[a-z0-9_-]{1,64}$"))]
    name: String,
    /// What identifies its objects; `numeric` if absent.
    #[serde(default)]
    kind: Option<KindWord>,
    /// `geographic` (the default), or `planar:WIDTHxHEIGHT` or `planar:WIDTHxHEIGHT:QUANTUM` in
    /// metres.
    #[serde(default)]
    space: Option<String>,
    /// What drives ages and time to live; `system` if absent.
    #[serde(default)]
    clock: Option<ClockWord>,
    /// Objects without a report for this long are removed, milliseconds; 0 or absent keeps them.
    #[serde(default)]
    #[schemars(range(max = 3_162_240_000_000_u64))]
    ttl_ms: Option<u64>,
    /// The most objects; 0 or absent for the default of the server.
    #[serde(default)]
    objects_max: Option<u64>,
    /// A fleet whose settings hold for the members that are absent.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z0-9_-]{1,64}$"))]
    settings_of: Option<String>,
    /// What acknowledgements stand for; `logged` if absent and the server has a data folder.
    #[serde(default)]
    durability: Option<DurabilityWord>,
}

/// The new name of a fleet.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename {
    /// 1 to 64 characters of a-z, 0-9, `_` and `-`.
    #[schemars(regex(pattern = "^[a-z0-9_-]{1,64}$"))]
    new_name: String,
}

/// A clock.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ClockWord {
    /// The wall clock of the server.
    System,
    /// The greatest event time.
    Event,
}

/// What identifies objects.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KindWord {
    /// Numbers.
    Numeric,
    /// Names.
    Named,
}

/// What an acknowledgement stands for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DurabilityWord {
    /// Applied in memory.
    Applied,
    /// Synced in the log.
    Logged,
}

/// A page of fleets.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Fleets")]
pub(super) struct FleetsJson {
    fleets: Vec<FleetJson>,
    /// Continues after this page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page_token: Option<String>,
}

pub(super) async fn list(call: &mut Call) -> Result<Response, Problem> {
    let request = v1::ListFleetsRequest {
        page_size: call.query.integer("page_size").unwrap_or(0) as i32,
        page_token: call.query.text("page_token").unwrap_or_default().to_owned(),
    };
    let reply = call.fleets().list_fleets(call.request(request)).await;
    let reply = reply.map_err(|status| call.problem(status))?.into_inner();
    let page = FleetsJson {
        fleets: reply.fleets.iter().map(FleetJson::new).collect(),
        next_page_token: Some(reply.next_page_token).filter(|token| !token.is_empty()),
    };
    json(StatusCode::OK, &page, &[])
}

pub(super) async fn create(call: &mut Call) -> Result<Response, Problem> {
    let new: NewFleet = call.parsed(HTTP_REGION_BYTES_MAX).await?;
    let space = new.space.as_deref().map(str::parse::<Space>).transpose();
    let space = space.map_err(|error| Problem::field("space", error))?;
    let clock = match new.clock {
        Some(ClockWord::Event) => v1::Clock::Event,
        Some(ClockWord::System) => v1::Clock::System,
        None => v1::Clock::Unspecified,
    };
    let kind = match new.kind {
        Some(KindWord::Named) => v1::FleetKind::Named,
        Some(KindWord::Numeric) => v1::FleetKind::Numeric,
        None => v1::FleetKind::Unspecified,
    };
    let durability = reports::durability(new.durability.map(|word| match word {
        DurabilityWord::Applied => "applied",
        DurabilityWord::Logged => "logged",
    }));
    let request = v1::CreateFleetRequest {
        name: new.name,
        space: space.map(|space| fleet_space::to_wire(&space)),
        clock: clock.into(),
        ttl: new.ttl_ms.map(from_millis),
        limits: new.objects_max.map(|objects_max| v1::FleetLimits { objects_max }),
        durability: durability.into(),
        kind: kind.into(),
        settings_of: new.settings_of.unwrap_or_default(),
        ..Default::default()
    };
    let reply = call.fleets().create_fleet(call.request(request)).await;
    let fleet = reply.map_err(|status| call.problem(status))?.into_inner().fleet;
    located(StatusCode::CREATED, &fleet.unwrap_or_default())
}

/// The answer with a fleet and its path.
fn located(status: StatusCode, fleet: &v1::Fleet) -> Result<Response, Problem> {
    let place = format!("/v1/fleets/{}", fleet.name);
    let mut response = json(status, &FleetJson::new(fleet), &[])?;
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

pub(super) async fn describe(call: &mut Call) -> Result<Response, Problem> {
    let request = call.request(v1::GetFleetRequest { name: call.fleet.clone() });
    let reply = call.fleets().get_fleet(request).await;
    let fleet = reply.map_err(|status| call.problem(status))?.into_inner().fleet;
    json(StatusCode::OK, &FleetJson::new(&fleet.unwrap_or_default()), &[])
}

pub(super) async fn rename(call: &mut Call) -> Result<Response, Problem> {
    let Rename { new_name } = call.parsed(HTTP_REGION_BYTES_MAX).await?;
    let request = v1::RenameFleetRequest { name: call.fleet.clone(), new_name };
    let reply = call.fleets().rename_fleet(call.request(request)).await;
    let fleet = reply.map_err(|status| call.problem(status))?.into_inner().fleet;
    located(StatusCode::OK, &fleet.unwrap_or_default())
}

pub(super) async fn delete(call: &mut Call) -> Result<Response, Problem> {
    let request = call.request(v1::DeleteFleetRequest { name: call.fleet.clone() });
    call.fleets().delete_fleet(request).await.map_err(|status| call.problem(status))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
