//! Encoding `keyed_delta`: differences along each key.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
