//! The channel of a connection, which adds token and replication secret to each call.

use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::Channel;

use crate::secret::Secret;

/// The header with the secret that servers and operators share.
const REPLICATION_SECRET: HeaderName = HeaderName::from_static("shoal-replication-secret");

/// gRPC service of the generated clients.
#[derive(Clone, Debug)]
pub struct Transport {
    channel: Channel,
    authorization: Option<HeaderValue>,
    replication_secret: Option<HeaderValue>,
}

impl Transport {
    /// Wraps a channel; adds the token and the replication secret, if present, to each call.
    #[must_use]
    pub fn new(
        channel: Channel,
        token: Option<&Secret>,
        replication_secret: Option<&Secret>,
    ) -> Self {
        Self {
            channel,
            authorization: token.and_then(Secret::bearer),
            replication_secret: replication_secret.and_then(Secret::header),
        }
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
        if let Some(secret) = &self.replication_secret {
            request.headers_mut().insert(REPLICATION_SECRET, secret.clone());
        }
        self.channel.call(request)
    }
}
