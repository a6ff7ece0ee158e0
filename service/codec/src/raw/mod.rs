//! Plan `raw`: fixed-width values as they are. Specification, writer, reader.

pub mod spec;
