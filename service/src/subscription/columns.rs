//! Stores the events of a session's messages as columns.
//!
//! Events are copied from the event set of their cycle, so that a slow session does not keep the
//! set in memory. They are encoded only when a reader takes the message, because coalescing works
//! on columns.

use shoal_codec::FixRow;

use super::message::{EVENTS_PIECE_BYTES, EpochStamp, MessageFormat};

/// The events of one message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct EventColumns {
    pub(super) stamp: EpochStamp,
    /// The first epoch of a coalesced message, else 0.
    pub(super) coalesced_from_epoch: u64,
    pieces: Vec<Piece>,
    objects: Vec<u64>,
    kinds: Vec<u8>,
    fixes: Vec<FixRow>,
}

/// Consecutive rows of one region.
#[derive(Debug, PartialEq)]
struct Piece {
    region_id: u64,
    rows: u32,
    with_fixes: bool,
}

/// Events of one region. `kinds` has the numbers of the event kinds, which are the same on the wire
/// and in the engine; `fixes` is empty or as long as `objects`.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventSlice<'a> {
    pub(super) region_id: u64,
    pub(super) objects: &'a [u64],
    pub(super) kinds: &'a [u8],
    pub(super) fixes: &'a [FixRow],
}

impl EventColumns {
    /// Creates columns without events.
    pub(super) fn new(stamp: EpochStamp, coalesced_from_epoch: u64) -> Self {
        Self { stamp, coalesced_from_epoch, ..Self::default() }
    }

    /// Bytes of memory of the columns.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
            + self.objects.capacity() * size_of::<u64>()
            + self.kinds.capacity()
            + self.fixes.capacity() * size_of::<FixRow>()
    }

    /// Iterates over the pieces in order; a region may have several.
    pub(super) fn slices(&self) -> impl Iterator<Item = EventSlice<'_>> {
        let (mut row, mut fix) = (0, 0);
        self.pieces.iter().map(move |piece| {
            let (first, first_fix) = (row, fix);
            row += piece.rows as usize;
            fix += if piece.with_fixes { piece.rows as usize } else { 0 };
            EventSlice {
                region_id: piece.region_id,
                objects: &self.objects[first..row],
                kinds: &self.kinds[first..row],
                fixes: &self.fixes[first_fix..fix],
            }
        })
    }
}

/// Fills messages with events up to a number of encoded bytes.
#[derive(Debug)]
pub(super) struct EventWriter<'a> {
    format: &'a MessageFormat,
    bytes_target: usize,
    /// Upper bound of the encoded bytes of `columns`.
    bytes: usize,
    columns: EventColumns,
    messages: Vec<EventColumns>,
}

impl<'a> EventWriter<'a> {
    pub(super) fn new(
        format: &'a MessageFormat,
        stamp: EpochStamp,
        coalesced_from_epoch: u64,
        bytes_target: usize,
    ) -> Self {
        let columns = EventColumns::new(stamp, coalesced_from_epoch);
        Self { format, bytes_target, bytes: 0, columns, messages: Vec::new() }
    }

    /// Adds events; those that do not fit into the current message begin the next one.
    pub(super) fn add(&mut self, mut events: EventSlice<'_>) {
        let row_bytes = 1 + self.format.row_bytes(!events.fixes.is_empty());
        while !events.objects.is_empty() {
            if self.bytes + EVENTS_PIECE_BYTES + row_bytes > self.bytes_target {
                self.flush();
            }
            let free_bytes = self.bytes_target.saturating_sub(self.bytes + EVENTS_PIECE_BYTES);
            let rows = events.objects.len().min((free_bytes / row_bytes).max(1));
            let (objects, objects_left) = events.objects.split_at(rows);
            let (kinds, kinds_left) = events.kinds.split_at(rows);
            let (fixes, fixes_left) = events.fixes.split_at(rows.min(events.fixes.len()));
            let with_fixes = !fixes.is_empty();
            let region_id = events.region_id;
            let is_same =
                |last: &&mut Piece| (last.region_id, last.with_fixes) == (region_id, with_fixes);
            match self.columns.pieces.last_mut().filter(is_same) {
                Some(last) => last.rows += rows as u32,
                None => {
                    self.columns.pieces.push(Piece { region_id, rows: rows as u32, with_fixes });
                    self.bytes += EVENTS_PIECE_BYTES;
                }
            }
            self.bytes += rows * row_bytes;
            self.columns.objects.extend_from_slice(objects);
            self.columns.kinds.extend_from_slice(kinds);
            self.columns.fixes.extend_from_slice(fixes);
            (events.objects, events.kinds, events.fixes) = (objects_left, kinds_left, fixes_left);
        }
    }

    fn flush(&mut self) {
        self.bytes = 0;
        let next = EventColumns::new(self.columns.stamp, self.columns.coalesced_from_epoch);
        let mut message = std::mem::replace(&mut self.columns, next);
        // A session counts the capacity of its messages as memory.
        message.pieces.shrink_to_fit();
        message.objects.shrink_to_fit();
        message.kinds.shrink_to_fit();
        message.fixes.shrink_to_fit();
        self.messages.push(message);
    }

    /// Returns the messages; there are none if no events were added.
    pub(super) fn finish(mut self) -> Vec<EventColumns> {
        if !self.columns.pieces.is_empty() {
            self.flush();
        }
        self.messages
    }
}
