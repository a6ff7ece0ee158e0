//! The messages and services of `shoal.v1`.
//!
//! Generated at build time from `proto/`, whose comments are the manual; generated code is not
//! committed. A golden test pins every published field number, name and type.

pub mod raw;

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

/// Field numbers, for code that reads or writes a message without its generated type: a module for
/// each message, a constant for each field.
pub mod fields {
    include!(concat!(env!("OUT_DIR"), "/fields.rs"));
}

/// The file descriptor set of all protos, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
