//! Encoding `afl`: the smallest width for each group of 32 values.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
