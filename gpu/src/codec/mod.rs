//! The codec of blocks, tables and columns on the device: `decode` and `encode`, byte for byte as
//! on the CPU. The kernels of both are in `gpu/kernels/codec`.

mod decode;
mod encode;

pub(crate) use decode::{Class, Decoding, Form, List, OutputRequest, Place, of_block};
pub use decode::{DecodeError, Decoder, EncodedColumn};
pub use encode::{DeviceColumn, EncodeError, Encoded, Encoder};

/// Code of the step that decodes or encodes a node.
pub(crate) const fn code(encoding: shoal_codec::Encoding) -> u32 {
    encoding.id() as u32
}
