//! Bounds the calls in progress on the whole server; clients share the places fairly.
//!
//! A layer counts each call from its headers to the end of its response, because even a
//! call that waits or sends no message takes memory. A call beyond the limit fails with BUSY.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::BodyExt as _;
use prometheus_client::metrics::counter::Counter;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::access::requester;
use crate::error::ServiceError;
use crate::limits::BUSY_RETRY_MS;
use crate::shares::FairPlaces;

/// See the file's head.
#[derive(Clone, Debug)]
pub struct CallBudget {
    calls: FairPlaces,
    calls_max: usize,
    busy: Counter,
}

impl CallBudget {
    /// A budget of `calls_max` calls; `busy` counts the refused ones.
    #[must_use]
    pub fn new(calls_max: usize, busy: Counter) -> Self {
        Self { calls: FairPlaces::new(calls_max), calls_max, busy }
    }
}

impl<S> Layer<S> for CallBudget {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, budget: self.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    budget: CallBudget,
}

impl<S> Service<http::Request<Body>> for Counted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let client = requester(request.extensions());
        let Ok(place) = self.budget.calls.try_reserve(client, 1) else {
            self.budget.busy.inc();
            let limit = self.budget.calls_max as u64;
            let (what, retry_ms) = ("the number of calls in progress", BUSY_RETRY_MS);
            let busy = ServiceError::Busy { what, limit, retry_ms };
            return Box::pin(ready(Ok(Status::from(busy).into_http())));
        };
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            let hold = move |frame| {
                let _place = &place;
                frame
            };
            Ok(response.map(|body| Body::new(body.map_frame(hold))))
        })
    }
}
