//! Encoding `gfc`: floats as differences from 32 values before, in whole bytes.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
