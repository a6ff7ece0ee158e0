//! What goes over the wire? The messages and services of `shoal.v1`.
//!
//! Generated at build time from `proto/`, whose comments are the manual; nothing generated is
//! committed. A golden test holds every published field number, name and type.

/// Messages, clients and servers of package `shoal.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated; the comments in proto/ are the documentation"
)]
pub mod v1 {
    tonic::include_proto!("shoal.v1");
}

/// The file descriptor set of all protos, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
