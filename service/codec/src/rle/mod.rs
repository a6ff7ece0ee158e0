//! Encoding `rle`: runs of equal values.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
