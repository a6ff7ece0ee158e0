//! A client that sends arbitrary bytes as report messages.

use bytes::Bytes;
use shoal_proto::raw::RawResponseCodec;
use shoal_proto::v1::{ReportAck, ReportResponse};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::running::{collect, within};

/// Sends raw messages on one stream, closes it, and returns all acknowledgements.
pub(crate) async fn report_raw(
    channel: Channel,
    messages: Vec<Bytes>,
) -> Result<Vec<ReportAck>, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shoal.v1.PositionService/Report");
    let messages = Request::new(tokio_stream::iter(messages));
    let codec = RawResponseCodec::<ReportResponse>::default();
    let stream = within(grpc.streaming(messages, path, codec)).await?.into_inner();
    let responses = within(collect(stream)).await?;
    Ok(responses.into_iter().map(|response| response.ack.unwrap()).collect())
}
