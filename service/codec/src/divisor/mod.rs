//! Encoding `divisor`: quotients by a divisor that all values share.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod spec;
