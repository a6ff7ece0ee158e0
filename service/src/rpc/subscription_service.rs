//! Which call of `SubscriptionService` goes where?
//!
//! Written by hand as the generator writes it, because messages of a session are encoded when its
//! events come and not when they are read. Each call has its own file.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use shoal_proto::v1::{ModifyRequest, ModifyResponse, SubscribeRequest};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use super::door::Door;
use super::raw_codec::EncodedCodec;
use super::session_stream::SessionStream;
use super::{BoxFuture, modify, no_call, subscribe};
use crate::limits::SMALL_MESSAGE_BYTES_MAX;

/// `shoal.v1.SubscriptionService`.
#[derive(Clone, Debug)]
pub struct SubscriptionServer(Arc<Door>);

impl SubscriptionServer {
    /// The service at a door.
    #[must_use]
    pub fn new(door: Arc<Door>) -> Self {
        Self(door)
    }
}

impl NamedService for SubscriptionServer {
    const NAME: &'static str = "shoal.v1.SubscriptionService";
}

impl Service<http::Request<Body>> for SubscriptionServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let door = self.0.clone();
        let small = Some(SMALL_MESSAGE_BYTES_MAX);
        match request.uri().path() {
            "/shoal.v1.SubscriptionService/Subscribe" => Box::pin(async move {
                let mut grpc =
                    Grpc::new(EncodedCodec::new()).apply_max_message_size_config(small, None);
                Ok(grpc.server_streaming(Subscribe(door), request).await)
            }),
            "/shoal.v1.SubscriptionService/Modify" => Box::pin(async move {
                let codec = ProstCodec::<ModifyResponse, ModifyRequest>::default();
                let mut grpc = Grpc::new(codec).apply_max_message_size_config(small, None);
                Ok(grpc.unary(Modify(door), request).await)
            }),
            path => no_call(path),
        }
    }
}

struct Subscribe(Arc<Door>);

impl ServerStreamingService<SubscribeRequest> for Subscribe {
    type Response = Bytes;
    type ResponseStream = SessionStream;
    type Future = BoxFuture<Response<SessionStream>, Status>;

    fn call(&mut self, request: Request<SubscribeRequest>) -> Self::Future {
        let door = self.0.clone();
        Box::pin(async move { Ok(subscribe::subscribe(&door, request).await?) })
    }
}

struct Modify(Arc<Door>);

impl UnaryService<ModifyRequest> for Modify {
    type Response = ModifyResponse;
    type Future = BoxFuture<Response<ModifyResponse>, Status>;

    fn call(&mut self, request: Request<ModifyRequest>) -> Self::Future {
        let door = self.0.clone();
        Box::pin(async move { Ok(modify::modify(&door, request).await?) })
    }
}
