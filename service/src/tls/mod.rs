//! TLS of listeners: certificates that are read again when they change, and bounded handshakes.

mod certificates;
mod handshakes;
mod secured;

pub use certificates::{Certificates, TlsOptions};
pub(crate) use handshakes::{Handshakes, accept};
pub(crate) use secured::Secured;
