//! The layer that checks every call before its handler runs: calls over gRPC, and HTTP calls that
//! are translated to it.
//!
//! It answers refused calls itself. It adds a [`Call`] to every admitted request, removes the token
//! from its headers, and ends the answer when the token expires or is withdrawn.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::access::Access;
use super::call::InProcess;
use super::limited_body::LimitedBody;
use super::peer::Peer;
use crate::error::ServiceError;

/// See the file's head.
#[derive(Clone, Debug)]
pub struct AccessLayer(Access);

impl AccessLayer {
    /// A layer that admits the calls that `access` allows.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self(access)
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, access: self.0.clone() }
    }
}

/// A service whose calls the layer checks first.
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    inner: S,
    access: Access,
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<http::Response<Body>, E>> + Send>>;

impl<S, B> Service<http::Request<B>> for Guarded<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Answer<S::Error> {
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let generation = self.access.generation();
        let mut call = match self.access.admit(request.uri().path(), request.headers(), &peer) {
            Ok(call) => call,
            Err(error) => return Box::pin(std::future::ready(Ok(Status::from(error).into_http()))),
        };
        call.is_in_process = request.extensions().get::<InProcess>().is_some();
        request.headers_mut().remove(AUTHORIZATION);
        let account = call.account().cloned();
        let is_in_process = call.is_in_process;
        let open = self.access.open_call(&call, generation);
        request.extensions_mut().insert(call);
        let response = self.inner.call(request);
        let Some(open) = open else { return Box::pin(response) };
        Box::pin(async move {
            let mut response = pin!(response);
            let answered = poll_fn(|context| match open.poll_end(context) {
                Poll::Ready(reason) => Poll::Ready(Err(reason)),
                Poll::Pending => response.as_mut().poll(context).map(Ok),
            });
            match answered.await {
                Ok(response) => {
                    let mut response = response?;
                    if let (true, Some(account)) = (is_in_process, &account) {
                        response.extensions_mut().insert(account.clone());
                    }
                    Ok(response.map(|body| Body::new(LimitedBody::new(body, open, account))))
                }
                Err(reason) => {
                    // The reason is taken once: this future is complete then.
                    let reason = reason.unwrap_or(ServiceError::ShuttingDown);
                    Ok(Status::from(reason).into_http())
                }
            }
        })
    }
}
