//! Encoding `delta2`: differences of differences within a tile.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
