//! Which call of `PositionService` goes where?
//!
//! Written by hand as the generator writes it, because two calls take their messages undecoded
//! (`raw_codec.rs`). Each call has its own file.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use shoal_proto::v1::{RemoveRequest, RemoveResponse, ReportOnceResponse, ReportResponse};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Service;

use super::ack_log::AckStream;
use super::door::Door;
use super::raw_codec::RawCodec;
use super::{BoxFuture, no_call, remove, report, report_once};
use crate::limits::{MESSAGE_BYTES_MAX, SMALL_MESSAGE_BYTES_MAX};

/// `shoal.v1.PositionService`.
#[derive(Clone, Debug)]
pub struct PositionServer(Arc<Door>);

impl PositionServer {
    /// The service at a door.
    #[must_use]
    pub fn new(door: Arc<Door>) -> Self {
        Self(door)
    }
}

impl NamedService for PositionServer {
    const NAME: &'static str = "shoal.v1.PositionService";
}

impl Service<http::Request<Body>> for PositionServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let door = self.0.clone();
        let large = Some(MESSAGE_BYTES_MAX);
        let small = Some(SMALL_MESSAGE_BYTES_MAX);
        match request.uri().path() {
            "/shoal.v1.PositionService/Report" => Box::pin(async move {
                let mut grpc =
                    Grpc::new(RawCodec::new()).apply_max_message_size_config(large, None);
                Ok(grpc.streaming(Report(door), request).await)
            }),
            "/shoal.v1.PositionService/ReportOnce" => Box::pin(async move {
                let mut grpc =
                    Grpc::new(RawCodec::new()).apply_max_message_size_config(large, None);
                Ok(grpc.unary(ReportOnce(door), request).await)
            }),
            "/shoal.v1.PositionService/Remove" => Box::pin(async move {
                let codec = ProstCodec::<RemoveResponse, RemoveRequest>::default();
                let mut grpc = Grpc::new(codec).apply_max_message_size_config(small, None);
                Ok(grpc.unary(Remove(door), request).await)
            }),
            path => no_call(path),
        }
    }
}

struct Report(Arc<Door>);

impl StreamingService<Bytes> for Report {
    type Response = ReportResponse;
    type ResponseStream = AckStream;
    type Future = BoxFuture<Response<AckStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let door = self.0.clone();
        Box::pin(async move { report::report(&door, request) })
    }
}

struct ReportOnce(Arc<Door>);

impl UnaryService<Bytes> for ReportOnce {
    type Response = ReportOnceResponse;
    type Future = BoxFuture<Response<ReportOnceResponse>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let door = self.0.clone();
        Box::pin(async move { report_once::report_once(&door, request).await })
    }
}

struct Remove(Arc<Door>);

impl UnaryService<RemoveRequest> for Remove {
    type Response = RemoveResponse;
    type Future = BoxFuture<Response<RemoveResponse>, Status>;

    fn call(&mut self, request: Request<RemoveRequest>) -> Self::Future {
        let door = self.0.clone();
        Box::pin(async move { remove::remove(&door, request).await })
    }
}
