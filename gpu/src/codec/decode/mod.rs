//! Decoding: the host compiles plans to lists of steps, the kernels run them tile by tile.

mod decoder;
mod decoding;
mod runs;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use decoder::of_block;
pub use decoder::{DecodeError, Decoder, EncodedColumn};
pub(crate) use decoding::{Class, Decoding, Form, List, OutputRequest, Place};
