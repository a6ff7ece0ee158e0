//! An attack by a session that follows everything many times.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use shoal_client::v1::{ModifyRequest, RegionSubscription, SubscribeRequest};
use shoal_client::{Client, duration};
use shoal_proto::raw::RawResponseCodec;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use super::queries::{SUBSCRIBE_PATH, ended_early};
use super::target::Target;
use crate::limits::ANSWER_BYTES_MAX;

/// The decoded fields of a `SubscribeResponse`; all others are skipped.
#[derive(Clone, PartialEq, prost::Message)]
struct SessionMessage {
    #[prost(message, optional, tag = "5")]
    opened: Option<Opened>,
}

/// The decoded field of a `SessionOpened`.
#[derive(Clone, PartialEq, prost::Message)]
struct Opened {
    #[prost(bytes = "bytes", tag = "1")]
    session: Bytes,
}

/// A session follows all movements in many regions that are the whole world, which are added list
/// by list; every message counts as answered. A session that the server ends is opened again.
pub async fn wide_regions(
    target: Arc<Target>,
    fleet: String,
    regions: Vec<Vec<RegionSubscription>>,
) {
    let client = target.connect().await;
    let Some((first, more)) = regions.split_first() else { return };
    let request = SubscribeRequest {
        fleet: fleet.clone(),
        regions: first.clone(),
        // The session ends with the attack.
        retention: Some(duration::from_millis(0)),
        ..SubscribeRequest::default()
    };
    let request = Bytes::from(request.encode_to_vec());
    loop {
        let ended = follow(&target, &client, request.clone(), (&fleet, more)).await;
        target.failed(ended.err().unwrap_or_else(ended_early)).await;
    }
}

async fn follow(
    target: &Target,
    client: &Client,
    request: Bytes,
    (fleet, more): (&str, &[Vec<RegionSubscription>]),
) -> Result<(), Status> {
    let path = PathAndQuery::from_static(SUBSCRIBE_PATH);
    let codec = RawResponseCodec::<SessionMessage>::default();
    let mut grpc = Grpc::new(client.channel()).max_decoding_message_size(ANSWER_BYTES_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let opened = grpc.server_streaming(Request::new(request), path, codec).await?;
    let mut messages = opened.into_inner();
    while let Some(message) = messages.message().await? {
        target.answered(1);
        let Some(Opened { session }) = message.opened else { continue };
        for add in more {
            let (fleet, session, add) = (fleet.to_owned(), session.to_vec(), add.clone());
            let request = ModifyRequest { fleet, session, add, ..Default::default() };
            // The session goes on with the regions that the server takes.
            if let Err(status) = client.subscription_service().modify(request).await {
                target.failed(status).await;
            }
        }
    }
    Ok(())
}
