//! How do report messages reach us undecoded, and encoded messages leave as they are?
//!
//! One codec hands the bytes of a request over as they are, so that a malformed message is answered
//! in its own acknowledgement and its rows go straight into columns. The other sends responses
//! that were encoded before, once, and are kept so.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

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

/// Sends messages that are encoded already; `D` is the request.
pub(super) struct EncodedCodec<D>(PhantomData<D>);

impl<D> EncodedCodec<D> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<D: Message + Default + Send + 'static> Codec for EncodedCodec<D> {
    type Encode = Bytes;
    type Decode = D;
    type Encoder = EncodedEncoder;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        EncodedEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::default())
    }
}

/// Copies the message into the transport's buffer.
pub(super) struct EncodedEncoder;

impl Encoder for EncodedEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}
