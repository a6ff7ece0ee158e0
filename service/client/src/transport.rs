//! The channel of a connection, which adds the token to each call.

use std::task::{Context, Poll};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::Channel;

use crate::secret::Secret;

/// What the generated clients send their calls through.
#[derive(Clone, Debug)]
pub struct Transport {
    channel: Channel,
    authorization: Option<HeaderValue>,
}

impl Transport {
    /// Calls of a channel, with a token or without.
    #[must_use]
    pub fn new(channel: Channel, token: Option<&Secret>) -> Self {
        Self { channel, authorization: token.and_then(Secret::header) }
    }
}

impl Service<http::Request<Body>> for Transport {
    type Response = <Channel as Service<http::Request<Body>>>::Response;
    type Error = <Channel as Service<http::Request<Body>>>::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.channel.call(request)
    }
}
