//! Snapshots that are too large to be copied into the memory of a session.
//!
//! The members stay in the engine's event set, which counts against the answer budget; each message
//! is encoded when it is read. All message numbers are assigned when the snapshot is added. An
//! engine may leave millions of members unsorted until they are first read, so a separate thread
//! reads them first, and the reader waits. After delivery the answer budget owns the snapshot and
//! may release it; until then each of its messages can be encoded again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use shoal_engine::{EventSet, RegionId};

use super::message::{Body, EpochStamp, MessageFormat, members_body};
use crate::answer_budget::{AnswerBudget, AnswerReservation, Spare};
use crate::limits::ROW_ANSWER_BYTES;
use crate::shares::Requester;

/// The event set of a cycle with large snapshots, and its reservation in the answer budget.
#[derive(Debug)]
pub(super) struct HeldSet {
    set: Arc<EventSet>,
    /// The reserved memory; it returns to the budget when the set is dropped.
    _room: AnswerReservation,
}

impl HeldSet {
    /// Holds an event set; `None` if the budget has no memory for it.
    pub(super) fn new(answers: &AnswerBudget, set: &Arc<EventSet>) -> Option<Arc<Self>> {
        let fixes: u64 = set.heads().map(|head| head.fixes() as u64).sum();
        let bytes = set.events() * (ROW_ANSWER_BYTES.id + 1) + fixes * ROW_ANSWER_BYTES.fix;
        let room = answers.try_room(Requester::PROCESS, bytes)?;
        Some(Arc::new(Self { set: set.clone(), _room: room }))
    }
}

/// The members of a region, in the event set of their cycle.
#[derive(Debug)]
pub(super) struct LargeSnapshot {
    /// The region in the engine.
    pub(super) region: RegionId,
    /// Its number at the client.
    pub(super) region_id: u64,
    place: usize,
    stamp: EpochStamp,
    members: usize,
    /// Members in a message.
    members_at_once: usize,
    is_ready: AtomicBool,
    answers: Arc<AnswerBudget>,
    hold: Mutex<Hold>,
}

/// Who owns the members.
#[derive(Debug)]
enum Hold {
    /// The outbox: messages are unread.
    Unread(Arc<HeldSet>),
    /// The answer budget, since the last message was read.
    Delivered(Spare<HeldSet>, Instant),
    Released,
}

impl LargeSnapshot {
    /// Creates the snapshot of the region at index `place` of an event set.
    pub(super) fn new(
        answers: Arc<AnswerBudget>,
        held: Arc<HeldSet>,
        (place, region_id): (usize, u64),
        stamp: EpochStamp,
        format: &MessageFormat,
    ) -> Self {
        let head = held.set.head(place);
        let (region, members) = (head.region, head.events());
        let members_at_once = format.members_per_message(head.fixes() > 0);
        let (is_ready, hold) = (AtomicBool::new(false), Mutex::new(Hold::Unread(held)));
        Self { region, region_id, place, stamp, members, members_at_once, is_ready, answers, hold }
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the engine sort the members, unless they are sorted.
    pub(super) fn make_ready(&self) {
        // `get` sorts the members and may take long, so the lock is not held.
        if let Some(held) = self.read() {
            let _ = held.set.get(self.place);
            self.is_ready.store(true, Ordering::Release);
        }
    }

    /// Whether messages can be encoded without delay.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Returns the event set to encode messages from, `None` if it was released. A delivered
    /// snapshot counts as unread again.
    pub(super) fn read(&self) -> Option<Arc<HeldSet>> {
        let mut hold = self.hold();
        let held = match &*hold {
            Hold::Unread(held) => Some(held.clone()),
            Hold::Delivered(spare, _) => spare.get(),
            Hold::Released => None,
        };
        *hold = held.clone().map_or(Hold::Released, Hold::Unread);
        held
    }

    /// Marks it as delivered: its last message was read.
    pub(super) fn deliver(&self, now: Instant) {
        let mut hold = self.hold();
        if let Hold::Unread(held) = &*hold {
            *hold = Hold::Delivered(self.answers.keep(held.clone()), now);
        }
    }

    /// Releases its memory.
    pub(super) fn release(&self) {
        *self.hold() = Hold::Released;
    }

    /// Releases its memory if it was delivered at or before `until`. Returns true if the
    /// snapshot is released after the call, even if it was released before.
    pub(super) fn release_delivered(&self, until: Instant) -> bool {
        let mut hold = self.hold();
        let is_released = match &*hold {
            Hold::Unread(_) => false,
            Hold::Delivered(spare, at) => *at <= until || spare.get().is_none(),
            Hold::Released => true,
        };
        if is_released {
            *hold = Hold::Released;
        }
        is_released
    }

    /// Whether messages are unread.
    pub(super) fn is_unread(&self) -> bool {
        matches!(&*self.hold(), Hold::Unread(_))
    }

    /// The number of its messages.
    pub(super) fn messages(&self) -> u64 {
        self.members.div_ceil(self.members_at_once).max(1) as u64
    }

    /// Encodes the body of the message with this index.
    pub(super) fn body(&self, format: &MessageFormat, held: &HeldSet, index: u64) -> Body {
        let members = held.set.get(self.place);
        let from = index as usize * self.members_at_once;
        let range = (from, self.members.min(from + self.members_at_once));
        members_body(format, self.stamp, self.region_id, &members, range)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::Duration;

    use prometheus_client::metrics::gauge::Gauge;
    use prost::Message as _;
    use shoal_engine::EventHead;
    use shoal_proto::v1;
    use shoal_proto::v1::subscribe_response::Kind;

    use super::super::handle::SessionHandle;
    use super::super::message::{lagged_body, seal};
    use super::super::outbox::{Bounds, Outbox, Outgoing, Rewound};
    use super::super::outbox_entry::Taken;
    use super::*;

    const MEMBERS: usize = 100_000;

    /// Columns that are made when they are first read.
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

    const STAMP: EpochStamp = EpochStamp { epoch: 3, clock_ms: 4 };

    /// A snapshot, and a budget that has room only for it.
    struct Scene {
        late: Arc<Late>,
        set: Arc<EventSet>,
        answers: Arc<AnswerBudget>,
        gauge: Gauge,
        handle: SessionHandle,
    }

    impl Scene {
        fn new() -> Self {
            let late = Arc::new(Late::default());
            let (region, events) = (RegionId(4), (0, MEMBERS));
            let head = EventHead { region, is_snapshot: true, events, ..EventHead::default() };
            let fixes = Arc::new(Vec::<shoal_codec::FixRow>::new());
            let set = EventSet::of_shared(vec![head], late.clone(), late.clone(), fixes);
            let gauge = Gauge::default();
            let answers = Arc::new(AnswerBudget::new(1 << 20, gauge.clone()));
            let handle = SessionHandle::draw(1, 1).unwrap();
            Self { late, set: Arc::new(set), answers, gauge, handle }
        }

        fn hold(&self) -> Option<Arc<LargeSnapshot>> {
            let held = HeldSet::new(&self.answers, &self.set)?;
            Some(Arc::new(LargeSnapshot::new(
                self.answers.clone(),
                held,
                (0, 7),
                STAMP,
                &MessageFormat::numeric(),
            )))
        }

        /// An outbox with the snapshot, ready to be read.
        fn filled(&self) -> Outbox {
            let (mut outbox, snapshot) = (Outbox::default(), self.hold().unwrap());
            snapshot.make_ready();
            outbox.push(&self.handle, Outgoing::Large(snapshot), true);
            outbox
        }

        /// Reads all messages that can be read now.
        fn taken(&self, outbox: &mut Outbox, now: Instant) -> Vec<v1::SubscribeResponse> {
            let taken = std::iter::from_fn(|| outbox.take(now)).map(|taken| match taken {
                Taken::Message(message) => message.seal(&MessageFormat::numeric(), &self.handle),
                Taken::Lagged(bytes) => bytes,
                Taken::Released { region_id, numbers, .. } => {
                    seal(lagged_body(vec![region_id]), &self.handle, numbers, false)
                }
            });
            taken.map(|bytes| v1::SubscribeResponse::decode(bytes).unwrap()).collect()
        }
    }

    fn members(messages: Vec<v1::SubscribeResponse>) -> Vec<u64> {
        let chunks = messages.into_iter().map(|message| match message.kind {
            Some(Kind::Snapshot(chunk)) => chunk,
            kind => panic!("{kind:?} is no piece of a snapshot"),
        });
        chunks.flat_map(|chunk| chunk.regions).flat_map(|of| of.objects).collect()
    }

    #[test]
    fn members_are_not_read_until_they_are_made_ready() {
        let scene = Scene::new();
        let snapshot = scene.hold().unwrap();
        assert!(scene.hold().is_none(), "the budget is for one");
        let mut outbox = Outbox::default();
        outbox.push(&scene.handle, Outgoing::Large(snapshot.clone()), true);
        assert_eq!((outbox.next_sequence() - 1, outbox.has_unread()), (snapshot.messages(), true));
        let now = Instant::now();
        assert!(outbox.take(now).is_none() && scene.late.0.get().is_none());
        snapshot.make_ready();
        let messages = scene.taken(&mut outbox, now);
        for (message, number) in messages.iter().zip(1..) {
            assert_eq!((message.first_sequence, message.last_sequence), (number, number));
            assert_eq!(message.epoch_done, number == snapshot.messages());
        }
        assert!(members(messages).into_iter().eq(0..MEMBERS as u64));
        drop((snapshot, outbox));
        assert_eq!(scene.gauge.get(), 0);
        assert!(scene.hold().is_some());
    }

    #[test]
    fn a_delivered_snapshot_is_taken_again_from_any_message() {
        let (scene, now) = (Scene::new(), Instant::now());
        let mut outbox = scene.filled();
        let whole = scene.taken(&mut outbox, now);
        assert!(whole.len() > 2 && !outbox.has_unread());
        for after in 0..=whole.len() {
            assert_eq!(outbox.rewind(after as u64, now), Rewound::Done);
            assert_eq!(scene.taken(&mut outbox, now), whole[after..]);
        }
        assert!(scene.gauge.get() > 0);
        // It is dropped when its session needs memory, like every read message.
        assert!(outbox.fit(&Bounds { bytes_max: 0, messages_max: 0 }));
        assert_eq!((outbox.rewind(1, now), scene.gauge.get()), (Rewound::Gap, 0));
    }

    #[test]
    fn a_released_snapshot_makes_its_region_lag_under_its_numbers() {
        let (scene, now) = (Scene::new(), Instant::now());
        let mut outbox = scene.filled();
        let count = scene.taken(&mut outbox, now).len() as u64;
        outbox.push(&scene.handle, Outgoing::Other(lagged_body(vec![9])), true);
        let other = scene.taken(&mut outbox, now);
        assert!(
            scene.answers.try_room(Requester::PROCESS, 1 << 20).is_some(),
            "a spare is in the way"
        );
        for (sequence, requested) in [(1, Some(RegionId(4))), (0, None), (1, None)] {
            assert_eq!(outbox.rewind(sequence, now), Rewound::Done);
            let Some(Taken::Released { region_id, region, numbers }) = outbox.take(now) else {
                panic!("it is still held");
            };
            assert_eq!((region_id, region, numbers), (7, requested, (sequence + 1, count)));
            assert_eq!(scene.taken(&mut outbox, now), other);
        }
    }

    #[test]
    fn a_snapshot_is_released_by_time_once_it_was_delivered() {
        let (scene, now) = (Scene::new(), Instant::now());
        let (mut outbox, later) = (scene.filled(), now + Duration::from_millis(1));
        outbox.take(now);
        outbox.release_delivered(later);
        assert!(outbox.holds_large());
        scene.taken(&mut outbox, later);
        outbox.release_delivered(now);
        assert!(!outbox.holds_large() && scene.gauge.get() > 0);
        assert_eq!(outbox.rewind(1, now), Rewound::Done);
        scene.taken(&mut outbox, now);
        outbox.release_delivered(now);
        assert_eq!(scene.gauge.get(), 0);
        // A reader that had read a part of the snapshot resumes with a later token.
        let mut outbox = scene.filled();
        let count = scene.taken(&mut outbox, now).len() as u64;
        outbox.rewind(1, now);
        outbox.take(now);
        assert!(outbox.holds_large());
        assert_eq!(outbox.rewind(count, now), Rewound::Done);
        outbox.release_delivered(now);
        assert_eq!(scene.gauge.get(), 0);
        // A snapshot that its reader does not read is released as well.
        let mut outbox = scene.filled();
        outbox.take(now);
        outbox.release_unread();
        let Some(Taken::Released { numbers: (2, _), .. }) = outbox.take(now) else {
            panic!("it is held");
        };
        assert_eq!(scene.gauge.get(), 0);
    }
}
