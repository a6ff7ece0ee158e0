//! Hands a large message to its call beside the decoder.
//!
//! A decoder keeps the buffer of its largest message as long as its stream is open, where nothing
//! can charge it. So the body of a call assembles a large message itself and gives the decoder an
//! empty one in its place. The decoder asks for more only when it has decoded all that it has, so
//! the message that waits here belongs to the one that was just decoded.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Extensions;

use super::message_shape::METHODS;
use crate::limits::{MESSAGE_BYTES_MAX, SMALL_MESSAGE_BYTES_MAX};

/// The place of the message, an extension of its request.
#[derive(Clone, Debug, Default)]
pub(super) struct LargeMessage(Arc<Mutex<Option<Bytes>>>);

impl LargeMessage {
    /// The place in a request's extensions.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The message in whose place an empty one was decoded.
    pub(super) fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn put(&self, message: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
    }
}

/// How a call reads its messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallKind {
    /// Length of the messages that it takes from [`LargeMessage`]. The decoder of other calls ends
    /// with their only message, or refuses large ones.
    pub(super) handed_bytes_max: usize,
    /// Its client sends messages as long as it likes.
    pub(super) is_stream: bool,
}

impl CallKind {
    /// The way of reading for the call with this path.
    pub(super) fn of(path: &str) -> Self {
        let (handed_bytes_max, is_stream) = match path {
            "/shoal.v1.PositionService/Report" => (MESSAGE_BYTES_MAX, true),
            "/shoal.v1.PositionService/ReportOnce" => (MESSAGE_BYTES_MAX, false),
            "/shoal.v1.QueryService/Batch" => (SMALL_MESSAGE_BYTES_MAX, true),
            path if METHODS.contains(&path) => (SMALL_MESSAGE_BYTES_MAX, false),
            "/shoal.v1.LogService/Follow"
            | "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => (0, true),
            _ => (0, false),
        };
        Self { handed_bytes_max, is_stream }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn calls_whose_clients_stream_are_known() {
        let descriptors = FileDescriptorSet::decode(shoal_proto::DESCRIPTORS).unwrap();
        let mut streams = 0;
        for service in descriptors.file.iter().flat_map(|file| &file.service) {
            for method in &service.method {
                let path = format!("/shoal.v1.{}/{}", service.name(), method.name());
                assert_eq!(CallKind::of(&path).is_stream, method.client_streaming(), "{path}");
                streams += usize::from(method.client_streaming());
            }
        }
        assert_eq!(streams, 3);
    }
}
