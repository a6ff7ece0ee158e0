//! The table of routes, and the router made of it.
//!
//! A test compares the responses in the table with the responses of the server.

use std::sync::Mutex;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use http::Method;
use http::request::Parts;
use tokio::time::Instant;

use super::answer::{Form, HEADERS, PAST_ROWS, ROWS, SQUARES, form};
use super::call::Call;
use super::credentials;
use super::events::EVENTS;
use super::filter::{AGE, FILTER, FORM, MIN_TOKEN, OBJECT_OPTIONS, OPTIONS, PAGE, TIMEOUT, WINDOW};
use super::fleets::{self, NewFleet, PAGES, Rename};
use super::geometry::{REGION, RegionDocument};
use super::histories::{self, EVERY, MOMENT, PASSED, SPEED, SQUARES_OF, TRACKED};
use super::incoming::{Incoming, coding};
use super::param::{Param, Query, object};
use super::queries::{self, CountJson, NAMES, NamesJson, OBJECTS, POINT};
use super::reports::{
    self, CSV, CSV_TIMES, DURABILITY, FORM_TYPE, MEASURES, NDJSON, NUMBER, Removal, RemovedJson,
    ReportJson,
};
use super::route::{Answering, Header, Media, Route};
use super::row::{GeoReport, RowReport};
use super::subscriptions::{RULES, Subscription};
use super::trackers::{self, NoMessage, OSM_AND, OWN_TRACKS, OwnTracksMessage, TraccarReport};
use super::{events, fleets::FleetsJson};
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::json::{FeatureJson, FleetJson};

const JSON: &str = "application/json";
const GEOJSON: &str = "application/geo+json";

/// Errors that many calls share.
const WRONG: (u16, &str) = (400, "A parameter, the path or the body is wrong");
const UNKNOWN: (u16, &str) = (404, "The fleet does not exist");
const LARGE: (u16, &str) = (413, "The body is too long");
const MEDIA: (u16, &str) = (415, "The media type of the body is none of those listed");
const FORMS: (u16, &str) = (406, "None of the forms is accepted");
const CONFLICT: (u16, &str) = (409, "The fleet keeps no history");

/// A region in GeoJSON.
const REGION_BODY: &[Media] = &[
    Media::new(GEOJSON, |generator| generator.subschema_for::<RegionDocument>()),
    Media::new(JSON, |generator| generator.subschema_for::<RegionDocument>()),
];

/// A document of a type.
macro_rules! document {
    ($type:ty) => {
        &[Media::new(JSON, |generator| generator.subschema_for::<$type>())]
    };
}

/// Wraps a handler in a function of the type that a route has.
macro_rules! handler {
    ($module:ident :: $name:ident) => {{
        fn handle(call: &mut Call) -> Answering<'_> {
            Box::pin($module::$name(call))
        }
        handle
    }};
}

/// Default values of a route: no parameters, body or answer. Rows override what differs.
const PLAIN: Route = Route {
    method: "GET",
    path: "",
    id: "",
    rpc: "",
    is_of_trackers: false,
    about: "",
    query: &[TIMEOUT],
    body: &[],
    status: 200,
    answer: &[],
    headers: &[],
    refusals: &[WRONG, UNKNOWN],
    handler: |_| Box::pin(async { Err(Problem::field("", "no call")) }),
};

/// Like [`PLAIN`], but the answer has rows.
const ROWED: Route =
    Route { answer: ROWS, headers: HEADERS, refusals: &[WRONG, UNKNOWN, FORMS], ..PLAIN };

/// Like [`ROWED`], but the rows are of the past.
const PAST: Route =
    Route { answer: PAST_ROWS, refusals: &[WRONG, UNKNOWN, FORMS, CONFLICT], ..ROWED };

/// All calls.
pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/fleets",
        id: "listFleets",
        rpc: "/shoal.v1.FleetService/ListFleets",
        about: "Lists the fleets, ordered by name",
        query: &[PAGES, TIMEOUT],
        answer: document!(FleetsJson),
        refusals: &[WRONG],
        handler: handler!(fleets::list),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets",
        id: "createFleet",
        rpc: "/shoal.v1.FleetService/CreateFleet",
        about: "Creates a fleet",
        body: document!(NewFleet),
        status: 201,
        answer: document!(FleetJson),
        headers: &[Header::new("Location", "The path of the fleet")],
        refusals: &[WRONG, (409, "A fleet has this name"), LARGE, MEDIA],
        handler: handler!(fleets::create),
        ..PLAIN
    },
    Route {
        path: "/v1/fleets/{fleet}",
        id: "getFleet",
        rpc: "/shoal.v1.FleetService/GetFleet",
        about: "Describes a fleet",
        answer: document!(FleetJson),
        handler: handler!(fleets::describe),
        ..PLAIN
    },
    Route {
        method: "DELETE",
        path: "/v1/fleets/{fleet}",
        id: "deleteFleet",
        rpc: "/shoal.v1.FleetService/DeleteFleet",
        about: "Deletes a fleet with all its objects",
        status: 204,
        handler: handler!(fleets::delete),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/rename",
        id: "renameFleet",
        rpc: "/shoal.v1.FleetService/RenameFleet",
        about: "Gives a fleet another name",
        body: document!(Rename),
        answer: document!(FleetJson),
        headers: &[Header::new("Location", "The new path of the fleet")],
        refusals: &[WRONG, (409, "A fleet has this name"), LARGE, MEDIA],
        handler: handler!(fleets::rename),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/clear",
        id: "clearFleet",
        rpc: "/shoal.v1.FleetService/ClearFleet",
        about: "Removes every object of a fleet",
        answer: document!(RemovedJson),
        headers: &[Header::new("Shoal-Token", "See the member `token`")],
        handler: handler!(reports::clear),
        ..PLAIN
    },
    Route {
        path: "/v1/fleets/{fleet}/names",
        id: "listNames",
        rpc: "/shoal.v1.QueryService/ListNames",
        about: "Lists the names of a named fleet",
        query: &[NAMES, TIMEOUT],
        answer: document!(NamesJson),
        refusals: &[WRONG, UNKNOWN],
        handler: handler!(queries::names),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/objects",
        id: "report",
        rpc: "/shoal.v1.PositionService/ReportOnce",
        about: "Reports positions: a document in one message, or lines of any number in many",
        query: &[DURABILITY, MEASURES, NUMBER, CSV_TIMES, TIMEOUT],
        body: &[
            Media::new(GEOJSON, |generator| generator.subschema_for::<GeoReport>()),
            Media::new(JSON, |generator| generator.subschema_for::<RowReport>()),
            Media::text(NDJSON),
            Media::text(CSV),
        ],
        answer: document!(ReportJson),
        headers: &[Header::new(
            "Shoal-Token",
            "See the member `token`; absent if the report has no rows",
        )
        .optional()],
        refusals: &[
            WRONG,
            UNKNOWN,
            (409, "The number of the producer is out of order"),
            LARGE,
            MEDIA,
        ],
        handler: handler!(reports::report),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/owntracks",
        id: "ownTracks",
        rpc: "/shoal.v1.PositionService/ReportOnce",
        is_of_trackers: true,
        about: "Takes a message of OwnTracks; a location is a report",
        query: &[OWN_TRACKS],
        body: document!(OwnTracksMessage),
        answer: document!([NoMessage; 0]),
        refusals: &[WRONG, UNKNOWN, LARGE],
        handler: handler!(trackers::own_tracks),
        ..PLAIN
    },
    Route {
        path: "/v1/fleets/{fleet}/osmand",
        id: "osmAnd",
        rpc: "/shoal.v1.PositionService/ReportOnce",
        is_of_trackers: true,
        about: "Reports a position in the form of OsmAnd and Traccar",
        query: &[OSM_AND],
        handler: handler!(trackers::osm_and),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/osmand",
        id: "osmAndBody",
        rpc: "/shoal.v1.PositionService/ReportOnce",
        is_of_trackers: true,
        about: "Reports a position as OsmAnd and Traccar do: in the address, a form or JSON",
        query: &[OSM_AND],
        body: &[
            Media::new(JSON, |generator| generator.subschema_for::<TraccarReport>()),
            Media::text(FORM_TYPE),
        ],
        refusals: &[WRONG, UNKNOWN, LARGE],
        handler: handler!(trackers::osm_and),
        ..PLAIN
    },
    Route {
        path: "/v1/fleets/{fleet}/objects",
        id: "getObjects",
        rpc: "/shoal.v1.QueryService/Get",
        about: "Returns those of the given objects that exist",
        query: &[OBJECTS, OPTIONS, PAGE, FILTER, AGE, FORM],
        handler: handler!(queries::get),
        ..ROWED
    },
    Route {
        path: "/v1/fleets/{fleet}/objects/{object}",
        id: "getObject",
        rpc: "/shoal.v1.QueryService/Get",
        about: "Returns one object as a feature",
        query: &[OBJECT_OPTIONS, TIMEOUT],
        answer: document!(FeatureJson),
        refusals: &[WRONG, (404, "The fleet or the object does not exist")],
        headers: HEADERS,
        handler: handler!(queries::get_one),
        ..PLAIN
    },
    Route {
        method: "DELETE",
        path: "/v1/fleets/{fleet}/objects/{object}",
        id: "removeObject",
        rpc: "/shoal.v1.PositionService/Remove",
        about: "Removes one object",
        query: &[NUMBER, TIMEOUT],
        answer: document!(RemovedJson),
        headers: &[Header::new("Shoal-Token", "See the member `token`")],
        handler: handler!(reports::remove_one),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/remove",
        id: "removeObjects",
        rpc: "/shoal.v1.PositionService/Remove",
        about: "Removes objects",
        query: &[NUMBER, TIMEOUT],
        body: document!(Removal),
        answer: document!(RemovedJson),
        headers: &[Header::new("Shoal-Token", "See the member `token`")],
        refusals: &[WRONG, UNKNOWN, LARGE, MEDIA],
        handler: handler!(reports::remove),
        ..PLAIN
    },
    Route {
        path: "/v1/fleets/{fleet}/range",
        id: "range",
        rpc: "/shoal.v1.QueryService/Range",
        about: "Returns every object in a circle or a rectangle",
        query: &[REGION, OPTIONS, PAGE, FILTER, AGE, FORM],
        handler: handler!(queries::range),
        ..ROWED
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/range",
        id: "rangeGeoJson",
        rpc: "/shoal.v1.QueryService/Range",
        about: "Returns every object in a GeoJSON polygon or multipolygon",
        query: &[OPTIONS, PAGE, FILTER, AGE, FORM],
        body: REGION_BODY,
        refusals: &[WRONG, UNKNOWN, FORMS, LARGE, MEDIA],
        handler: handler!(queries::range),
        ..ROWED
    },
    Route {
        path: "/v1/fleets/{fleet}/count",
        id: "count",
        rpc: "/shoal.v1.QueryService/Range",
        about: "Returns the number of objects in a circle or a rectangle",
        query: &[REGION, MIN_TOKEN, FILTER, AGE, TIMEOUT],
        answer: document!(CountJson),
        headers: HEADERS,
        handler: handler!(queries::count),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/count",
        id: "countGeoJson",
        rpc: "/shoal.v1.QueryService/Range",
        about: "Returns the number of objects in a GeoJSON polygon or multipolygon",
        query: &[MIN_TOKEN, FILTER, AGE, TIMEOUT],
        body: REGION_BODY,
        answer: document!(CountJson),
        headers: HEADERS,
        refusals: &[WRONG, UNKNOWN, LARGE, MEDIA],
        handler: handler!(queries::count),
        ..PLAIN
    },
    Route {
        path: "/v1/fleets/{fleet}/nearest",
        id: "nearest",
        rpc: "/shoal.v1.QueryService/Nearest",
        about: "Returns the k objects nearest to a point, by distance",
        query: &[POINT, OPTIONS, FILTER, AGE, FORM],
        handler: handler!(queries::nearest),
        ..ROWED
    },
    Route {
        path: "/v1/fleets/{fleet}/history/trajectory",
        id: "trajectory",
        rpc: "/shoal.v1.HistoryService/Trajectory",
        about: "Returns the fixes of given objects in a window of time",
        query: &[TRACKED, WINDOW, EVERY, FORM],
        handler: handler!(histories::trajectory),
        ..PAST
    },
    Route {
        path: "/v1/fleets/{fleet}/history/passed",
        id: "passed",
        rpc: "/shoal.v1.HistoryService/Passed",
        about: "Returns which objects had a fix in a circle or rectangle in a window of time",
        query: &[REGION, WINDOW, PASSED, FILTER, FORM],
        handler: handler!(histories::passed),
        ..PAST
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/history/passed",
        id: "passedGeoJson",
        rpc: "/shoal.v1.HistoryService/Passed",
        about: "Returns which objects had a fix in a GeoJSON polygon in a window of time",
        query: &[WINDOW, PASSED, FILTER, FORM],
        body: REGION_BODY,
        refusals: &[WRONG, UNKNOWN, FORMS, CONFLICT, LARGE, MEDIA],
        handler: handler!(histories::passed),
        ..PAST
    },
    Route {
        path: "/v1/fleets/{fleet}/history/as-of",
        id: "asOf",
        rpc: "/shoal.v1.HistoryService/AsOf",
        about: "Returns the state of the fleet at a moment",
        query: &[MOMENT, REGION, FILTER, FORM],
        handler: handler!(histories::as_of),
        ..PAST
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/history/as-of",
        id: "asOfGeoJson",
        rpc: "/shoal.v1.HistoryService/AsOf",
        about: "Returns the state in a GeoJSON polygon at a moment",
        query: &[MOMENT, FILTER, FORM],
        body: REGION_BODY,
        refusals: &[WRONG, UNKNOWN, FORMS, CONFLICT, LARGE, MEDIA],
        handler: handler!(histories::as_of),
        ..PAST
    },
    Route {
        path: "/v1/fleets/{fleet}/history/replay",
        id: "replay",
        rpc: "/shoal.v1.HistoryService/Replay",
        about: "Returns the fixes of a window in the order of time, with a speed when each is due",
        query: &[REGION, WINDOW, SPEED, FILTER, FORM],
        handler: handler!(histories::replay),
        ..PAST
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/history/replay",
        id: "replayGeoJson",
        rpc: "/shoal.v1.HistoryService/Replay",
        about: "Returns the fixes in a GeoJSON polygon in the order of time",
        query: &[WINDOW, SPEED, FILTER, FORM],
        body: REGION_BODY,
        refusals: &[WRONG, UNKNOWN, FORMS, CONFLICT, LARGE, MEDIA],
        handler: handler!(histories::replay),
        ..PAST
    },
    Route {
        path: "/v1/fleets/{fleet}/history/density",
        id: "density",
        rpc: "/shoal.v1.HistoryService/Density",
        about: "Returns the number of fixes by squares of the map and steps of time",
        query: &[SQUARES_OF, REGION, WINDOW, FILTER, FORM],
        answer: SQUARES,
        handler: handler!(histories::density),
        ..PAST
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/history/density",
        id: "densityGeoJson",
        rpc: "/shoal.v1.HistoryService/Density",
        about: "Returns the number of fixes in a GeoJSON polygon by squares and steps of time",
        query: &[SQUARES_OF, WINDOW, FILTER, FORM],
        body: REGION_BODY,
        answer: SQUARES,
        refusals: &[WRONG, UNKNOWN, FORMS, CONFLICT, LARGE, MEDIA],
        handler: handler!(histories::density),
        ..PAST
    },
    Route {
        path: "/v1/fleets/{fleet}/events",
        id: "events",
        rpc: "/shoal.v1.SubscriptionService/Subscribe",
        about: "Streams what happens in a circle or rectangle, or resumes after Last-Event-ID; with \
            Upgrade: websocket as WebSocketMessage, and takes a Subscription and WebSocketChange",
        query: &[REGION, RULES, FILTER, AGE],
        answer: EVENTS,
        handler: handler!(events::events),
        ..PLAIN
    },
    Route {
        method: "POST",
        path: "/v1/fleets/{fleet}/events",
        id: "eventsOfRegions",
        rpc: "/shoal.v1.SubscriptionService/Subscribe",
        about: "Streams what happens in many regions, or resumes after Last-Event-ID",
        query: &[],
        body: document!(Subscription),
        answer: EVENTS,
        refusals: &[WRONG, UNKNOWN, LARGE, MEDIA],
        handler: handler!(events::events),
        ..PLAIN
    },
];

/// Adds all calls to a router.
pub(in crate::http) fn add_routes(mut router: Router<App>) -> Router<App> {
    for route in ROUTES {
        let method = match route.method {
            "POST" => MethodFilter::POST,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let handler =
            move |State(app): State<App>, path: Result<RawPathParams, _>, request: Request| {
                answer(route, app, path, request)
            };
        router = router.route(route.path, on(method, handler));
    }
    router
}

async fn answer(
    route: &'static Route,
    app: App,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut body = Incoming::new(body, &parts.headers);
    credentials::settle(route, &mut parts);
    let refused = match route.is_of_trackers {
        true => credentials::check_tracker(&parts),
        false => Ok(()),
    };
    let answered = match refused.and_then(|()| call(route, &app, &path, &parts)) {
        // The headers alone: no session begins.
        Ok(_) if parts.method == Method::HEAD && route.is_stream() => Ok(events::headers()),
        Ok(call) => {
            let mut call = Call { body: Mutex::new(body), ..call };
            let answered = (route.handler)(&mut call).await;
            body = std::mem::take(call.body());
            answered
        }
        Err(problem) => Err(problem),
    };
    match answered {
        Ok(response) => response,
        Err(problem) => {
            body.discard(&parts).await;
            problem.into_response()
        }
    }
}

/// The call of a request, without its body.
fn call(
    route: &'static Route,
    app: &App,
    path: &Result<RawPathParams, RawPathParamsRejection>,
    parts: &Parts,
) -> Result<Call, Problem> {
    let of_path = |name| {
        let mut params = path.as_ref().ok()?.iter();
        params.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    let fleet = of_path("fleet");
    // The caller and its rights come first: nothing is read for a caller that may not call.
    app.permit(route.rpc, fleet, parts)?;
    path.as_ref().map_err(|_| Problem::field("path", "not UTF-8"))?;
    coding(&parts.headers)?;
    let fleet = fleet.unwrap_or_default().to_owned();
    let object = of_path("object").map_or(Ok(String::new()), object);
    let object = object.map_err(|why| Problem::field("object", why))?;
    let query_text = parts.uri.query().unwrap_or_default();
    let query = match route.is_of_trackers {
        true => Query::default(),
        false => Query::read(query_text, route.query)?,
    };
    let form = match route.has_forms() {
        true => form(&query, &parts.headers)?,
        false => Form::default(),
    };
    Ok(Call {
        app: app.clone(),
        route,
        fleet,
        object,
        query,
        query_text: query_text.to_owned(),
        form,
        headers: parts.headers.clone(),
        extensions: parts.extensions.clone(),
        body: Mutex::default(),
        region_path: "",
        charge: None,
        began: Instant::now(),
    })
}

/// Parameters of a path.
pub(super) const PATH: &[Param] = &[
    Param::new("fleet", super::param::Kind::Fleet, "The fleet").required(),
    Param::new("object", super::param::Kind::Object, "The object").required(),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn routes_and_parameters_have_names_of_their_own() {
        let mut ids = HashSet::new();
        let mut places = HashSet::new();
        for route in ROUTES {
            assert!(ids.insert(route.id), "{}", route.id);
            assert!(places.insert((route.method, route.path)), "{}", route.id);
            let mut names = HashSet::new();
            for param in route.query.iter().copied().flatten() {
                assert!(names.insert(param.name), "{}: {}", route.id, param.name);
            }
            let mut statuses = HashSet::from([route.status]);
            for (status, _) in route.refusals {
                assert!(statuses.insert(*status), "{}: {status}", route.id);
            }
        }
    }
}
