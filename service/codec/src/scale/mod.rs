//! Encoding `scale`: distances from the least value of a tile.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
