//! The conformance suite on the backends that need no device.

mod cpu;
mod model;
