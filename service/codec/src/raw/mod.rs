//! Plan `raw`: fixed-width values as they are. Specification, writer, reader.

pub(crate) mod decode;
pub(crate) mod encode;
pub mod spec;
