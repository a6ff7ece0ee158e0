//! The entries of an outbox, and what a reader takes of them.
//!
//! An entry has a range of message numbers: a message of events, an encoded message, a large
//! snapshot, or what replaces messages that are being coalesced or were lost.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::{RegionId, Space};

use super::columns::EventColumns;
use super::handle::SessionHandle;
use super::large_snapshot::{HeldSet, LargeSnapshot};
use super::message::{events_body, seal};
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
    /// Encoded whenever it is read.
    Events(Arc<EventColumns>),
    Sealed(Bytes),
    /// A message that everything unread was lost.
    Lagged(Bytes),
    Large(Arc<LargeSnapshot>),
    /// In place of a released snapshot, with the client's number of its region.
    Released(u64),
    /// In place of messages of so many bytes that are being coalesced.
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

    /// The events, if the message has nothing else.
    pub(super) fn events(&self) -> Option<&EventColumns> {
        match &self.content {
            Content::Events(columns) => Some(columns),
            _ => None,
        }
    }

    /// Whether a reader can resume at each of its numbers.
    pub(super) fn has_parts(&self) -> bool {
        matches!(self.content, Content::Large(_) | Content::Released(_))
    }
}

/// What a reader takes.
#[derive(Debug)]
pub(super) enum Taken {
    Message(Message),
    /// A message that everything unread was lost.
    Lagged(Bytes),
    /// A snapshot was released; `numbers` are those of its missing messages. The first time,
    /// `region` is the one whose members must be requested.
    Released {
        region_id: u64,
        region: Option<RegionId>,
        numbers: (u64, u64),
    },
}

/// A message to be sealed, which takes a while, without the lock of the session.
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
    pub(super) fn seal(self, space: &Space, handle: &SessionHandle) -> Bytes {
        let body = match self.content {
            MessageContent::Events(columns) => events_body(space, &columns),
            MessageContent::Sealed(bytes) => return bytes,
            MessageContent::Members(snapshot, held, index) => snapshot.body(space, &held, index),
        };
        seal(body, handle, self.numbers, self.epoch_done)
    }
}
