//! Encoding `keyed_delta2`: differences of differences along each key.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
