//! Attacks by queries: as many queries as the transport accepts, and calls whose deadline passes.
//!
//! Answers are read, but their rows are not decoded.

use std::sync::Arc;

use bytes::Bytes;
use shoal_client::Client;
use shoal_proto::raw::RawResponseCodec;
use tokio::time::Duration;
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use super::target::{Target, together};
use crate::error::status_text;
use crate::limits::ANSWER_BYTES_MAX;

/// Path of Batch.
const BATCH_PATH: &str = "/shoal.v1.QueryService/Batch";
/// Path of CountRegions.
pub const COUNT_REGIONS_PATH: &str = "/shoal.v1.QueryService/CountRegions";
/// Path of Passed.
pub const PASSED_PATH: &str = "/shoal.v1.HistoryService/Passed";
/// Path of Density.
pub const DENSITY_PATH: &str = "/shoal.v1.HistoryService/Density";
/// The deadline of CountRegions with very many edges.
pub const COUNT_DEADLINE: Duration = Duration::from_secs(8);
/// Path of Subscribe.
pub const SUBSCRIBE_PATH: &str = "/shoal.v1.SubscriptionService/Subscribe";
/// Connections of an attack, with one stream each.
const CONNECTIONS: usize = 8;
/// The deadline of calls that cannot meet it.
const DEADLINE: Duration = Duration::from_secs(1);

/// The decoded fields of a `BatchResponse`; rows are skipped.
#[derive(Clone, PartialEq, prost::Message)]
struct AnswerEnd {
    #[prost(message, repeated, tag = "3")]
    results: Vec<ResultEnd>,
    #[prost(bool, tag = "4")]
    last: bool,
    #[prost(message, optional, tag = "5")]
    error: Option<tonic_types::Status>,
}

/// The decoded fields of a `BatchResult`.
#[derive(Clone, PartialEq, prost::Message)]
struct ResultEnd {
    #[prost(message, optional, tag = "7")]
    error: Option<tonic_types::Status>,
}

impl AnswerEnd {
    /// Why the message, or a query of it, failed.
    fn refusal(&self) -> Option<String> {
        let failed = self.results.iter().find_map(|result| result.error.as_ref());
        self.error.as_ref().or(failed).map(|status| status_text(Some(status)))
    }
}

/// 8 connections with a Batch stream each send a message back to back: as fast as the server takes
/// it, whether or not earlier ones are answered.
pub async fn back_to_back(target: Arc<Target>, message: Bytes) {
    together(CONNECTIONS, || back_to_back_on_one(Arc::clone(&target), message.clone())).await;
}

async fn back_to_back_on_one(target: Arc<Target>, message: Bytes) {
    let client = target.connect().await;
    loop {
        let messages = tokio_stream::iter(std::iter::repeat(message.clone()));
        let ended = batch(&target, &client, Request::new(messages)).await;
        target.failed(ended.err().unwrap_or_else(ended_early)).await;
    }
}

/// 8 connections call methods with messages in turn, again and again, with this deadline.
pub async fn calls(
    target: Arc<Target>,
    calls: Vec<(&'static str, Bytes)>,
    deadline: Option<Duration>,
) {
    together(CONNECTIONS, || calls_on_one(Arc::clone(&target), calls.clone(), deadline)).await;
}

async fn calls_on_one(
    target: Arc<Target>,
    calls: Vec<(&'static str, Bytes)>,
    deadline: Option<Duration>,
) {
    let client = target.connect().await;
    for (path, message) in calls.iter().cycle() {
        let mut request = Request::new(message.clone());
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        match call(&client, path, request).await {
            Ok(()) => target.answered(1),
            Err(status) => target.failed(status).await,
        }
    }
}

/// Calls a method and reads its answer.
async fn call(client: &Client, path: &'static str, request: Request<Bytes>) -> Result<(), Status> {
    // An answer is decoded as `()`, the empty message, which skips all of its fields.
    let codec = RawResponseCodec::<()>::default();
    let mut grpc = Grpc::new(client.channel()).max_decoding_message_size(ANSWER_BYTES_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static(path);
    let mut answers = grpc.server_streaming(request, path, codec).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

/// 8 connections call Batch with a message and a deadline that it cannot meet, again and again.
pub async fn deadlines(target: Arc<Target>, message: Bytes) {
    together(CONNECTIONS, || deadlines_on_one(Arc::clone(&target), message.clone())).await;
}

async fn deadlines_on_one(target: Arc<Target>, message: Bytes) {
    let client = target.connect().await;
    loop {
        let mut request = Request::new(tokio_stream::once(message.clone()));
        request.set_timeout(DEADLINE);
        if let Err(status) = batch(&target, &client, request).await {
            target.failed(status).await;
        }
    }
}

/// Calls Batch and counts the answers to its messages.
async fn batch(
    target: &Target,
    client: &Client,
    request: Request<impl Stream<Item = Bytes> + Send + 'static>,
) -> Result<(), Status> {
    let path = PathAndQuery::from_static(BATCH_PATH);
    let codec = RawResponseCodec::<AnswerEnd>::default();
    let mut grpc = Grpc::new(client.channel()).max_decoding_message_size(ANSWER_BYTES_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
    let mut refusal = None;
    while let Some(answer) = answers.message().await? {
        refusal = refusal.or_else(|| answer.refusal());
        if answer.last || answer.error.is_some() {
            match refusal.take() {
                None => target.answered(1),
                Some(cause) => target.refused(1, || cause),
            }
        }
    }
    Ok(())
}

/// The status of a stream that the server ended without one.
pub(super) fn ended_early() -> Status {
    Status::unknown("the server ended the stream")
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use shoal_client::v1::{BatchResponse, BatchResult};

    use super::*;

    #[test]
    fn ends_and_errors_are_read_without_the_rows() {
        let error = tonic_types::Status { code: 8, message: "busy".to_owned(), details: vec![] };
        let result = BatchResult { objects: vec![1; 9], total: 9, ..BatchResult::default() };
        let answer = BatchResponse { message: 3, results: vec![result], ..Default::default() };
        let read =
            |answer: &BatchResponse| AnswerEnd::decode(answer.encode_to_vec().as_slice()).unwrap();
        assert!(!read(&answer).last && read(&answer).refusal().is_none());
        let mut failed = BatchResponse { last: true, ..answer.clone() };
        failed.results[0].error = Some(error.clone());
        assert!(read(&failed).last && read(&failed).refusal().unwrap().contains("busy"));
        let failed = BatchResponse { error: Some(error), ..answer };
        assert!(read(&failed).refusal().unwrap().contains("busy"));
    }
}
