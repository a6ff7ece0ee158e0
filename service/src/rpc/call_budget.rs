//! Bounds the calls in progress on the whole server; clients share the places fairly. The clients
//! of one address cannot have all of them.
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
use crate::address_places::{AddressPlace, AddressPlaces};
use crate::error::ServiceError;
use crate::limits::BUSY_RETRY_MS;
use crate::shares::{FairPlaces, PlacesPermit, Requester};

/// One in this many places is not for the clients of a single address.
const OTHERS_SHARE: usize = 8;

/// A place of a call.
struct Place {
    _of_client: PlacesPermit,
    _of_address: Option<AddressPlace>,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct CallBudget {
    calls: FairPlaces,
    addresses: AddressPlaces,
    calls_max: usize,
    busy: Counter,
}

impl CallBudget {
    /// A budget of `calls_max` calls; `busy` counts the refused ones.
    #[must_use]
    pub fn new(calls_max: usize, busy: Counter) -> Self {
        let addresses = AddressPlaces::new(calls_max - calls_max / OTHERS_SHARE);
        Self { calls: FairPlaces::new(calls_max), addresses, calls_max, busy }
    }

    /// A place for a call of this client, if there is one.
    fn take(&self, client: Requester) -> Option<Place> {
        // A client without a call gets one all the same: it may share its address with others.
        let of_address = match client.address() {
            Some(address) if self.calls.holds(client) => Some(self.addresses.take(address.ip())?),
            _ => None,
        };
        let of_client = self.calls.try_reserve(client, 1).ok()?;
        Some(Place { _of_client: of_client, _of_address: of_address })
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
        let Some(place) = self.budget.take(client) else {
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
