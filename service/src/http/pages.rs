//! The page at `/`: the live map if the build contains it, otherwise a plain page.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};

use super::app::App;
use super::map::{self, File};
use super::problem::Problem;

/// The files of the live map, made by `build.rs`.
#[cfg(feature = "map")]
pub(super) const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/map_files.rs"));

/// The page of a build without the map.
#[cfg(not(feature = "map"))]
const PLAIN: &[File] =
    &[File { path: "", bytes: include_bytes!("front_page.html"), etag: PLAIN_ETAG }];
/// Changes with the text of the page.
#[cfg(not(feature = "map"))]
const PLAIN_ETAG: &str = concat!("\"", env!("CARGO_PKG_VERSION"), "-3\"");

/// The files of the page.
#[cfg(not(feature = "map"))]
pub(super) const FILES: &[File] = PLAIN;

/// `GET /`.
pub(super) async fn front(State(app): State<App>, request: HeaderMap) -> Response {
    match map::find(FILES, "") {
        Some(page) => map::send(page, &request, app.tiles().policy()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// `GET /map/...`: what the map loads.
pub(super) async fn file(
    State(app): State<App>,
    Path(name): Path<String>,
    request: HeaderMap,
) -> Response {
    match (map::find(FILES, &format!("map/{name}")), name.as_str()) {
        (Some(file), _) => map::send(file, &request, app.tiles().policy()),
        (None, "settings.json") if cfg!(feature = "map") => app.tiles().settings(),
        (None, "tiles.pmtiles") if cfg!(feature = "map") => app.tiles().range(&request).await,
        _ => {
            let detail = format!("there is nothing at /map/{name}");
            Problem::new(StatusCode::NOT_FOUND, "METHOD_UNKNOWN", detail).into_response()
        }
    }
}

/// `GET /healthz`.
pub(super) async fn healthz(State(app): State<App>) -> Response {
    let (status, text) = if app.is_serving() {
        (StatusCode::OK, "serving\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not serving\n")
    };
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, plain, Body::from(text)).into_response()
}
