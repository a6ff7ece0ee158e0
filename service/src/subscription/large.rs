//! How is a snapshot sent that is larger than a session may be?
//!
//! It stays where the engine wrote it and counts as an answer that is held; each message is made
//! when the reader has room for it. Its numbers are taken from the start, so that what follows has
//! its own.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::{EventSet, Space};

use super::handle::SessionHandle;
use super::message::{Told, members_at_once, members_body, seal};
use crate::answer_budget::{AnswerBudget, AnswerRoom};
use crate::limits::ROW_ANSWER_BYTES;

/// One region's members, in the set of their cycle.
#[derive(Debug)]
pub(super) struct LargeSnapshot {
    set: Arc<EventSet>,
    place: usize,
    region_id: u64,
    told: Told,
    space: Space,
    _room: AnswerRoom,
}

impl LargeSnapshot {
    /// The snapshot at a place of a set; none when there is no room for the whole set.
    pub(super) fn hold(
        answers: &AnswerBudget,
        set: &Arc<EventSet>,
        (place, region_id): (usize, u64),
        space: Space,
        told: Told,
    ) -> Option<Self> {
        let fixes: u64 = set.iter().map(|events| events.fixes.len() as u64).sum();
        let bytes = set.events() * (ROW_ANSWER_BYTES.id + 1) + fixes * ROW_ANSWER_BYTES.fix;
        let room = answers.try_room(bytes)?;
        Some(Self { set: set.clone(), place, region_id, told, space, _room: room })
    }

    /// How many messages it takes.
    pub(super) fn messages(&self) -> u64 {
        let members = self.set.get(self.place);
        members.objects.len().div_ceil(members_at_once(&members)).max(1) as u64
    }

    /// One of them.
    pub(super) fn message(
        &self,
        index: u64,
        handle: &SessionHandle,
        sequence: u64,
        epoch_done: bool,
    ) -> Bytes {
        let members = self.set.get(self.place);
        let (rows, at_once) = (members.objects.len(), members_at_once(&members));
        let from = index as usize * at_once;
        let to = rows.min(from + at_once);
        let body = members_body(&self.space, self.told, self.region_id, &members, (from, to));
        seal(body, handle, (sequence, sequence), epoch_done)
    }
}
