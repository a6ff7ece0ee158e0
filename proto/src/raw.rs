//! Codecs for server methods whose requests or responses are encoded messages.
//!
//! The request of `Report` and `ReportOnce` is handed over as bytes, so that a malformed message is
//! answered in its own acknowledgement and its rows are read straight into columns. The response of
//! `Subscribe` is given as bytes, since sessions number and encode their messages themselves.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated; the comments in proto/ are the documentation"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/shoal.v1.PositionService.rs"));
    include!(concat!(env!("OUT_DIR"), "/shoal.v1.SubscriptionService.rs"));
}

pub use generated::{position_service_server, subscription_service_server};

/// Passes requests as bytes; encodes responses of type `E`.
#[derive(Debug)]
pub struct RawRequestCodec<E>(PhantomData<E>);

/// Passes responses as bytes; decodes requests of type `D`.
#[derive(Debug)]
pub struct RawResponseCodec<D>(PhantomData<D>);

/// Either end of a raw message.
#[derive(Clone, Copy, Debug)]
pub struct Raw;

/// The client of a stream that is idle most of the time: its buffers are small.
#[derive(Debug)]
pub struct IdleStreamCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for IdleStreamCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for IdleStreamCodec<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(small_buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(small_buffers())
    }
}

/// Buffers of 1 KiB that grow as needed, and are sent when they have 32 KiB.
fn small_buffers() -> BufferSettings {
    BufferSettings::new(1 << 10, 32 << 10)
}

impl<E> Default for RawRequestCodec<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D> Default for RawResponseCodec<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Message + Send + 'static> Codec for RawRequestCodec<E> {
    type Encode = E;
    type Decode = Bytes;
    type Encoder = ProstEncoder<E>;
    type Decoder = Raw;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl<D: Message + Default + Send + 'static> Codec for RawResponseCodec<D> {
    type Encode = Bytes;
    type Decode = D;
    type Encoder = Raw;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::default())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    /// Splits the message off the buffer, without a copy.
    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    /// A stream of events has a small buffer, since it is idle most of the time. It grows to the
    /// length of a message at once.
    fn buffer_settings(&self) -> BufferSettings {
        small_buffers()
    }

    /// Copies the message into the buffer of the transport.
    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}
