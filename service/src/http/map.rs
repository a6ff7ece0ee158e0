//! Files of a page that are part of the binary: served with content type, ETag and the policy of
//! what the page may load (`tiles.rs`).
//!
//! In a build with the feature `map`, the live map is such a page.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// One file.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// Its path below `/`; empty for the page itself.
    pub(super) path: &'static str,
    pub(super) bytes: &'static [u8],
    /// A strong validator in quotes.
    pub(super) etag: &'static str,
}

/// The file at a path below `/`.
pub(super) fn find(files: &[File], path: &str) -> Option<File> {
    files.iter().find(|file| file.path == path).copied()
}

/// Sends a file, or status 304 if the client has its current version.
pub(super) fn send(file: File, request: &HeaderMap, policy: &HeaderValue) -> Response {
    let known = request.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| {
        tags.split(',').any(|tag| ["*", file.etag].contains(&tag.trim().trim_start_matches("W/")))
    });
    let mut response = Response::new(Body::empty());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(file.bytes);
    }
    let fixed = HeaderValue::from_static;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, fixed(content_type(file.path)));
    headers.insert(header::ETAG, fixed(file.etag));
    // A new binary has new files: the browser asks whether its copies are current.
    headers.insert(header::CACHE_CONTROL, fixed("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    response
}

/// The content type for the file name extension of a path.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        None | Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("geojson") => "application/geo+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        Some("txt") => "text/plain; charset=utf-8",
        Some(_) => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_file_is_not_sent_again() {
        let file = File { path: "assets/map.js", bytes: b"1", etag: "\"a\"" };
        let mut request = HeaderMap::new();
        let policy = HeaderValue::from_static("default-src 'self'");
        let response = send(file, &request, &policy);
        assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], policy);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        for (tags, status) in
            [("\"b\"", StatusCode::OK), ("\"b\", W/\"a\"", StatusCode::NOT_MODIFIED)]
        {
            request.insert(header::IF_NONE_MATCH, HeaderValue::from_static(tags));
            assert_eq!(send(file, &request, &policy).status(), status, "{tags}");
        }
        assert!(find(&[file], "assets/map.css").is_none());
        assert_eq!(find(&[file], "assets/map.js").unwrap().bytes, b"1");
    }
}
