//! Encoding `const`: one value everywhere.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
