//! Passes a large message to its call without the decoder.
//!
//! A decoder keeps the buffer of its largest message, uncharged, as long as its stream is open. So
//! the body of a call assembles a large message itself and passes an empty one to the decoder in
//! its place. The decoder reads more only after it has decoded everything, so the message stored
//! here is the one for which an empty message was just decoded.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Extensions;

use super::message_shape::METHODS;
use crate::limits::{MESSAGE_BYTES_MAX, SMALL_MESSAGE_BYTES_MAX};

/// Holds the large message; it is an extension of the request.
#[derive(Clone, Debug, Default)]
pub(super) struct LargeMessage(Arc<Mutex<Option<Bytes>>>);

impl LargeMessage {
    /// Returns the holder in a request's extensions, or a new one if they have none.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Takes the message for which an empty one was decoded; `None` if the decoded message is the
    /// message itself.
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
    /// Greatest length of the messages that the call takes from [`LargeMessage`]; 0 for a call
    /// whose decoder receives all messages.
    pub(super) handed_bytes_max: usize,
    /// True if the client sends a stream of messages.
    pub(super) is_stream: bool,
}

impl CallKind {
    /// Returns the kind of the call with this path.
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
