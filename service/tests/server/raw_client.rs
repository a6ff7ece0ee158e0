//! A client that sends arbitrary bytes as report messages.

use bytes::{Buf, BufMut, Bytes};
use prost::Message as _;
use shoal_proto::v1::{ReportAck, ReportResponse};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

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

/// Sends raw messages on one stream, closes it, and returns all acknowledgements.
pub(crate) async fn report_raw(
    channel: Channel,
    messages: Vec<Bytes>,
) -> Result<Vec<ReportAck>, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shoal.v1.PositionService/Report");
    let messages = Request::new(tokio_stream::iter(messages));
    let stream = within(grpc.streaming(messages, path, BytesCodec)).await?.into_inner();
    let responses = within(collect(stream)).await?;
    Ok(responses.into_iter().map(|response| response.ack.unwrap()).collect())
}
