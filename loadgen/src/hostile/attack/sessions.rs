//! An attack by a session that follows everything many times.

use std::sync::Arc;

use bytes::Bytes;
use shoal_client::Client;
use shoal_proto::raw::RawResponseCodec;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use super::queries::ended_early;
use super::target::Target;
use crate::limits::ANSWER_BYTES_MAX;

/// A session follows all movements in many regions that are the whole world; every message counts
/// as answered. A session that the server ends is opened again.
pub async fn wide_regions(target: Arc<Target>, request: Bytes) {
    let client = target.connect().await;
    loop {
        let ended = subscribe(&target, &client, request.clone()).await;
        target.failed(ended.err().unwrap_or_else(ended_early)).await;
    }
}

async fn subscribe(target: &Target, client: &Client, request: Bytes) -> Result<(), Status> {
    let path = PathAndQuery::from_static("/shoal.v1.SubscriptionService/Subscribe");
    // A response is decoded as `()`, the empty message, which skips all of its fields.
    let codec = RawResponseCodec::<()>::default();
    let mut grpc = Grpc::new(client.channel()).max_decoding_message_size(ANSWER_BYTES_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let opened = grpc.server_streaming(Request::new(request), path, codec).await?;
    let mut messages = opened.into_inner();
    while messages.message().await?.is_some() {
        target.answered(1);
    }
    Ok(())
}
