//! A client that sends whatever bytes it likes as report messages.

use bytes::{Buf, BufMut, Bytes};
use prost::Message as _;
use shoal_proto::v1::{ReportAck, ReportResponse};
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::running::{collect, within};

struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = ReportResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = ReportResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<ReportResponse>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(ReportResponse::decode(bytes).unwrap()))
    }
}

/// Opens a report stream of raw messages.
pub(crate) async fn open(
    channel: Channel,
    messages: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Streaming<ReportResponse>, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shoal.v1.PositionService/Report");
    Ok(grpc.streaming(Request::new(messages), path, BytesCodec).await?.into_inner())
}

/// Sends raw messages on one stream, ends it, and takes all acknowledgements.
pub(crate) async fn report_raw(
    channel: Channel,
    messages: Vec<Bytes>,
) -> Result<Vec<ReportAck>, Status> {
    let stream = within(open(channel, tokio_stream::iter(messages))).await?;
    let responses = within(collect(stream)).await?;
    Ok(responses.into_iter().map(|response| response.ack.unwrap()).collect())
}
