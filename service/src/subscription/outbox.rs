//! The messages of a session, read and unread.
//!
//! Messages are numbered without gaps. Read messages are kept for a client that resumes, as long as
//! there is capacity. Unread ones may be coalesced or lost; the messages that replace them take
//! over their numbers. A large snapshot may be released; then only its region lags.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::coalesce::CoalesceJob;
use super::columns::EventColumns;
use super::handle::SessionHandle;
use super::large_snapshot::LargeSnapshot;
use super::message::{Body, seal};
use super::outbox_entry::{Content, Entry, Message, MessageContent, Taken};

/// The limits of the messages that a session may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) bytes_max: usize,
    pub(super) messages_max: usize,
}

/// A message without a number.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// May be coalesced with adjacent ones.
    Events(EventColumns),
    /// Anything else.
    Other(Body),
    Large(Arc<LargeSnapshot>),
}

/// The result of resuming after a message.
#[derive(Debug, PartialEq)]
pub(super) enum Rewound {
    Done,
    /// The outbox no longer holds the messages after it.
    Gap,
    /// No message has this number yet.
    Ahead,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Outbox {
    entries: VecDeque<Entry>,
    /// The large snapshots in `entries`, and possibly some that were dropped.
    large: Vec<Weak<LargeSnapshot>>,
    /// Number of entries that were read completely.
    read: usize,
    /// Number of the next message to be read.
    position: u64,
    /// Number of the next message to be added.
    next: u64,
    bytes: usize,
    unread_bytes: usize,
    /// Number of the first message that is being coalesced, if any.
    coalescing: Option<u64>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            large: Vec::new(),
            read: 0,
            position: 1,
            next: 1,
            bytes: 0,
            unread_bytes: 0,
            coalescing: None,
        }
    }
}

impl Outbox {
    /// Bytes of all messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a large snapshot is unread.
    pub(super) fn holds_large(&self) -> bool {
        self.large().any(|snapshot| snapshot.is_unread())
    }

    fn large(&self) -> impl Iterator<Item = Arc<LargeSnapshot>> {
        self.large.iter().filter_map(Weak::upgrade)
    }

    /// Releases the unread large snapshots.
    pub(super) fn release_unread(&self) {
        let unread = self.large().filter(|snapshot| snapshot.is_unread());
        unread.for_each(|snapshot| snapshot.release());
    }

    /// Releases the large snapshots whose last message was read at or before this time.
    pub(super) fn release_delivered(&mut self, until: Instant) {
        let is_held = |snapshot: Arc<LargeSnapshot>| !snapshot.release_delivered(until);
        self.large.retain(|snapshot| snapshot.upgrade().is_some_and(is_held));
    }

    /// Number of the last message that was read.
    pub(super) fn read_sequence(&self) -> u64 {
        self.position - 1
    }

    /// Number of the next message to be added.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Adds a message.
    pub(super) fn push(&mut self, handle: &SessionHandle, outgoing: Outgoing, epoch_done: bool) {
        let first = self.next;
        let (last, content) = match outgoing {
            Outgoing::Events(columns) => (first, Content::Events(Arc::new(columns))),
            Outgoing::Other(body) => {
                (first, Content::Sealed(seal(body, handle, (first, first), epoch_done)))
            }
            Outgoing::Large(snapshot) => {
                self.large.push(Arc::downgrade(&snapshot));
                (first + snapshot.messages() - 1, Content::Large(snapshot))
            }
        };
        self.add(Entry { first, last, epoch_done, content });
    }

    fn add(&mut self, entry: Entry) {
        self.next = entry.last + 1;
        self.bytes += entry.bytes();
        self.unread_bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// Takes the next unread message; `None` if there is none or it is not ready.
    pub(super) fn take(&mut self, now: Instant) -> Option<Taken> {
        let (sequence, read) = (self.position, self.read);
        let entry = self.entries.get_mut(read)?;
        let (first, last, bytes) = (entry.first, entry.last, entry.bytes());
        let is_last_of_epoch = entry.epoch_done;
        let message = |numbers: (u64, u64), content| {
            let epoch_done = is_last_of_epoch && numbers.1 == last;
            Taken::Message(Message { numbers, epoch_done, content })
        };
        let mut next = last + 1;
        let taken = match &entry.content {
            Content::Events(columns) => {
                message((first, last), MessageContent::Events(columns.clone()))
            }
            Content::Sealed(bytes) => message((first, last), MessageContent::Sealed(bytes.clone())),
            Content::Lagged(bytes) => Taken::Lagged(bytes.clone()),
            Content::Coalescing(_) => return None,
            Content::Released(region_id) => {
                Taken::Released { region_id: *region_id, region: None, numbers: (sequence, last) }
            }
            Content::Large(snapshot) => match snapshot.read() {
                Some(_) if !snapshot.is_ready() => return None,
                Some(held) => {
                    next = sequence + 1;
                    if next > last {
                        snapshot.deliver(now);
                    }
                    let (snapshot, index) = (snapshot.clone(), sequence - first);
                    message((sequence, sequence), MessageContent::Members(snapshot, held, index))
                }
                None => {
                    let (region_id, region) = (snapshot.region_id, Some(snapshot.region));
                    entry.content = Content::Released(region_id);
                    Taken::Released { region_id, region, numbers: (sequence, last) }
                }
            },
        };
        self.position = next;
        if next > last {
            self.unread_bytes -= bytes;
            self.read += 1;
        }
        Some(taken)
    }

    /// Drops the first `count` entries, which must have been read.
    fn forget(&mut self, count: usize) {
        for entry in self.entries.drain(..count) {
            self.bytes -= entry.bytes();
        }
        self.read -= count;
    }

    /// Moves the reader, backward or forward, to the position after the message `sequence`.
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
        // A reader that resumes after a snapshot has received the whole snapshot.
        for entry in self.entries.range(..place) {
            if let Content::Large(snapshot) = &entry.content {
                snapshot.deliver(now);
            }
        }
        Rewound::Done
    }

    /// Drops read messages, oldest first, until the bounds are met. Returns false if the unread
    /// messages still exceed them.
    pub(super) fn fit(&mut self, bounds: &Bounds) -> bool {
        let is_over = |outbox: &Self| {
            outbox.bytes > bounds.bytes_max || outbox.entries.len() > bounds.messages_max
        };
        while is_over(self) && self.read > 0 {
            self.forget(1);
        }
        !is_over(self)
    }

    /// Whether messages are unread.
    pub(super) fn has_unread(&self) -> bool {
        self.position < self.next
    }

    /// Whether the unread messages exceed half of a bound.
    pub(super) fn is_half_unread(&self, bounds: &Bounds) -> bool {
        let messages = self.entries.len() - self.read;
        2 * self.unread_bytes > bounds.bytes_max || 2 * messages > bounds.messages_max
    }

    /// Number of the first message that is being coalesced, if any.
    pub(super) fn coalescing(&self) -> Option<u64> {
        self.coalescing
    }

    /// Takes out the unread messages, except a snapshot that was read in part, to be coalesced.
    /// They cannot be read until [`Self::finish_coalescing`].
    pub(super) fn begin_coalescing(&mut self) -> Option<CoalesceJob> {
        let begun = self.entries.get(self.read).filter(|entry| entry.first < self.position);
        let entries: Vec<Entry> =
            self.entries.split_off(self.read + usize::from(begun.is_some())).into();
        let (first, last) = (entries.first()?.first, entries.last()?.last);
        let content = Content::Coalescing(entries.iter().map(Entry::bytes).sum());
        self.entries.push_back(Entry { first, last, epoch_done: false, content });
        self.coalescing = Some(first);
        Some(CoalesceJob { first, entries })
    }

    /// Puts the coalesced messages in the place of the originals. Returns false if those were lost
    /// meanwhile.
    pub(super) fn finish_coalescing(&mut self, job: CoalesceJob) -> bool {
        if self.coalescing != Some(job.first) {
            return false;
        }
        self.coalescing = None;
        let place = self.entries.partition_point(|entry| entry.last < job.first);
        let later = self.entries.split_off(place).into_iter().skip(1);
        self.entries.extend(job.entries.into_iter().chain(later));
        self.bytes = self.entries.iter().map(Entry::bytes).sum();
        self.unread_bytes = self.entries.range(self.read..).map(Entry::bytes).sum();
        true
    }

    /// Drops all unread messages; the message `lagged` takes over their numbers. If there are none,
    /// it takes the next number.
    pub(super) fn lag(&mut self, handle: &SessionHandle, lagged: Body) {
        let (first, last) = (self.position, self.position.max(self.next - 1));
        let is_begun = self.entries.get(self.read).is_some_and(|entry| entry.first < first);
        for entry in self.entries.drain(self.read..) {
            self.bytes -= entry.bytes();
        }
        if is_begun {
            // Part of a snapshot was read, so a reader cannot resume from the messages before it.
            self.forget(self.read);
        }
        (self.unread_bytes, self.coalescing) = (0, None);
        let content = Content::Lagged(seal(lagged, handle, (first, last), false));
        self.add(Entry { first, last, epoch_done: false, content });
    }

    /// Drops all messages; the numbering continues.
    pub(super) fn reset(&mut self) {
        let next = self.next;
        *self = Self { position: next, next, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use shoal_engine::EventKind;
    use shoal_proto::v1;

    use super::super::columns::{EventSlice, EventWriter};
    use super::super::message::{EpochStamp, MessageFormat, lagged_body};
    use super::*;

    const WIDE: Bounds = Bounds { bytes_max: 1 << 20, messages_max: 1000 };

    fn events(object: u64, kind: EventKind) -> Outgoing {
        let (format, stamp) = (MessageFormat::numeric(), EpochStamp { epoch: object, clock_ms: 0 });
        let mut writer = EventWriter::new(&format, stamp, 0, 1 << 20);
        let (objects, kinds) = (&[object], &[kind as u8]);
        writer.add(EventSlice { region_id: 1, objects, kinds, fixes: &[] });
        Outgoing::Events(writer.finish().remove(0))
    }

    fn filled(messages: u64) -> (Outbox, SessionHandle) {
        let (mut outbox, handle) = (Outbox::default(), SessionHandle::draw(1, 1).unwrap());
        for object in 1..=messages {
            outbox.push(&handle, events(object, EventKind::Enter), true);
        }
        (outbox, handle)
    }

    fn coalesce(outbox: &mut Outbox, bounds: &Bounds) -> Option<u64> {
        let (job, saved) =
            outbox.begin_coalescing().unwrap().run(&MessageFormat::numeric(), bounds, |_| true)?;
        assert!(outbox.finish_coalescing(job));
        Some(saved)
    }

    /// First and last number of the next message.
    fn taken(outbox: &mut Outbox) -> Option<(u64, u64)> {
        let bytes = match outbox.take(Instant::now())? {
            Taken::Message(message) => {
                message.seal(&MessageFormat::numeric(), &SessionHandle::draw(1, 1).unwrap())
            }
            Taken::Lagged(bytes) => bytes,
            taken => panic!("{taken:?} is of a snapshot"),
        };
        let message = v1::SubscribeResponse::decode(bytes).unwrap();
        Some((message.first_sequence, message.last_sequence))
    }

    fn rewind(outbox: &mut Outbox, sequence: u64) -> Rewound {
        outbox.rewind(sequence, Instant::now())
    }

    #[test]
    fn read_messages_are_kept_until_capacity_is_needed() {
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
        outbox.push(&handle, events(2, EventKind::Left), true);
        let before = outbox.bytes();
        assert_eq!(coalesce(&mut outbox, &WIDE), Some(2));
        assert!(outbox.bytes() < before);
        assert_eq!(rewind(&mut outbox, 2), Rewound::Gap, "one inside has no number of its own");
        assert_eq!(rewind(&mut outbox, 1), Rewound::Done);
        assert_eq!(taken(&mut outbox), Some((2, 5)));
        assert_eq!(taken(&mut outbox), None);
        let none = Bounds { bytes_max: 0, ..WIDE };
        outbox.push(&handle, events(9, EventKind::Left), true);
        assert!(outbox.is_half_unread(&none) && !outbox.is_half_unread(&WIDE));
        assert_eq!(coalesce(&mut outbox, &none), None);
    }

    #[test]
    fn messages_being_coalesced_keep_their_place_or_are_lost() {
        let (mut outbox, handle) = filled(4);
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        let before = outbox.bytes();
        let job = outbox.begin_coalescing().unwrap();
        outbox.push(&handle, events(5, EventKind::Left), true);
        assert!(outbox.coalescing() == Some(2) && outbox.bytes() > before);
        assert_eq!((taken(&mut outbox), rewind(&mut outbox, 0)), (None, Rewound::Done));
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        assert!(outbox.finish_coalescing(job));
        let all: Vec<_> = std::iter::from_fn(|| taken(&mut outbox)).collect();
        assert_eq!(all, [(2, 2), (3, 3), (4, 4), (5, 5)]);
        outbox.push(&handle, events(6, EventKind::Left), true);
        let job = outbox.begin_coalescing().unwrap();
        outbox.lag(&handle, lagged_body(Vec::new()));
        assert!(!outbox.finish_coalescing(job) && outbox.coalescing().is_none());
        assert_eq!(taken(&mut outbox), Some((6, 6)));
        assert!(outbox.begin_coalescing().is_none());
    }

    #[test]
    fn lost_messages_are_reported_under_their_numbers() {
        let (mut outbox, handle) = filled(5);
        assert_eq!(taken(&mut outbox), Some((1, 1)));
        outbox.lag(&handle, lagged_body(Vec::new()));
        outbox.push(&handle, events(7, EventKind::Enter), true);
        assert_eq!((taken(&mut outbox), taken(&mut outbox)), (Some((2, 5)), Some((6, 6))));
        assert_eq!((rewind(&mut outbox, 1), taken(&mut outbox)), (Rewound::Done, Some((2, 5))));
        assert_eq!(rewind(&mut outbox, 3), Rewound::Gap);
        // If nothing is unread, `lagged` takes a new number.
        assert_eq!((rewind(&mut outbox, 6), taken(&mut outbox)), (Rewound::Done, None));
        outbox.lag(&handle, lagged_body(Vec::new()));
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
        coalesce(&mut outbox, &WIDE);
        outbox.fit(&Bounds { messages_max: 4, ..WIDE });
        assert_eq!(outbox.bytes(), outbox.entries.iter().map(Entry::bytes).sum::<usize>());
        outbox.lag(&handle, lagged_body(Vec::new()));
        assert_eq!(outbox.bytes(), outbox.entries.iter().map(Entry::bytes).sum::<usize>());
        taken(&mut outbox);
        assert_eq!(outbox.unread_bytes, 0);
    }
}
