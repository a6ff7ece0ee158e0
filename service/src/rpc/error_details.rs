//! Adds ErrorInfo to every error status, whichever layer produced it.
//!
//! A layer around all services, health and reflection included. It reads the status in the headers
//! or trailers of a response and replaces a status without details (`foreign_status.rs`). It also
//! ends calls at their deadline, before the transport ends them without details. Messages pass
//! unchanged.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Uri};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::deadline::Deadline;
use crate::error::ServiceError;
use crate::foreign_status::own_error;

const STATUS: &str = "grpc-status";
const STATUS_DETAILS: &str = "grpc-status-details-bin";

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct ErrorDetails;

impl<S> Layer<S> for ErrorDetails {
    type Service = Detailed<S>;

    fn layer(&self, inner: S) -> Detailed<S> {
        Detailed(inner)
    }
}

/// A service whose errors have details.
#[derive(Clone, Debug)]
pub struct Detailed<S>(S);

impl<S> Service<http::Request<Body>> for Detailed<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let uri = request.uri().clone();
        let deadline = Deadline::of_headers(request.headers());
        let response = self.0.call(request);
        Box::pin(async move {
            tokio::select! {
                biased;
                response = response => response.map(|response| detailed(response, uri)),
                () = deadline.passed() => Ok(Status::from(ServiceError::Deadline).into_http()),
            }
        })
    }
}

fn detailed(mut response: http::Response<Body>, uri: Uri) -> http::Response<Body> {
    if response.headers().contains_key(STATUS) {
        add_details(response.headers_mut(), &uri);
        return response;
    }
    let add_to_trailers = move |mut frame: Frame<Bytes>| {
        if let Some(trailers) = frame.trailers_mut() {
            add_details(trailers, &uri);
        }
        frame
    };
    response.map(|body| Body::new(body.map_frame(add_to_trailers)))
}

/// Replaces a status without details, and keeps the other headers.
fn add_details(headers: &mut HeaderMap, uri: &Uri) {
    let is_ok = headers.get(STATUS).is_none_or(|code| code == "0");
    if is_ok || headers.contains_key(STATUS_DETAILS) {
        return;
    }
    if let Some(status) = Status::from_header_map(headers) {
        let status = Status::from(own_error(&status, uri.path()));
        // An error cannot occur, because only unencoded text causes one, and tonic encodes all
        // text.
        let _ = status.add_header(headers);
    }
}
