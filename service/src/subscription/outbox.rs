//! Which messages does a session hold, and which of them has its reader taken?
//!
//! Numbered without holes. Those that were taken stay for who comes back, as long as there is room;
//! those that were not may be coalesced or lost, and their numbers go over to what stands for them.
//! A snapshot made message by message may be released; then its region alone lags.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::coalesce::Coalesced;
use super::entry::{Content, Entry, Taken};
use super::handle::SessionHandle;
use super::large::LargeSnapshot;
use super::message::{Body, body, seal};
use shoal_proto::v1::subscribe_response::Kind;

/// What a session may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes_max: usize,
    pub(super) messages_max: usize,
}

/// A message to be numbered.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// Events alone: may be coalesced with those beside it.
    Events(Body),
    /// Anything else.
    Other(Body),
    Large(Arc<LargeSnapshot>),
}

/// Whether a reader can go on where it wants to.
#[derive(Debug, PartialEq)]
pub(super) enum Rewound {
    /// It does.
    Done,
    /// Messages in between are not held any more.
    Gap,
    /// That message is still to come.
    Ahead,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Outbox {
    entries: VecDeque<Entry>,
    /// The large snapshots among them, and some that are gone already.
    large: Vec<Weak<LargeSnapshot>>,
    /// Entries that were taken whole.
    read: usize,
    /// Number of the next message that is taken.
    position: u64,
    /// Number of the next message that is added.
    next: u64,
    bytes: usize,
    unread_bytes: usize,
    /// First number of what is lent.
    lent: Option<u64>,
}

impl Default for Outbox {
    fn default() -> Self {
        let (entries, large, lent) = (VecDeque::new(), Vec::new(), None);
        Self { entries, large, read: 0, position: 1, next: 1, bytes: 0, unread_bytes: 0, lent }
    }
}

impl Outbox {
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a snapshot that counts as an answer waits to be taken.
    pub(super) fn holds_large(&self) -> bool {
        self.large().any(|snapshot| snapshot.is_unread())
    }

    fn large(&self) -> impl Iterator<Item = Arc<LargeSnapshot>> {
        self.large.iter().filter_map(Weak::upgrade)
    }

    /// Releases the snapshots that wait to be taken.
    pub(super) fn release_unread(&self) {
        let unread = self.large().filter(|snapshot| snapshot.is_unread());
        unread.for_each(|snapshot| snapshot.release());
    }

    /// Releases the snapshots whose last message was taken at or before this time.
    pub(super) fn release_delivered(&mut self, until: Instant) {
        let is_held = |snapshot: Arc<LargeSnapshot>| !snapshot.release_delivered(until);
        self.large.retain(|snapshot| snapshot.upgrade().is_some_and(is_held));
    }

    /// Number of the last message that was taken.
    pub(super) fn read_sequence(&self) -> u64 {
        self.position - 1
    }

    /// Number of the next message that is added.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Adds a message.
    pub(super) fn push(&mut self, handle: &SessionHandle, outgoing: Outgoing, epoch_done: bool) {
        let first = self.next;
        let sealed = |body| seal(body, handle, (first, first), epoch_done);
        let (last, content) = match outgoing {
            Outgoing::Events(body) => (first, Content::Events(sealed(body))),
            Outgoing::Other(body) => (first, Content::Other(sealed(body))),
            Outgoing::Large(snapshot) => {
                let last = first + snapshot.messages() - 1;
                self.large.push(Arc::downgrade(&snapshot));
                (last, Content::Large(snapshot, epoch_done))
            }
        };
        self.add(Entry { first, last, content });
    }

    fn add(&mut self, entry: Entry) {
        self.next = entry.last + 1;
        self.bytes += entry.bytes();
        self.unread_bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// The next message, if there is one and nobody works on it.
    pub(super) fn take(&mut self, now: Instant) -> Option<Taken> {
        let (sequence, read) = (self.position, self.read);
        let entry = self.entries.get_mut(read)?;
        let (first, last, bytes) = (entry.first, entry.last, entry.bytes());
        let taken = match &entry.content {
            Content::Events(bytes) | Content::Other(bytes) => Taken::Message(bytes.clone()),
            Content::Lagged(bytes) => Taken::Lagged(bytes.clone()),
            Content::Lent(_) => return None,
            Content::Released(region_id) => {
                Taken::Released { region_id: *region_id, region: None, numbers: (sequence, last) }
            }
            Content::Large(snapshot, epoch_done) => match snapshot.read() {
                Some(_) if !snapshot.is_ready() => return None,
                Some(held) => {
                    let (snapshot, index) = (snapshot.clone(), sequence - first);
                    let epoch_done = *epoch_done && sequence == last;
                    Taken::Piece { snapshot, held, index, sequence, epoch_done }
                }
                None => {
                    let (region_id, region) = (snapshot.region_id, Some(snapshot.region));
                    entry.content = Content::Released(region_id);
                    Taken::Released { region_id, region, numbers: (sequence, last) }
                }
            },
        };
        self.position = match &taken {
            Taken::Piece { .. } => sequence + 1,
            _ => last + 1,
        };
        if self.position > last {
            self.unread_bytes -= bytes;
            self.read += 1;
            if let Taken::Piece { snapshot, .. } = &taken {
                snapshot.deliver(now);
            }
        }
        Some(taken)
    }

    /// Forgets the first entries, which were read.
    fn forget(&mut self, count: usize) {
        for entry in self.entries.drain(..count) {
            self.bytes -= entry.bytes();
        }
        self.read -= count;
    }

    /// Moves the reader to just after a message, back or forward.
    pub(super) fn rewind(&mut self, sequence: u64, now: Instant) -> Rewound {
        if sequence >= self.next {
            return Rewound::Ahead;
        }
        let position = sequence + 1;
        let place = self.entries.partition_point(|entry| entry.last < position);
        let is_there = match self.entries.get(place) {
            None => position == self.next,
            Some(entry) if entry.has_parts() => entry.first <= position,
            Some(entry) => entry.first == position,
        };
        if !is_there {
            return Rewound::Gap;
        }
        (self.read, self.position) = (place, position);
        self.unread_bytes = self.entries.range(place..).map(Entry::bytes).sum();
        // A reader that was inside a snapshot and resumes behind it has all of it.
        let passed = self.entries.range(..place).filter_map(Entry::large);
        passed.for_each(|snapshot| snapshot.deliver(now));
        Rewound::Done
    }

    /// Gives memory back: messages that were read, oldest first. False when that is not enough.
    pub(super) fn fit(&mut self, bounds: &Bounds) -> bool {
        let is_over = |outbox: &Self| {
            outbox.bytes > bounds.bytes_max || outbox.entries.len() > bounds.messages_max
        };
        while is_over(self) && self.read > 0 {
            self.forget(1);
        }
        !is_over(self)
    }

    /// Whether the reader has not taken everything.
    pub(super) fn has_unread(&self) -> bool {
        self.position < self.next
    }

    /// Whether more than half of what may be held is unread.
    pub(super) fn is_half_unread(&self, bounds: &Bounds) -> bool {
        let messages = self.entries.len() - self.read;
        2 * self.unread_bytes > bounds.bytes_max || 2 * messages > bounds.messages_max
    }

    /// First number of the messages that are away to be coalesced.
    pub(super) fn lent(&self) -> Option<u64> {
        self.lent
    }

    /// Lends what is unread to be coalesced; meanwhile nothing of it can be taken.
    pub(super) fn lend(&mut self) -> Option<Lent> {
        let begun = self.entries.get(self.read).filter(|entry| entry.first < self.position);
        let entries: Vec<Entry> =
            self.entries.split_off(self.read + usize::from(begun.is_some())).into();
        let (first, last) = (entries.first()?.first, entries.last()?.last);
        let bytes = entries.iter().map(Entry::bytes).sum();
        self.entries.push_back(Entry { first, last, content: Content::Lent(bytes) });
        self.lent = Some(first);
        Some(Lent { first, entries })
    }

    /// Takes back what was lent, in its place; nothing if that was lost meanwhile.
    pub(super) fn give_back(&mut self, lent: Lent) -> bool {
        if self.lent != Some(lent.first) {
            return false;
        }
        self.lent = None;
        let place = self.entries.partition_point(|entry| entry.last < lent.first);
        let later = self.entries.split_off(place).into_iter().skip(1);
        self.entries.extend(lent.entries.into_iter().chain(later));
        self.bytes = self.entries.iter().map(Entry::bytes).sum();
        self.unread_bytes = self.entries.range(self.read..).map(Entry::bytes).sum();
        true
    }

    /// Loses what is unread; `lagged` says so in place of it, under its numbers.
    pub(super) fn lag(&mut self, handle: &SessionHandle, lagged: Body) {
        let (first, last) = (self.position, self.position.max(self.next - 1));
        let is_begun = self.entries.get(self.read).is_some_and(|entry| entry.first < first);
        for entry in self.entries.drain(self.read..) {
            self.bytes -= entry.bytes();
        }
        if is_begun {
            // A part of a snapshot was read, so what lies before it does not lead up to here.
            self.forget(self.read);
        }
        (self.unread_bytes, self.lent) = (0, None);
        let content = Content::Lagged(seal(lagged, handle, (first, last), false));
        self.add(Entry { first, last, content });
    }

    /// Forgets everything; the numbers go on.
    pub(super) fn reset(&mut self) {
        let next = self.next;
        *self = Self { position: next, next, ..Self::default() };
    }
}

/// Unread messages that are being coalesced.
#[derive(Debug)]
pub(super) struct Lent {
    /// Number of the first: no other loan of the session has it.
    pub(super) first: u64,
    entries: Vec<Entry>,
}

impl Lent {
    /// Coalesces events that lie beside each other; gives how many events went. None when that
    /// cannot be done, or leaves more than a quarter of what may be held.
    pub(super) fn coalesced(
        self,
        handle: &SessionHandle,
        bounds: &Bounds,
        wants_move: impl Fn(u64) -> bool,
    ) -> Option<(Self, u64)> {
        let mut given = self.entries.into_iter().peekable();
        let (mut entries, mut saved) = (Vec::new(), 0);
        while let Some(entry) = given.next() {
            let mut run = vec![entry];
            while is_events(&run[0]) && given.peek().is_some_and(is_events) {
                run.extend(given.next());
            }
            if run.len() == 1 {
                entries.append(&mut run);
            } else {
                let (merged, less) = merged(handle, &run, &wants_move)?;
                entries.extend(merged);
                saved += less;
            }
        }
        let bytes: usize = entries.iter().map(Entry::bytes).sum();
        let is_less = 4 * bytes <= bounds.bytes_max && 4 * entries.len() <= bounds.messages_max;
        is_less.then_some((Self { first: self.first, entries }, saved))
    }
}

fn is_events(entry: &Entry) -> bool {
    matches!(entry.content, Content::Events(_))
}

/// A run of events as fewer; none when that cannot be done.
fn merged(
    handle: &SessionHandle,
    run: &[Entry],
    wants_move: impl Fn(u64) -> bool,
) -> Option<(Vec<Entry>, u64)> {
    let messages = run.iter().filter_map(|entry| match &entry.content {
        Content::Events(bytes) => Some(bytes),
        _ => None,
    });
    let (first, last) = (run.first()?.first, run.last()?.last);
    let Coalesced { batches, epoch_done, saved } = super::coalesce::coalesce(messages, wants_move)?;
    // The first takes the numbers that are left over.
    let rest = batches.len() as u64 - 1;
    let first_last = last.checked_sub(rest).filter(|first_last| *first_last >= first)?;
    let entries = batches.into_iter().zip(0..).map(|(batch, part)| {
        let numbers =
            if part == 0 { (first, first_last) } else { (first_last + part, first_last + part) };
        let done = epoch_done && part == rest;
        let bytes = seal(body(Kind::Events(batch)), handle, numbers, done);
        Entry { first: numbers.0, last: numbers.1, content: Content::Events(bytes) }
    });
    Some((entries.collect(), saved))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use shoal_proto::v1;

    use super::*;

    const WIDE: Bounds = Bounds { bytes_max: 1 << 20, messages_max: 1000 };

    fn events(object: u64, kind: v1::EventKind) -> Outgoing {
        let of = v1::RegionEvents {
            region_id: 1,
            objects: vec![object],
            kinds: vec![kind as i32],
            fixes: Vec::new(),
        };
        let batch = v1::EventBatch { epoch: object, regions: vec![of], ..Default::default() };
        Outgoing::Events(body(Kind::Events(batch)))
    }

    fn filled(messages: u64) -> (Outbox, SessionHandle) {
        let (mut outbox, handle) = (Outbox::default(), SessionHandle::draw(1, 1).unwrap());
        for object in 1..=messages {
            outbox.push(&handle, events(object, v1::EventKind::Enter), true);
        }
        (outbox, handle)
    }

    fn coalesce(outbox: &mut Outbox, handle: &SessionHandle, bounds: &Bounds) -> Option<u64> {
        let (lent, saved) = outbox.lend().unwrap().coalesced(handle, bounds, |_| true)?;
        assert!(outbox.give_back(lent));
        Some(saved)
    }

    /// First and last number of the next message.
    fn taken(outbox: &mut Outbox) -> Option<(u64, u64)> {
        let bytes = match outbox.take(Instant::now())? {
            Taken::Message(bytes) | Taken::Lagged(bytes) => bytes,
            taken => panic!("{taken:?} is of a snapshot"),
        };
        let message = v1::SubscribeResponse::decode(bytes).unwrap();
        Some((message.first_sequence, message.last_sequence))
    }

    fn rewind(outbox: &mut Outbox, sequence: u64) -> Rewound {
        outbox.rewind(sequence, Instant::now())
    }

    #[test]
    fn what_was_read_stays_until_room_is_needed() {
        let (mut outbox, _) = filled(10);
        for sequence in 1..=10 {
            assert_eq!(taken(&mut outbox), Some((sequence, sequence)));
        }
        assert_eq!(taken(&mut outbox), None);
        assert_eq!(rewind(&mut outbox, 7), Rewound::Done);
        assert_eq!(taken(&mut outbox), Some((8, 8)));
        assert_eq!(rewind(&mut outbox, 11), Rewound::Ahead);
        assert_eq!(rewind(&mut outbox, 10), Rewound::Done);
        assert_eq!(taken(&mut outbox), None);
        let bounds = Bounds { messages_max: 3, ..WIDE };
        assert!(outbox.fit(&bounds));
        assert_eq!((rewind(&mut outbox, 6), rewind(&mut outbox, 7)), (Rewound::Gap, Rewound::Done));
        assert_eq!(rewind(&mut outbox, 0), Rewound::Gap);
        assert!(outbox.fit(&Bounds { messages_max: 3, ..WIDE }));
        assert!(!outbox.fit(&Bounds { messages_max: 2, ..WIDE }), "unread messages stay");
    }

    #[test]
    fn unread_events_coalesce_under_their_numbers() {
        let (mut outbox, handle) = filled(4);
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        outbox.push(&handle, events(2, v1::EventKind::Left), true);
        let before = outbox.bytes();
        assert_eq!(coalesce(&mut outbox, &handle, &WIDE), Some(2));
        assert!(outbox.bytes() < before);
        assert_eq!(rewind(&mut outbox, 2), Rewound::Gap, "one inside cannot be told apart");
        assert_eq!(rewind(&mut outbox, 1), Rewound::Done);
        assert_eq!(taken(&mut outbox), Some((2, 5)));
        assert_eq!(taken(&mut outbox), None);
        let none = Bounds { bytes_max: 0, ..WIDE };
        outbox.push(&handle, events(9, v1::EventKind::Left), true);
        assert!(outbox.is_half_unread(&none) && !outbox.is_half_unread(&WIDE));
        assert_eq!(coalesce(&mut outbox, &handle, &none), None);
    }

    #[test]
    fn what_is_lent_keeps_its_place_and_may_be_lost_meanwhile() {
        let (mut outbox, handle) = filled(4);
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        let before = outbox.bytes();
        let lent = outbox.lend().unwrap();
        outbox.push(&handle, events(5, v1::EventKind::Left), true);
        assert!(outbox.lent() == Some(2) && outbox.bytes() > before);
        assert_eq!((taken(&mut outbox), rewind(&mut outbox, 0)), (None, Rewound::Done));
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        assert!(outbox.give_back(lent));
        let all: Vec<_> = std::iter::from_fn(|| taken(&mut outbox)).collect();
        assert_eq!(all, [(2, 2), (3, 3), (4, 4), (5, 5)]);
        outbox.push(&handle, events(6, v1::EventKind::Left), true);
        let lent = outbox.lend().unwrap();
        outbox.lag(&handle, body(Kind::Lagged(v1::Lagged::default())));
        assert!(!outbox.give_back(lent) && outbox.lent().is_none());
        assert_eq!(taken(&mut outbox), Some((6, 6)));
        assert!(outbox.lend().is_none());
    }

    #[test]
    fn what_is_lost_is_told_under_its_numbers() {
        let (mut outbox, handle) = filled(5);
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        outbox.lag(&handle, body(Kind::Lagged(v1::Lagged::default())));
        outbox.push(&handle, events(7, v1::EventKind::Enter), true);
        assert_eq!((taken(&mut outbox), taken(&mut outbox)), (Some((2, 5)), Some((6, 6))));
        assert_eq!((rewind(&mut outbox, 1), taken(&mut outbox)), (Rewound::Done, Some((2, 5))));
        assert_eq!(rewind(&mut outbox, 3), Rewound::Gap);
        // With nothing unread it takes a number of its own.
        assert_eq!((rewind(&mut outbox, 6), taken(&mut outbox)), (Rewound::Done, None));
        outbox.lag(&handle, body(Kind::Lagged(v1::Lagged::default())));
        assert_eq!(taken(&mut outbox), Some((7, 7)));
        outbox.reset();
        assert_eq!((outbox.next_sequence(), outbox.read_sequence(), outbox.bytes()), (8, 7, 0));
        assert_eq!((rewind(&mut outbox, 7), rewind(&mut outbox, 6)), (Rewound::Done, Rewound::Gap));
    }

    #[test]
    fn bytes_are_those_of_the_messages() {
        let (mut outbox, handle) = filled(20);
        for _ in 0..7 {
            outbox.take(Instant::now());
        }
        coalesce(&mut outbox, &handle, &WIDE);
        outbox.fit(&Bounds { messages_max: 4, ..WIDE });
        assert_eq!(outbox.bytes(), outbox.entries.iter().map(Entry::bytes).sum::<usize>());
        outbox.lag(&handle, body(Kind::Lagged(v1::Lagged::default())));
        assert_eq!(outbox.bytes(), outbox.entries.iter().map(Entry::bytes).sum::<usize>());
        taken(&mut outbox);
        assert_eq!(outbox.unread_bytes, 0);
    }
}
