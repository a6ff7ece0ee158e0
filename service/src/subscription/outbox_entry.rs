//! The entries of an outbox, and the messages that a reader takes from them.
//!
//! An entry has a range of message numbers. It is a message of events, an encoded message, a large
//! snapshot, or a placeholder for messages that are being coalesced or were lost.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::RegionId;

use super::columns::EventColumns;
use super::handle::SessionHandle;
use super::large_snapshot::{HeldSet, LargeSnapshot};
use super::message::{MessageFormat, events_body, seal};
use crate::limits::SESSION_MESSAGE_BYTES;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Whether its last message completes its epoch.
    pub(super) epoch_done: bool,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Events, which are encoded each time the message is read.
    Events(Arc<EventColumns>),
    Sealed(Bytes),
    /// A message that says that all unread messages were lost.
    Lagged(Bytes),
    Large(Arc<LargeSnapshot>),
    /// Takes the place of a released snapshot; has the client's number of its region.
    Released(u64),
    /// Takes the place of messages that are being coalesced; has their bytes.
    Coalescing(usize),
}

impl Entry {
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            Content::Events(columns) => SESSION_MESSAGE_BYTES + columns.bytes(),
            Content::Sealed(bytes) | Content::Lagged(bytes) => SESSION_MESSAGE_BYTES + bytes.len(),
            Content::Large(_) | Content::Released(_) => SESSION_MESSAGE_BYTES,
            Content::Coalescing(bytes) => *bytes,
        }
    }

    /// The events, if this is a message of events.
    pub(super) fn events(&self) -> Option<&EventColumns> {
        match &self.content {
            Content::Events(columns) => Some(columns),
            _ => None,
        }
    }

    /// Whether a reader can resume at any of its numbers: true for a snapshot, each of whose
    /// messages has a number.
    pub(super) fn has_parts(&self) -> bool {
        matches!(self.content, Content::Large(_) | Content::Released(_))
    }
}

/// What a reader takes from an outbox.
#[derive(Debug)]
pub(super) enum Taken {
    Message(Message),
    /// A message that says that all unread messages were lost.
    Lagged(Bytes),
    /// A snapshot was released; `numbers` is the range of its missing messages. `region` is set
    /// only the first time; then the caller must request the snapshot again.
    Released {
        region_id: u64,
        region: Option<RegionId>,
        numbers: (u64, u64),
    },
}

/// A message to be sealed. Sealing may take long, so it happens without the lock of the session.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) numbers: (u64, u64),
    pub(super) epoch_done: bool,
    pub(super) content: MessageContent,
}

#[derive(Debug)]
pub(super) enum MessageContent {
    Events(Arc<EventColumns>),
    Sealed(Bytes),
    /// The part of a snapshot with this index.
    Members(Arc<LargeSnapshot>, Arc<HeldSet>, u64),
}

impl Message {
    pub(super) fn seal(self, format: &MessageFormat, handle: &SessionHandle) -> Bytes {
        let body = match self.content {
            MessageContent::Events(columns) => events_body(format, &columns),
            MessageContent::Sealed(bytes) => return bytes,
            MessageContent::Members(snapshot, held, index) => snapshot.body(format, &held, index),
        };
        seal(body, handle, self.numbers, self.epoch_done)
    }
}
