//! Encoding `delta`: differences within a tile.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
