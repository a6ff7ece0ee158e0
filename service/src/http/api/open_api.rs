//! The OpenAPI 3.1 document of the API, made from the table of routes and the types of its bodies.
//!
//! Requests and answers have separate schemas: a member that a request may omit is always present
//! in an answer.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::events::Data;
use super::reports::CSV;
use super::route::{EVENT_STREAM, Media, Route};
use super::routes::{PATH, ROUTES};
use super::row::{PointFeature, Row};
use super::web_socket::{AnyData, Change, Changed, Sent};
use crate::http::problem::{PROBLEM_TYPE, Problem};
use crate::json::RowJson;

/// Errors of any call; a route may say more about one.
const USUAL: [(u16, &str); 5] = [
    (401, "The token is missing or wrong"),
    (403, "The token lacks the right, or the page is of another origin"),
    (429, "The server or the token has too much to do: see retry_after_ms"),
    (503, "The server starts, stops or is full: see retry_after_ms"),
    (504, "The time limit of the call has passed"),
];

/// The document as text.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    // Values with string keys are always JSON.
    serde_json::to_vec_pretty(&open_api()).unwrap_or_default().into()
});

/// `GET /openapi.json`.
pub(in crate::http) async fn document() -> Response {
    let mut response = Response::new(Body::from(DOCUMENT.clone()));
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// Schemas of what is read and of what is written.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

/// The document.
pub(super) fn open_api() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let written = settings.clone().for_serialize().into_generator();
    let mut schemas = Schemas { read: settings.into_generator(), written };
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation(route, &mut schemas);
    }
    // What lines and events hold is named in descriptions.
    schemas.read.subschema_for::<Row>();
    schemas.read.subschema_for::<PointFeature>();
    schemas.written.subschema_for::<RowJson>();
    schemas.written.subschema_for::<Data>();
    schemas.read.subschema_for::<Change>();
    schemas.written.subschema_for::<Sent<AnyData>>();
    schemas.written.subschema_for::<Changed>();
    let mut components = schemas.read.take_definitions(true);
    components.extend(schemas.written.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Shoal",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Moving objects over HTTP: report, query, follow. All services are also \
                at this address as gRPC-Web. Ids, terms and tokens are strings. Errors are \
                problems (RFC 9457) with the reasons of error.proto.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let in_path = PATH.iter().filter(|param| route.path.contains(&format!("{{{}}}", param.name)));
    let mut parameters: Vec<Value> = in_path.map(|param| param.open_api("path")).collect();
    let in_query = route.query.iter().copied().flatten();
    parameters.extend(in_query.map(|param| param.open_api("query")));
    if route.is_stream() {
        parameters.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "required": false,
            "description": "The id of the last event received: the stream continues after it",
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]*$", "maxLength": 1366 },
        }));
    }
    let problem = |about: &str, schemas: &mut Schemas| {
        let schema = schemas.written.subschema_for::<Problem>();
        json!({ "description": about, "content": { PROBLEM_TYPE: { "schema": schema } } })
    };
    let mut responses = Map::new();
    responses.insert(route.status.to_string(), success(route, schemas));
    for (status, about) in USUAL.iter().chain(route.refusals) {
        responses.insert(status.to_string(), problem(about, schemas));
    }
    // The protocol refuses these before there is a call, so they have no body.
    let long = json!({ "description": "The address and the headers are longer than 16 KiB" });
    responses.insert("431".to_owned(), long);
    responses.insert("default".to_owned(), problem("Any other error", schemas));
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.about,
        "parameters": parameters,
        "responses": responses,
    });
    if !route.body.is_empty() {
        let content = content(route.body, &mut schemas.read);
        // The message of a tracker may be in the address, or empty.
        let is_required = !route.is_of_trackers;
        operation["requestBody"] = json!({ "required": is_required, "content": content });
    }
    operation
}

fn success(route: &Route, schemas: &mut Schemas) -> Value {
    let mut success = json!({ "description": "Success" });
    if !route.answer.is_empty() {
        success["content"] = content(route.answer, &mut schemas.written);
    }
    if !route.headers.is_empty() {
        let headers = route.headers.iter().map(|header| {
            let object = json!({
                "description": header.about,
                "required": header.is_required,
                "schema": { "type": "string" },
            });
            (header.name.to_owned(), object)
        });
        success["headers"] = Value::Object(headers.collect());
    }
    success
}

fn content(all: &[Media], generator: &mut SchemaGenerator) -> Value {
    let content = all.iter().map(|media| {
        let schema = match (media.schema, media.name) {
            (Some(schema), _) => schema(generator).to_value(),
            (None, EVENT_STREAM) => json!({
                "type": "string",
                "description": "Server-Sent Events; the data of each is an EventData in JSON, or \
                    a Problem in the event `error`, which ends the stream",
            }),
            (None, CSV) => json!({
                "type": "string",
                "description": "A header with the names of the columns, then one row a line, as \
                    `shoal report` reads them from a file",
            }),
            (None, _) => json!({
                "type": "string",
                "description": "One JSON object a line, in the form of the schema Row (read) or \
                    RowJson (answered)",
            }),
        };
        (media.name.to_owned(), json!({ "schema": schema }))
    });
    Value::Object(content.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All references of a document.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_route_is_in_the_document_and_every_reference_leads_somewhere() {
        let document = open_api();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.to_lowercase()];
            assert_eq!(operation["operationId"], route.id);
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len());
        for reference in found {
            let place = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(place).is_some(), "{reference}");
        }
    }
}
