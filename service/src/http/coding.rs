//! Compressed answers (RFC 9110, section 8.4), with the coding `gzip`: encoders of others take much
//! more memory for each answer in progress.

use http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate};

/// Extension of a response whose parts arrive at times that matter: it is not encoded, since an
/// encoder holds parts back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed;

/// A layer that encodes the bodies of answers to clients that accept it, but for events, calls of
/// gRPC-Web, pictures, and [`Timed`] answers.
pub(super) fn encode() -> CompressionLayer<impl Predicate> {
    let is_coded = |_: StatusCode, _: Version, _: &HeaderMap, extensions: &Extensions| {
        extensions.get::<Timed>().is_none()
    };
    CompressionLayer::new()
        .gzip(true)
        .quality(CompressionLevel::Fastest)
        .compress_when(DefaultPredicate::new().and(is_coded))
}
