//! How is a snapshot sent that is larger than a session may be?
//!
//! It stays where the engine wrote it and counts as an answer that is held; each message is made
//! when the reader has room for it. Its numbers are taken from the start, so that what follows has
//! its own. An engine may leave millions of members in no order until they are read: that is done
//! by a thread of its own, and the reader waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    members: usize,
    with_fixes: bool,
    is_ready: AtomicBool,
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
        let fixes: u64 = set.heads().map(|head| head.fixes() as u64).sum();
        let bytes = set.events() * (ROW_ANSWER_BYTES.id + 1) + fixes * ROW_ANSWER_BYTES.fix;
        let room = answers.try_room(bytes)?;
        let head = set.head(place);
        let (members, with_fixes) = (head.events(), head.fixes() > 0);
        let (set, is_ready) = (set.clone(), AtomicBool::new(false));
        Some(Self {
            set,
            place,
            region_id,
            told,
            space,
            members,
            with_fixes,
            is_ready,
            _room: room,
        })
    }

    /// Has the engine's lists made, if they are not yet.
    pub(super) fn make_ready(&self) {
        let _ = self.set.get(self.place);
        self.is_ready.store(true, Ordering::Release);
    }

    /// Whether messages can be made without delay.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// How many messages it takes.
    pub(super) fn messages(&self) -> u64 {
        self.members.div_ceil(members_at_once(self.with_fixes)).max(1) as u64
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
        let (rows, at_once) = (self.members, members_at_once(self.with_fixes));
        let from = index as usize * at_once;
        let to = rows.min(from + at_once);
        let body = members_body(&self.space, self.told, self.region_id, &members, (from, to));
        seal(body, handle, (sequence, sequence), epoch_done)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use prometheus_client::metrics::gauge::Gauge;
    use prost::Message as _;
    use shoal_engine::{EventHead, RegionId};
    use shoal_proto::v1;

    use super::super::outbox::{Outbox, Outgoing, Taken};
    use super::*;

    const MEMBERS: usize = 100_000;

    /// Columns that are made when they are read.
    #[derive(Default)]
    struct Late(OnceLock<(Vec<u64>, Vec<u8>)>);

    impl Late {
        fn lists(&self) -> &(Vec<u64>, Vec<u8>) {
            self.0.get_or_init(|| ((0..MEMBERS as u64).collect(), vec![1; MEMBERS]))
        }
    }

    impl AsRef<[u64]> for Late {
        fn as_ref(&self) -> &[u64] {
            &self.lists().0
        }
    }

    impl AsRef<[u8]> for Late {
        fn as_ref(&self) -> &[u8] {
            &self.lists().1
        }
    }

    #[test]
    fn members_are_not_read_until_they_are_made_ready() {
        let late = Arc::new(Late::default());
        let events = (0, MEMBERS);
        let head =
            EventHead { region: RegionId(4), is_snapshot: true, events, ..EventHead::default() };
        let set = EventSet::of_shared(
            vec![head],
            late.clone(),
            late.clone(),
            Arc::new(Vec::<shoal_codec::FixRow>::new()),
        );
        let (set, answers) = (Arc::new(set), AnswerBudget::new(1 << 20, Gauge::default()));
        let told = Told { epoch: 3, clock_ms: 4 };
        let hold = || LargeSnapshot::hold(&answers, &set, (0, 7), Space::geographic(), told);
        let snapshot = Arc::new(hold().unwrap());
        assert!(hold().is_none(), "there is room for one");
        let (mut outbox, handle) = (Outbox::default(), SessionHandle::draw(1, 1).unwrap());
        outbox.push(&handle, Outgoing::Large(snapshot.clone()), true);
        assert_eq!((outbox.next_sequence() - 1, outbox.has_unread()), (snapshot.messages(), true));
        assert!(outbox.take().is_none() && late.0.get().is_none());
        snapshot.make_ready();
        let mut members = Vec::new();
        while let Some(Taken::Piece { snapshot, index, sequence, epoch_done }) = outbox.take() {
            let bytes = snapshot.message(index, &handle, sequence, epoch_done);
            let message = v1::SubscribeResponse::decode(bytes).unwrap();
            assert_eq!(message.first_sequence, index + 1);
            assert_eq!(message.epoch_done, !outbox.has_unread());
            let Some(v1::subscribe_response::Kind::Snapshot(chunk)) = message.kind else {
                panic!("no piece of a snapshot");
            };
            members.extend(chunk.regions.into_iter().flat_map(|of| of.objects));
        }
        assert!(members.into_iter().eq(0..MEMBERS as u64));
        drop((snapshot, outbox));
        assert!(hold().is_some());
    }
}
