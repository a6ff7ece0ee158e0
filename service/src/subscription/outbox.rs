//! Which messages does a session hold, and which of them has its reader taken?
//!
//! Numbered without holes. Those that were taken stay for who comes back, as long as there is room;
//! those that were not may be coalesced or lost, and their numbers go over to what stands for them.
//! A snapshot that is made message by message goes when its last message was taken.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::coalesce::Coalesced;
use super::handle::SessionHandle;
use super::large::LargeSnapshot;
use super::message::{Body, body, seal};
use crate::limits::SESSION_MESSAGE_BYTES;
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

#[derive(Debug)]
enum Content {
    Events(Bytes),
    Other(Bytes),
    /// That everything unread was lost.
    Lagged(Bytes),
    Large(Arc<LargeSnapshot>, bool),
    /// Messages of so many bytes that are away to be coalesced.
    Lent(usize),
}

#[derive(Debug)]
struct Entry {
    first: u64,
    last: u64,
    content: Content,
}

impl Entry {
    fn bytes(&self) -> usize {
        match &self.content {
            Content::Events(bytes) | Content::Other(bytes) | Content::Lagged(bytes) => {
                SESSION_MESSAGE_BYTES + bytes.len()
            }
            Content::Large(..) => SESSION_MESSAGE_BYTES,
            Content::Lent(bytes) => *bytes,
        }
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
        index: u64,
        sequence: u64,
        epoch_done: bool,
    },
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
        let entries = VecDeque::new();
        let lent = None;
        Self { entries, read: 0, position: 1, next: 1, bytes: 0, unread_bytes: 0, lent }
    }
}

impl Outbox {
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a snapshot that counts as an answer waits to be taken.
    pub(super) fn holds_large(&self) -> bool {
        let mut unread = self.entries.range(self.read..);
        unread.any(|entry| matches!(entry.content, Content::Large(..)))
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
    pub(super) fn take(&mut self) -> Option<Taken> {
        let entry = self.entries.get(self.read)?;
        let (first, last, bytes) = (entry.first, entry.last, entry.bytes());
        let taken = match &entry.content {
            Content::Events(bytes) | Content::Other(bytes) => Taken::Message(bytes.clone()),
            Content::Lagged(bytes) => Taken::Lagged(bytes.clone()),
            Content::Lent(_) => return None,
            Content::Large(snapshot, _) if !snapshot.is_ready() => return None,
            Content::Large(snapshot, epoch_done) => {
                let (snapshot, sequence) = (snapshot.clone(), self.position);
                let epoch_done = *epoch_done && sequence == last;
                Taken::Piece { snapshot, index: sequence - first, sequence, epoch_done }
            }
        };
        let is_piece = matches!(taken, Taken::Piece { .. });
        self.position = if is_piece { self.position + 1 } else { last + 1 };
        if self.position > last {
            self.unread_bytes -= bytes;
            self.read += 1;
            if is_piece {
                self.forget(self.read);
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

    /// Goes back to just after a message.
    pub(super) fn rewind(&mut self, sequence: u64) -> Rewound {
        if sequence >= self.next {
            return Rewound::Ahead;
        }
        let position = sequence + 1;
        let place = self.entries.partition_point(|entry| entry.last < position);
        let is_there = match self.entries.get(place) {
            None => position == self.next,
            Some(Entry { first, content: Content::Large(..), .. }) => *first <= position,
            Some(entry) => entry.first == position,
        };
        if !is_there {
            return Rewound::Gap;
        }
        (self.read, self.position) = (place, position);
        self.unread_bytes = self.entries.range(place..).map(Entry::bytes).sum();
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
        let bytes = match outbox.take()? {
            Taken::Message(bytes) | Taken::Lagged(bytes) => bytes,
            Taken::Piece { sequence, .. } => return Some((sequence, sequence)),
        };
        let message = v1::SubscribeResponse::decode(bytes).unwrap();
        Some((message.first_sequence, message.last_sequence))
    }

    #[test]
    fn what_was_read_stays_until_room_is_needed() {
        let (mut outbox, _) = filled(10);
        for sequence in 1..=10 {
            assert_eq!(taken(&mut outbox), Some((sequence, sequence)));
        }
        assert_eq!(taken(&mut outbox), None);
        assert_eq!(outbox.rewind(7), Rewound::Done);
        assert_eq!(taken(&mut outbox), Some((8, 8)));
        assert_eq!(outbox.rewind(11), Rewound::Ahead);
        assert_eq!(outbox.rewind(10), Rewound::Done);
        assert_eq!(taken(&mut outbox), None);
        let bounds = Bounds { messages_max: 3, ..WIDE };
        assert!(outbox.fit(&bounds));
        assert_eq!((outbox.rewind(6), outbox.rewind(7)), (Rewound::Gap, Rewound::Done));
        assert_eq!(outbox.rewind(0), Rewound::Gap);
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
        assert_eq!(outbox.rewind(2), Rewound::Gap, "one inside cannot be told apart");
        assert_eq!(outbox.rewind(1), Rewound::Done);
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
        assert_eq!((taken(&mut outbox), outbox.rewind(0)), (None, Rewound::Done));
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
        assert_eq!((outbox.rewind(1), taken(&mut outbox)), (Rewound::Done, Some((2, 5))));
        assert_eq!(outbox.rewind(3), Rewound::Gap);
        // With nothing unread it takes a number of its own.
        assert_eq!((outbox.rewind(6), taken(&mut outbox)), (Rewound::Done, None));
        outbox.lag(&handle, body(Kind::Lagged(v1::Lagged::default())));
        assert_eq!(taken(&mut outbox), Some((7, 7)));
        outbox.reset();
        assert_eq!((outbox.next_sequence(), outbox.read_sequence(), outbox.bytes()), (8, 7, 0));
        assert_eq!((outbox.rewind(7), outbox.rewind(6)), (Rewound::Done, Rewound::Gap));
    }

    #[test]
    fn bytes_are_those_of_the_messages() {
        let (mut outbox, handle) = filled(20);
        for _ in 0..7 {
            outbox.take();
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
