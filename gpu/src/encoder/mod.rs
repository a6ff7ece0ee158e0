//! How are columns encoded on the device, to the bytes that the CPU encoder writes?
//!
//! A tree becomes programs of steps that one launch runs for every tile; what needs a whole column
//! (dictionaries, common divisors, grouped order) happens between programs.

mod block;
mod column;
mod dictionary;
mod error;
mod order;
mod planning;
mod program;
mod resident;
mod source;
mod statistics;
#[cfg(test)]
mod tests;
mod worker;

pub use block::Encoder;
pub use error::EncodeError;
pub use resident::{DeviceColumn, Encoded};
