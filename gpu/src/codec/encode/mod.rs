//! Encoding of columns and blocks.
//!
//! A tree becomes programs of steps that one launch runs for every tile; work on whole columns
//! (dictionaries, common divisors, grouped order) runs between programs.

mod block;
mod column;
mod device_batch;
mod dictionary;
mod error;
mod huffman;
mod order;
mod program;
mod resident;
mod source;
mod statistics;
mod strings;
mod table;
#[cfg(test)]
mod tests;
mod worker;

pub use block::Encoder;
pub use error::EncodeError;
pub use resident::{DeviceColumn, Encoded};
