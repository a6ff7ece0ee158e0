//! The layer that checks every call before its handler runs: calls over gRPC, and HTTP calls that
//! are translated to it.
//!
//! It answers refused calls itself. It adds a [`Call`] to every admitted request, removes the token
//! from its headers, and ends the answer when the token expires or is withdrawn.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use super::access::Access;
use super::call::Call;
use super::limited_body::{Ended, LimitedBody};
use super::peer::Peer;

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
        let call = match self.access.admit(request.uri().path(), request.headers(), &peer) {
            Ok(call) => call,
            Err(error) => return Box::pin(std::future::ready(Ok(Status::from(error).into_http()))),
        };
        request.headers_mut().remove(AUTHORIZATION);
        let ended = ended(&call);
        let (account, has_stream) = (call.account().cloned(), call.method.has_stream);
        request.extensions_mut().insert(call);
        let response = self.inner.call(request);
        let Some(mut ended) = ended else { return Box::pin(response) };
        Box::pin(async move {
            tokio::select! {
                biased;
                reason = &mut ended => Ok(Status::from(reason).into_http()),
                response = response => {
                    let ended = has_stream.then_some(ended);
                    Ok(response?.map(|body| Body::new(LimitedBody::new(body, ended, account))))
                }
            }
        })
    }
}

/// A future that completes when the call's token ends, and then records that in the audit log;
/// `None` if the token cannot end.
fn ended(call: &Call) -> Option<Ended> {
    let call = call.clone();
    Access::may_end(&call.caller).then(|| -> Ended {
        Box::pin(async move {
            let reason = call.ended().await;
            call.refused(None, reason)
        })
    })
}
