//! Encoding `patch`: a few exceptions apart.

pub(crate) mod decode;
pub(crate) mod encode;
mod high_bits;
pub(crate) mod spec;
