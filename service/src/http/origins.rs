//! Which web pages may call the server from a browser.
//!
//! By default only pages of the server itself may call. Otherwise, on a server without tokens,
//! every page that a user opens could report and query. A browser states the page as `Origin`.
//! A server on loopback also checks the header `Host`: it accepts addresses, `localhost` and the
//! hosts of allowed origins. This refuses a name that an attacker's DNS points at this machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::body::Body;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use super::problem::Problem;

/// Requests that a page may make, and headers that it may send and read.
const METHODS: &str = "GET, HEAD, POST, DELETE";
const REQUEST_HEADERS: &str = "accept, authorization, content-type, grpc-timeout, last-event-id, \
    x-grpc-web, x-user-agent";
const RESPONSE_HEADERS: &str = "grpc-message, grpc-status, grpc-status-details-bin, location, \
    retry-after, shoal-clock-ms, shoal-epoch, shoal-fleet, shoal-stale-ms, shoal-staleness-epochs, \
    shoal-term, shoal-token, shoal-total, shoal-truncated";
/// How long a browser keeps the answer to a preflight, seconds: the longest that one does.
const PREFLIGHT_SECONDS: u32 = 7200;

/// An origin whose pages may call: `https://map.example.com`, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(String);

impl FromStr for AllowedOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither * nor SCHEME://HOST[:PORT]");
        if text == "*" {
            return Ok(Self(text.to_owned()));
        }
        let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
        let parsed: Authority = authority.parse().map_err(|_| wrong())?;
        if !["http", "https"].contains(&scheme) || parsed.as_str().contains('@') {
            return Err(wrong());
        }
        // Browsers send origins in small letters.
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rules of a listener.
#[derive(Clone, Debug)]
pub struct Origins {
    allowed: Vec<AllowedOrigin>,
    checks_host: bool,
}

/// Origin of an accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The request states no origin, or that of this server.
    Ours,
    /// A page of an allowed origin.
    Allowed(HeaderValue),
}

impl Origins {
    /// Creates the rules: pages of these origins may call. A loopback listener also checks the
    /// header `Host`, unless all origins are allowed.
    #[must_use]
    pub fn new(allowed: Vec<AllowedOrigin>, is_loopback: bool) -> Self {
        let checks_host = is_loopback && !allowed.iter().any(|origin| origin.0 == "*");
        Self { allowed, checks_host }
    }

    /// Refuses a request of a page that may not call.
    pub(super) fn check(&self, request: &Request<Body>) -> Result<Asked, Problem> {
        let authority = authority(request)?;
        if self.checks_host && !self.is_known(&authority) {
            let detail = format!(
                "host `{}` is neither an address nor localhost nor of an allowed origin",
                authority.host()
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "HOST", detail));
        }
        let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(Asked::Ours) };
        let text = origin.to_str().unwrap_or_default();
        let of_page = text.split_once("://").map(|(_, authority)| authority);
        if of_page.is_some_and(|of_page| of_page.eq_ignore_ascii_case(authority.as_str())) {
            return Ok(Asked::Ours);
        }
        let text = text.to_ascii_lowercase();
        if self.allowed.iter().any(|allowed| allowed.0 == "*" || allowed.0 == text) {
            return Ok(Asked::Allowed(origin.clone()));
        }
        let detail = format!("pages of {text} may not call: see --http-allow-origin");
        Err(Problem::new(StatusCode::FORBIDDEN, "ORIGIN", detail))
    }

    fn is_known(&self, authority: &Authority) -> bool {
        let host = authority.host().to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_localhost = host == "localhost" || host.ends_with(".localhost");
        let of_origin = |origin: &AllowedOrigin| {
            let authority = origin.0.split_once("://").map(|(_, authority)| authority);
            let authority = authority.and_then(|text| text.parse::<Authority>().ok());
            authority.is_some_and(|authority| authority.host() == host)
        };
        is_localhost || address.parse::<IpAddr>().is_ok() || self.allowed.iter().any(of_origin)
    }
}

/// The host that the client meant.
fn authority(request: &Request<Body>) -> Result<Authority, Problem> {
    if let Some(authority) = request.uri().authority() {
        return Ok(authority.clone());
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()?.parse().ok());
    host.filter(|_| hosts.next().is_none()).ok_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "HOST", "the request does not have one valid host")
    })
}

impl Asked {
    /// The answer to a preflight, if the request is one.
    pub(super) fn preflight(&self, request: &Request<Body>) -> Option<Response<Body>> {
        let is_preflight = request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        if matches!(self, Self::Allowed(_)) {
            let fixed = HeaderValue::from_static;
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, fixed(METHODS));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, fixed(REQUEST_HEADERS));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS.into());
        }
        Some(response)
    }

    /// Tells the browser that the page may read the response.
    pub(super) fn permit(self, headers: &mut HeaderMap) {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Self::Allowed(origin) = self {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = HeaderValue::from_static(RESPONSE_HEADERS);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str, origin: Option<&str>) -> Request<Body> {
        let mut request = Request::get("/").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        request.body(Body::empty()).unwrap()
    }

    fn origins(allowed: &[&str], is_loopback: bool) -> Origins {
        Origins::new(allowed.iter().map(|origin| origin.parse().unwrap()).collect(), is_loopback)
    }

    #[test]
    fn only_its_own_pages_and_allowed_origins_call() {
        let ours = origins(&["https://Map.example.com"], false);
        let asked = |origin| ours.check(&request("shoal.example.com:8080", origin));
        assert_eq!(asked(None).unwrap(), Asked::Ours);
        assert_eq!(asked(Some("http://shoal.example.com:8080")).unwrap(), Asked::Ours);
        let map = "https://map.example.com";
        assert_eq!(asked(Some(map)).unwrap(), Asked::Allowed(HeaderValue::from_static(map)));
        for other in ["http://map.example.com", "https://map.example.com:1", "null", "", "://"] {
            assert!(asked(Some(other)).is_err(), "{other}");
        }
        let all = origins(&["*"], true);
        let asked = all.check(&request("evil.example", Some("null"))).unwrap();
        assert_eq!(asked, Asked::Allowed(HeaderValue::from_static("null")));
    }

    #[test]
    fn a_loopback_listener_answers_to_no_foreign_name() {
        let ours = origins(&["https://map.example.com"], true);
        let rebound = Some("http://evil.example:8080");
        assert!(ours.check(&request("evil.example:8080", rebound)).is_err());
        assert!(ours.check(&request("evil.example:8080", None)).is_err());
        for host in ["127.0.0.1:8080", "[::1]:8080", "localhost", "a.localhost", "map.example.com"]
        {
            assert_eq!(ours.check(&request(host, None)).unwrap(), Asked::Ours, "{host}");
        }
        let open = origins(&[], false);
        assert!(open.check(&request("any.example", None)).is_ok());
        for wrong in ["", "a b", "a/b"] {
            assert!(open.check(&request(wrong, None)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_origins() {
        for wrong in ["", "example.com", "ftp://a", "https://a/b", "https://", "https://a@b", "**"]
        {
            assert!(wrong.parse::<AllowedOrigin>().is_err(), "{wrong}");
        }
    }
}
