//! Encoding `dict`: codes into a dictionary.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
