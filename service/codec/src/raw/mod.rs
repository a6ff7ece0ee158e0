//! Encoding `raw`: fixed-width values as they are.
//!
//! Specification, writer and reader, one file each, as every encoding has them.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
