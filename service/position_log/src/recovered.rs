//! What a reader found: the verified end of a log, from which a writer continues.
//!
//! Only a reader that syncs what it reads yields an end that a writer accepts.

use crate::frame::FrameKind;
use crate::position::{Position, SegmentInfo};
use crate::segment::SegmentHeader;
use crate::terms::{PastTerm, Terms};

/// Progress of a reader: its state after the last frame that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Offset of the next frame.
    pub(crate) offset: u64,
    /// Sequence of the last frame.
    pub(crate) sequence: u64,
    /// CRC of its header.
    pub(crate) crc: u32,
    /// Last epoch.
    pub(crate) epoch: u64,
    /// Term of the last frame.
    pub(crate) term: u64,
    /// System clock of the last cycle.
    pub(crate) system_ms: i64,
    /// Kind of the last frame.
    pub(crate) kind: Option<FrameKind>,
}

impl Cursor {
    pub(crate) fn at_start_of(header: &SegmentHeader) -> Self {
        Self {
            offset: crate::limits::PAGE_BYTES as u64,
            sequence: header.first_sequence - 1,
            crc: header.previous_crc,
            epoch: header.epoch_before,
            term: header.term,
            system_ms: header.system_ms_before,
            kind: None,
        }
    }

    pub(crate) fn position(&self, segment: u64) -> Position {
        Position { segment, offset: self.offset, sequence: self.sequence, epoch: self.epoch }
    }
}

/// What a reader has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Frames, marks included.
    pub frames: u64,
    /// Cycles.
    pub cycles: u64,
    /// Bytes of frames.
    pub bytes: u64,
}

/// Invalid frames at the end of the log, for example of a write that a crash interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub segment: u64,
    /// Where the log ends.
    pub offset: u64,
    /// Why the frame there is not valid.
    pub reason: String,
    /// Frame headers after the end. No header states that their frames were synced, except with
    /// [`crate::ReadMode::Repair`].
    pub frames: usize,
}

/// A log read to its end.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The segment in which the log ends; `None` if the log has no segments.
    pub(crate) segment: Option<SegmentHeader>,
    pub(crate) cursor: Cursor,
    pub(crate) orphans: Vec<u64>,
    /// Segments after the end.
    pub(crate) orphan_segments: Vec<u64>,
    pub(crate) segments: Vec<SegmentInfo>,
    pub(crate) torn: Option<TornTail>,
    pub(crate) ended_terms: Vec<PastTerm>,
    pub(crate) counts: ReadCounts,
    /// Whether everything before the end is durable.
    pub(crate) is_synced: bool,
}

impl Recovered {
    /// Whether the log has no segment yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.segment.is_none()
    }

    /// True if the log ends with a clean mark: no visible cycle is missing.
    #[must_use]
    pub fn was_clean(&self) -> bool {
        self.cursor.kind == Some(FrameKind::Clean)
    }

    /// Where the log ends.
    #[must_use]
    pub fn end(&self) -> Position {
        self.cursor.position(self.segment.as_ref().map_or(0, |segment| segment.number))
    }

    /// The last term in the log; `None` if the log is new.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.segment.as_ref().map(|_| self.cursor.term)
    }

    /// System clock of the last cycle, Unix milliseconds.
    #[must_use]
    pub fn system_ms(&self) -> i64 {
        self.cursor.system_ms
    }

    /// Terms that ended within the part that was read, oldest first.
    #[must_use]
    pub fn ended_terms(&self) -> &[PastTerm] {
        &self.ended_terms
    }

    /// The term of the next run: the last term if the log ends with a clean mark, else `fresh`.
    #[must_use]
    pub fn next_term(&self, fresh: u64) -> u64 {
        if self.was_clean() { self.cursor.term } else { fresh }
    }

    /// Returns the terms of the checkpoint (`before`), if there is one, extended by the terms that
    /// have ended since and by `term`, the term of the next run's [`crate::LogWriter`].
    #[must_use]
    pub fn terms(&self, before: Option<Terms>, term: u64) -> Terms {
        let last = self.term().unwrap_or(term);
        let first = self.ended_terms.first().map_or(last, |ended| ended.term);
        let mut terms = before.unwrap_or_else(|| Terms::new(first, Vec::new()));
        terms.extend(&self.ended_terms, last);
        if last != term {
            terms.extend(&[PastTerm { term: last, last_epoch: self.cursor.epoch }], term);
        }
        terms
    }

    /// The invalid frames at the end, if any.
    #[must_use]
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// The segments of the log, ascending.
    #[must_use]
    pub fn segments(&self) -> &[SegmentInfo] {
        &self.segments
    }

    /// What the reader has counted.
    #[must_use]
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }
}
