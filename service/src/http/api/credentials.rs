//! Where a request states its token if its client cannot set the header `Authorization` as others
//! do: pages that open a WebSocket, and trackers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::param::pairs;
use super::route::Route;
use super::web_socket;
use crate::http::problem::Problem;

/// Begins a protocol of a WebSocket that is the token of the caller.
const TOKEN_PROTOCOL: &str = "shoal.token.";

/// Puts the token of a request where requests of other clients have it.
pub(super) fn settle(route: &Route, parts: &mut Parts) {
    let token = if web_socket::is_asked(&parts.headers) {
        of_protocols(&parts.headers)
    } else if route.is_of_trackers {
        of_tracker(parts)
    } else {
        None
    };
    let value = token.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    if let Some(mut value) = value {
        value.set_sensitive(true);
        parts.headers.insert(header::AUTHORIZATION, value);
    }
}

/// Refuses a request of a page of another site. Browsers send GET without `Origin`, as for a
/// picture, and a GET of a tracker is a report.
///
/// # Errors
/// 403; 405 for HEAD, which changes nothing.
pub(super) fn check_tracker(request: &Parts) -> Result<(), Problem> {
    if request.method == Method::HEAD {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        return Err(Problem::new(status, "METHOD_NOT_ALLOWED", "a report is not sent by HEAD"));
    }
    let site = request.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_ours = matches!(site, None | Some(b"none" | b"same-origin"));
    // With `Origin` the origin was checked.
    if is_ours || request.headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let detail = "a page of another site cannot report: see --http-allow-origin";
    Err(Problem::new(StatusCode::FORBIDDEN, "ORIGIN", detail))
}

/// The token among the protocols of a WebSocket.
fn of_protocols(headers: &HeaderMap) -> Option<String> {
    if headers.contains_key(header::AUTHORIZATION) {
        return None;
    }
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut protocols = protocols.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    protocols.find_map(|it| it.trim().strip_prefix(TOKEN_PROTOCOL).map(str::to_owned))
}

/// The password of a tracker (RFC 7617), or else the parameter `token`.
fn of_tracker(parts: &Parts) -> Option<String> {
    let Some(given) = parts.headers.get(header::AUTHORIZATION) else {
        let query = parts.uri.query().unwrap_or_default();
        return pairs(query).find(|(name, _)| name == "token").and_then(|(_, token)| token.ok());
    };
    let (scheme, credentials) = given.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let credentials = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
    Some(credentials.split_once(':')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;

    use super::super::routes::ROUTES;
    use super::*;

    #[test]
    fn a_token_is_found_where_its_client_can_put_it() {
        let of = |id: &str, uri: &str, headers: &[(&str, &str)]| {
            let route = ROUTES.iter().find(|route| route.id == id).unwrap();
            let mut request = Request::get(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let mut parts = request.body(Body::empty()).unwrap().into_parts().0;
            settle(route, &mut parts);
            let value = parts.headers.get(header::AUTHORIZATION)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let bearer = |token: &str| Some(format!("Bearer {token}"));
        let password = "Basic dXNlcjpzZWNyZXQ6dG9rZW4=";
        let basic = ("authorization", password);
        assert_eq!(of("ownTracks", "/", &[basic]), bearer("secret:token"));
        assert_eq!(of("osmAnd", "/?token=a%2Bb&id=1", &[]), bearer("a+b"));
        assert_eq!(of("osmAnd", "/?token=a", &[("authorization", "Bearer b")]), bearer("b"));
        assert_eq!(of("range", "/?token=a", &[]), None);
        assert_eq!(of("range", "/", &[basic]), Some(password.to_owned()));
        let socket = [("upgrade", "websocket"), ("sec-websocket-protocol", "x, shoal.token.abc")];
        assert_eq!(of("events", "/", &socket), bearer("abc"));
        assert_eq!(of("events", "/", &socket[1..]), None);
    }
}
