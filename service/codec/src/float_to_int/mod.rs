//! Encoding `float_to_int`: decimal floats as integers.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
