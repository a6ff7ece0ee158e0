//! A gRPC codec for encoded requests: encoding is one copy into tonic's buffer. It updates base
//! time and sequence of a prepared block in place. prost decodes acks.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut as _, Bytes};
use shoal_codec::rewrite_prepared;
use shoal_proto::v1::ReportResponse;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

/// The path of `PositionService.Report`.
pub const REPORT_PATH: &str = "/shoal.v1.PositionService/Report";

/// First size of tonic's buffer, in bytes; it grows to the size of a message.
const BUFFER_BYTES: usize = 64 << 10;

/// An encoded `ReportRequest`.
#[derive(Debug)]
pub enum ReportMessage {
    /// The complete message.
    Whole(Bytes),
    /// The head of a message and its block.
    Block {
        /// Everything before the block.
        head: Bytes,
        /// The block.
        block: Bytes,
    },
    /// The head and a prepared block, which is rewritten on sending.
    Prepared {
        /// Everything before the block.
        head: Bytes,
        /// The block; used by one connection, so the lock is uncontended.
        block: Arc<Mutex<Vec<u8>>>,
        /// New base time, Unix milliseconds.
        base_time_ms: i64,
        /// New sequence number.
        sequence: u64,
    },
}

/// Encodes [`ReportMessage`], decodes `ReportResponse`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportCodec;

impl Codec for ReportCodec {
    type Encode = ReportMessage;
    type Decode = ReportResponse;
    type Encoder = ReportEncoder;
    type Decoder = ProstDecoder<ReportResponse>;

    fn encoder(&mut self) -> Self::Encoder {
        ReportEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::default())
    }
}

/// Copies messages into the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportEncoder;

impl Encoder for ReportEncoder {
    type Item = ReportMessage;
    type Error = Status;

    fn encode(&mut self, item: ReportMessage, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        match item {
            ReportMessage::Whole(bytes) => {
                out.reserve(bytes.len());
                out.put_slice(&bytes);
            }
            ReportMessage::Block { head, block } => {
                out.reserve(head.len() + block.len());
                out.put_slice(&head);
                out.put_slice(&block);
            }
            ReportMessage::Prepared { head, block, base_time_ms, sequence } => {
                let mut block = block.lock().unwrap_or_else(PoisonError::into_inner);
                rewrite_prepared(&mut block, base_time_ms, sequence)
                    .map_err(|error| Status::internal(error.to_string()))?;
                out.reserve(head.len() + block.len());
                out.put_slice(&head);
                out.put_slice(&block);
            }
        }
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, BUFFER_BYTES)
    }
}
