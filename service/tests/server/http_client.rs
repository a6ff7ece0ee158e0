//! A client of the HTTP listener: one request at a time, with any method, headers and body.

use std::net::SocketAddr;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::running::{Running, within};

/// A client with connections of its own.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<HttpConnector, Body>,
    address: SocketAddr,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Running {
    /// A client over HTTP/1.1.
    pub(crate) fn http1(&self) -> Http {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Http { client, address: self.http_address }
    }

    /// A client over HTTP/2 without TLS.
    pub(crate) fn http2(&self) -> Http {
        let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        Http { client, address: self.http_address }
    }
}

impl Http {
    /// A request to a path.
    pub(crate) fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let uri = format!("http://{}{path}", self.address);
        Request::builder().method(method.parse::<Method>().unwrap()).uri(uri)
    }

    /// Sends a request; the body of the response is not read yet.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        within(self.client.request(request)).await.unwrap().map(Body::new)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.open(request).await.into_parts();
        let body = within(body.collect()).await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// A request without a body.
    pub(crate) async fn call(&self, method: &str, path: &str) -> Answer {
        self.send(self.request(method, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).await
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The value of a header, which must be there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(HeaderValue::to_str);
        value.unwrap_or_else(|| panic!("no {name} in {self:?}")).unwrap()
    }

    /// Confirms a problem with this status and reason.
    pub(crate) fn assert_problem(&self, status: u16, reason: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["reason"], reason, "{problem}");
        assert_eq!(problem["type"], format!("urn:shoal:error:{reason}"));
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        assert!(problem["instance"].as_str().unwrap().starts_with('/'), "{problem}");
        problem
    }
}
