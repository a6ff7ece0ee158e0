//! What does an outbox hold under one range of numbers, and what does a reader take of it?
//!
//! A sealed message, a large snapshot that is made message by message, or what stands for messages
//! that are away or lost.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::RegionId;

use super::large::{HeldSet, LargeSnapshot};
use crate::limits::SESSION_MESSAGE_BYTES;

#[derive(Debug)]
pub(super) enum Content {
    Events(Bytes),
    Other(Bytes),
    /// That everything unread was lost.
    Lagged(Bytes),
    /// A snapshot, and whether its last message completes its epoch.
    Large(Arc<LargeSnapshot>, bool),
    /// In place of a snapshot that was released, with the client's number of its region.
    Released(u64),
    /// Messages of so many bytes that are away to be coalesced.
    Lent(usize),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) content: Content,
}

impl Entry {
    pub(super) fn bytes(&self) -> usize {
        match &self.content {
            Content::Events(bytes) | Content::Other(bytes) | Content::Lagged(bytes) => {
                SESSION_MESSAGE_BYTES + bytes.len()
            }
            Content::Large(..) | Content::Released(_) => SESSION_MESSAGE_BYTES,
            Content::Lent(bytes) => *bytes,
        }
    }

    /// The large snapshot, unless it was found released.
    pub(super) fn large(&self) -> Option<&LargeSnapshot> {
        match &self.content {
            Content::Large(snapshot, _) => Some(snapshot),
            _ => None,
        }
    }

    /// Whether a reader can resume at each of its numbers.
    pub(super) fn has_parts(&self) -> bool {
        matches!(self.content, Content::Large(..) | Content::Released(_))
    }
}

/// What a reader takes.
#[derive(Debug)]
pub(super) enum Taken {
    Message(Bytes),
    /// That everything unread was lost.
    Lagged(Bytes),
    /// One message of a snapshot, to be made: which, its number, whether it completes its epoch.
    Piece {
        snapshot: Arc<LargeSnapshot>,
        held: Arc<HeldSet>,
        index: u64,
        sequence: u64,
        epoch_done: bool,
    },
    /// That a snapshot was released, under the numbers of its missing messages. The first time it
    /// names the region whose members must be asked for.
    Released {
        region_id: u64,
        region: Option<RegionId>,
        numbers: (u64, u64),
    },
}
