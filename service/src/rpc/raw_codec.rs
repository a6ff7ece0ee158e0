//! How do report messages reach us undecoded?
//!
//! A codec that hands the bytes of a request over as they are, so that a malformed message is
//! answered in its own acknowledgement and its rows go straight into columns. Responses are
//! encoded as ever.

use std::marker::PhantomData;

use bytes::{Buf, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// See the file's head; `E` is the response.
pub(super) struct RawCodec<E>(PhantomData<E>);

impl<E> RawCodec<E> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<E: Message + Send + 'static> Codec for RawCodec<E> {
    type Encode = E;
    type Decode = Bytes;
    type Encoder = ProstEncoder<E>;
    type Decoder = RawDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        RawDecoder
    }
}

/// Splits the message off the buffer, without a copy.
pub(super) struct RawDecoder;

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
