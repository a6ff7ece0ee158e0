//! Reads a log in order and verifies every frame: for recovery, followers and inspection.
//!
//! The first invalid frame ends the log if no later frame states that it was synced (a torn tail);
//! otherwise it is damage, and an error. LOG.md, section 7, argues every case.

use std::ops::Range;
use std::sync::Arc;

use crate::cycle_source::CycleSource;
use crate::error::LogError;
use crate::frame::{FrameHeader, FrameKind};
use crate::limits::{FRAME_HEADER_BYTES, PAGE_BYTES, READ_BYTES, STREAM_READ_BYTES};
use crate::log_bounds::LogBounds;
use crate::position::{Position, SegmentInfo};
use crate::read_options::{ReadMode, ReadOptions};
use crate::record::LoggedCycle;
use crate::recovered::{Cursor, ReadCounts, Recovered, TornTail};
use crate::segment_list::SegmentList;
use crate::segment_window::SegmentWindow;
use crate::storage::Storage;
use crate::tail::Tail;
use crate::terms::PastTerm;
use crate::wire::{is_zero, page_align};

/// A valid frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Offset in its segment.
    pub offset: u64,
    /// Its header.
    pub header: FrameHeader,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The encoded cycles, as they are streamed to followers. Their checksum is in the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Iterates over its cycles. Ends after an error.
    pub fn cycles(&self) -> impl Iterator<Item = Result<LoggedCycle<'a>, String>> + use<'a> {
        let (term, mut rest) = (self.header.term, self.payload);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let cycle = LoggedCycle::parse(term, rest);
            rest = cycle.as_ref().map_or(&[], |cycle| &rest[cycle.encoded().len()..]);
            Some(cycle)
        })
    }
}

/// The fault of a frame that begins within the file and ends beyond it.
const CUT: &str = "the file ends within the frame";

/// Reads the log in a folder.
#[derive(Debug)]
pub struct LogReader {
    list: SegmentList,
    options: ReadOptions,
    /// Whether payloads are read in parts and not verified.
    is_streamed: bool,
    /// The log must reach this epoch.
    durable_epoch: u64,
    /// Index of the current segment in the list.
    current: usize,
    window: Option<SegmentWindow>,
    cursor: Cursor,
    /// The state before the last frame.
    before: Cursor,
    frame: Option<FrameHeader>,
    /// Offset of the next record in the payload of the frame.
    record_at: usize,
    /// Epoch of the last record.
    record_epoch: u64,
    ended_terms: Vec<PastTerm>,
    counts: ReadCounts,
    end: Option<(Tail, Option<TornTail>)>,
    /// See [`Self::read_through`].
    through: Position,
}

impl LogReader {
    /// Opens the log in `folder` at the last segment whose `epoch_before` is below
    /// [`ReadOptions::after_epoch`], or at the first segment if its `epoch_before` equals it.
    ///
    /// # Errors
    /// [`LogError::Gap`] if the first segment begins after that epoch; errors of the disk, or of a
    /// file that is damaged or belongs to another fleet or version.
    pub fn open(
        storage: Arc<dyn Storage>,
        folder: &str,
        options: ReadOptions,
    ) -> Result<Self, LogError> {
        Self::with_list(storage, folder, options, false)
    }

    /// As [`Self::open`], for [`Self::next_header`] and [`Self::payload_part`]: memory use does not
    /// depend on the size of frames. Checksums of payloads are not verified.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_streamed(
        storage: Arc<dyn Storage>,
        folder: &str,
        options: ReadOptions,
    ) -> Result<Self, LogError> {
        Self::with_list(storage, folder, options, true)
    }

    fn with_list(
        storage: Arc<dyn Storage>,
        folder: &str,
        options: ReadOptions,
        is_streamed: bool,
    ) -> Result<Self, LogError> {
        let list = SegmentList::read(storage, folder, &options)?;
        let mut bounds = None;
        if matches!(options.mode, ReadMode::Recover | ReadMode::Inspect) {
            bounds = LogBounds::load(&*list.storage, folder)?;
            list.check(bounds)?;
        }
        let mut reader = Self {
            list,
            is_streamed,
            durable_epoch: bounds.map_or(0, |bounds| bounds.durable_epoch),
            options,
            current: 0,
            window: None,
            cursor: Cursor::default(),
            before: Cursor::default(),
            frame: None,
            record_at: 0,
            record_epoch: 0,
            ended_terms: Vec::new(),
            counts: ReadCounts::default(),
            end: None,
            through: Position::default(),
        };
        if let Some(first) = reader.list.start(&reader.options)? {
            reader.enter(first)?;
        } else if reader.options.after_epoch > 0 && reader.options.mode == ReadMode::Recover {
            return Err(reader.behind(reader.options.after_epoch));
        } else {
            reader.end = Some((Tail::default(), None));
        }
        Ok(reader)
    }

    fn enter(&mut self, index: usize) -> Result<(), LogError> {
        let entry = &self.list.entries[index];
        let piece = if self.is_streamed { STREAM_READ_BYTES } else { READ_BYTES };
        let window = self.list.open_window(entry, piece)?;
        if self.window.is_none()
            && let Ok(header) = &entry.header
        {
            self.cursor = Cursor::at_start_of(header);
        } else {
            self.cursor.offset = PAGE_BYTES as u64;
        }
        (self.window, self.current) = (Some(window), index);
        self.limit_window();
        Ok(())
    }

    /// Allows a reader of [`ReadMode::Through`] to read on to `synced`, a later position of the
    /// writer.
    pub fn read_through(&mut self, synced: Position) {
        self.options.mode = ReadMode::Through(synced.sequence);
        self.through = synced;
        // The writer may have written after the last frame since it was read.
        if let Some(window) = &mut self.window {
            window.forget_from(self.cursor.offset);
        }
        self.limit_window();
    }

    /// Limits the read-ahead of [`ReadMode::Through`] to pages that the writer has written.
    fn limit_window(&mut self) {
        let is_last = self.position().segment == self.through.segment;
        if let Some(window) = &mut self.window {
            window.read_to(if is_last { self.through.offset } else { u64::MAX });
        }
    }

    /// The term at the current position.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.cursor.term
    }

    /// The segments of the log whose headers are valid, ascending.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.list.infos(usize::MAX)
    }

    /// The end of the last frame that was read.
    #[must_use]
    pub fn position(&self) -> Position {
        let segment = self.list.entries.get(self.current).map_or(0, |entry| entry.number);
        self.cursor.position(segment)
    }

    /// Counts of what was read so far.
    #[must_use]
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    /// Bytes of the rest of the current segment and of all later ones: an upper bound of what
    /// remains to be read.
    #[must_use]
    pub fn remaining_bytes(&self) -> u64 {
        let all: u64 = self.list.infos(usize::MAX).iter().map(|info| info.bytes).sum();
        let done: u64 = self.list.infos(self.current).iter().map(|info| info.bytes).sum();
        all.saturating_sub(done).saturating_sub(self.cursor.offset)
    }

    /// Returns the next frame, marks included; `None` at the end of the log.
    ///
    /// # Errors
    /// [`LogError::Corrupt`], [`LogError::Content`], or an error of the disk. Every error is final.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, LogError> {
        if !self.advance()? {
            return Ok(None);
        }
        let (Some(header), Some(window)) = (self.frame, &self.window) else { return Ok(None) };
        self.record_at = header.payload_bytes as usize;
        let offset = self.before.offset;
        let start = FRAME_HEADER_BYTES;
        let bytes = window.bytes(offset, start + header.payload_bytes as usize);
        Ok(Some(Frame { offset, header, payload: &bytes[start..] }))
    }

    /// Returns the header of the next frame of a log opened with [`Self::open_streamed`]; `None` at
    /// the end of the log.
    ///
    /// # Errors
    /// As [`Self::next_frame`].
    pub fn next_header(&mut self) -> Result<Option<FrameHeader>, LogError> {
        Ok(if self.advance()? { self.frame } else { None })
    }

    /// Returns the next bytes, at most `bytes_max`, of the payload of the frame that
    /// [`Self::next_header`] returned; an empty slice at its end.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if the file ends within the payload, or an error of the disk.
    pub fn payload_part(&mut self, bytes_max: usize) -> Result<&[u8], LogError> {
        let rest = self.payload_bytes() - self.record_at;
        let count = rest.min(bytes_max);
        let begin = self.before.offset + (FRAME_HEADER_BYTES + self.record_at) as u64;
        let page = begin / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let skipped = (begin - page) as usize;
        let number = self.list.entries[self.current].number;
        let failed = LogError::storage("read", self.list.display(number));
        let is_there = match &mut self.window {
            Some(window) => window.load(page, page_align(skipped + count)).map_err(failed)?,
            None => false,
        };
        if !is_there {
            return Err(self.corrupt(number, begin, CUT.into(), self.cursor.epoch));
        }
        self.record_at += count;
        Ok(self
            .window
            .as_ref()
            .map_or(&[], |window| &window.bytes(page, skipped + count)[skipped..]))
    }

    /// True if the payload of the current frame was read to its end.
    #[must_use]
    pub fn is_payload_read(&self) -> bool {
        self.record_at == self.payload_bytes()
    }

    /// Reads the rest of the log and returns its end, for [`crate::LogWriter::open`].
    ///
    /// # Errors
    /// As [`Self::next_frame`]; [`LogError::Behind`] if the log ends before
    /// [`ReadOptions::after_epoch`] or the durable epoch of its bounds, unless the mode is
    /// [`ReadMode::Repair`].
    pub fn finish(mut self) -> Result<Recovered, LogError> {
        while self.advance()? {}
        let needed = self.options.after_epoch.max(self.durable_epoch);
        if self.cursor.epoch < needed && self.options.mode != ReadMode::Repair {
            return Err(self.behind(needed));
        }
        let (tail, torn) = self.end.take().unwrap_or_default();
        let segment = self.list.entries.get(self.current);
        let segment = segment.and_then(|entry| entry.header.clone().ok());
        let behind = self.list.entries.iter().skip(self.current + 1);
        Ok(Recovered {
            orphan_segments: behind.map(|entry| entry.number).collect(),
            segments: self.list.infos(self.current + 1),
            segment,
            cursor: self.cursor,
            orphans: tail.orphans,
            torn,
            ended_terms: self.ended_terms,
            counts: self.counts,
            is_synced: self.options.mode.is_synced(),
        })
    }

    fn behind(&self, needed: u64) -> LogError {
        LogError::Behind { folder: self.list.display_folder(), end: self.cursor.epoch, needed }
    }

    fn payload_bytes(&self) -> usize {
        self.frame.map_or(0, |frame| frame.payload_bytes as usize)
    }

    /// Moves to the next frame and verifies it. Returns false at the end of the log.
    fn advance(&mut self) -> Result<bool, LogError> {
        let is_through = matches!(self.options.mode, ReadMode::Through(last)
            if self.cursor.sequence >= last);
        if self.end.is_some() || is_through {
            return Ok(false);
        }
        if self.cursor.kind == Some(FrameKind::Seal) && !self.enter_next()? {
            return Ok(false);
        }
        match self.read_frame()? {
            Ok((header, crc)) => {
                self.accept(header, crc)?;
                Ok(true)
            }
            Err(reason) => {
                self.stop(reason)?;
                Ok(false)
            }
        }
    }

    /// Returns the frame at the cursor, or why it is not valid.
    fn read_frame(&mut self) -> Result<Result<(FrameHeader, u32), &'static str>, LogError> {
        let (entry, cursor) = (&self.list.entries[self.current], self.cursor);
        let failed = || LogError::storage("read", self.list.display(entry.number));
        let (Ok(segment), Some(window)) = (&entry.header, &mut self.window) else {
            return Ok(Err("the segment has no header"));
        };
        if cursor.offset >= segment.bytes
            || !window.load(cursor.offset, PAGE_BYTES).map_err(failed())?
        {
            return Ok(Err("the segment ends without a seal"));
        }
        let page = window.bytes(cursor.offset, PAGE_BYTES);
        let is_cut = window.ends_before(cursor.offset + PAGE_BYTES as u64) && !is_zero(page);
        let parsed = FrameHeader::parse(page);
        let checked = parsed.and_then(|(frame, crc)| {
            frame.continues(segment, cursor.sequence, cursor.crc, cursor.offset)?;
            Ok((frame, crc))
        });
        let Ok((frame, crc)) = checked else {
            return Ok(if is_cut { Err(CUT) } else { checked });
        };
        if self.is_streamed {
            return Ok(Ok((frame, crc)));
        }
        if !window.load(cursor.offset, frame.frame_bytes() as usize).map_err(failed())? {
            return Ok(Err(CUT));
        }
        let payload_bytes = frame.payload_bytes as usize;
        let length = FRAME_HEADER_BYTES + payload_bytes;
        let bytes = window.bytes(cursor.offset, length);
        if crc32c::crc32c(&bytes[FRAME_HEADER_BYTES..]) != frame.payload_crc {
            let is_cut = window.ends_before(cursor.offset + length as u64);
            return Ok(Err(if is_cut { CUT } else { "the checksum of the cycles differs" }));
        }
        Ok(Ok((frame, crc)))
    }

    /// Checks the content of a valid frame and moves the cursor after it.
    fn accept(&mut self, frame: FrameHeader, crc: u32) -> Result<(), LogError> {
        let cursor = self.cursor;
        let display = || self.list.display(self.list.entries[self.current].number);
        let wrong = |reason: String| Err(LogError::content(display(), cursor.offset, reason));
        let Some(kind) = FrameKind::of(frame.kind) else {
            return wrong(format!("unknown kind of frame: {}", frame.kind));
        };
        let is_mark = frame.cycles == 0 && frame.payload_bytes == 0;
        let is_right = match kind {
            FrameKind::Cycles => {
                !is_mark
                    && frame.term == cursor.term
                    && cursor.epoch < frame.epoch_first
                    && frame.epoch_first <= frame.epoch_last
            }
            FrameKind::Start => is_mark && frame.epoch_last >= cursor.epoch,
            FrameKind::Seal | FrameKind::Clean => {
                is_mark && frame.epoch_last == cursor.epoch && frame.term == cursor.term
            }
        };
        if !is_right {
            return wrong(format!(
                "a frame of kind {kind:?} with term, epochs or size not allowed"
            ));
        }
        if kind == FrameKind::Start
            && frame.epoch_last > cursor.epoch
            && self.options.after_epoch < frame.epoch_last
            && self.options.mode != ReadMode::Inspect
        {
            return Err(LogError::Gap {
                folder: self.list.display_folder(),
                needed: self.options.after_epoch.max(cursor.epoch),
                first: frame.epoch_last.saturating_add(1),
            });
        }
        if frame.term != cursor.term {
            let last_epoch = frame.epoch_last;
            self.ended_terms.push(PastTerm { term: cursor.term, last_epoch });
        }
        self.before = cursor;
        self.cursor = Cursor {
            offset: cursor.offset + frame.frame_bytes(),
            sequence: frame.sequence,
            crc,
            epoch: frame.epoch_last,
            term: frame.term,
            system_ms: frame.system_ms,
            kind: Some(kind),
        };
        (self.frame, self.record_at, self.record_epoch) = (Some(frame), 0, cursor.epoch);
        self.counts.frames += 1;
        self.counts.cycles += u64::from(frame.cycles);
        self.counts.bytes += frame.frame_bytes();
        Ok(())
    }

    /// Moves to the segment after a seal. Returns false if that segment is damaged and the mode is
    /// [`ReadMode::Repair`].
    fn enter_next(&mut self) -> Result<bool, LogError> {
        let number = self.list.entries[self.current].number.wrapping_add(1);
        if matches!(self.options.mode, ReadMode::Through(_)) {
            self.list.refresh(&self.options)?;
        }
        let next = self.list.entries.get(self.current + 1).filter(|it| it.number == number);
        let reason = match next.map(|entry| &entry.header) {
            None => "the segment is missing, the one before is sealed".to_owned(),
            Some(Err(reason)) => reason.clone(),
            Some(Ok(header)) => {
                let start = Cursor { kind: self.cursor.kind, ..Cursor::at_start_of(header) };
                let is_next = Cursor { offset: start.offset, ..self.cursor } == start;
                if is_next {
                    self.enter(self.current + 1)?;
                    // The log now ends before the seal.
                    self.cursor.kind = None;
                    return Ok(true);
                }
                "the segment does not continue the one before".to_owned()
            }
        };
        if self.options.mode == ReadMode::Repair {
            // The seal says that a segment follows, so the log must end before the seal.
            self.cursor = self.before;
            self.end_here(reason)?;
            return Ok(false);
        }
        let later = self.list.entries.iter().rev().find_map(|entry| entry.header.as_ref().ok());
        let last = later.map_or(0, |header| header.epoch_before);
        Err(self.corrupt(number, 0, reason, last))
    }

    /// Handles an invalid frame at the cursor: an error if it is damage, otherwise the log ends
    /// here.
    fn stop(&mut self, reason: &'static str) -> Result<(), LogError> {
        let tail = self.scan_tail()?;
        let mut synced = tail.synced_sequence;
        if let ReadMode::Through(last) = self.options.mode {
            synced = synced.max(last);
        }
        // A segment has all its bytes before it gets its name, so a shorter file was cut.
        let is_damaged = synced > self.cursor.sequence || reason == CUT;
        if is_damaged && self.options.mode != ReadMode::Repair {
            let number = self.list.entries[self.current].number;
            return Err(self.corrupt(number, self.cursor.offset, reason.into(), tail.last_epoch));
        }
        self.end_at(reason.into(), tail);
        Ok(())
    }

    fn end_here(&mut self, reason: String) -> Result<(), LogError> {
        let tail = self.scan_tail()?;
        self.end_at(reason, tail);
        Ok(())
    }

    fn end_at(&mut self, reason: String, tail: Tail) {
        let torn = (!tail.orphans.is_empty()).then(|| TornTail {
            segment: self.list.entries[self.current].number,
            offset: self.cursor.offset,
            reason,
            frames: tail.orphans.len(),
        });
        if self.options.mode == ReadMode::Repair {
            // A clean mark before the end is ignored, because cycles after it are lost.
            self.cursor.kind = None;
        }
        self.end = Some((tail, torn));
        (self.frame, self.record_at) = (None, 0);
    }

    /// Collects the sequences, epochs and orphans of all frame and segment headers after the
    /// cursor.
    fn scan_tail(&mut self) -> Result<Tail, LogError> {
        let mut tail = Tail::default();
        for (index, entry) in self.list.entries.iter().enumerate().skip(self.current) {
            let is_end = index == self.current;
            let failed = LogError::storage("read", self.list.display(entry.number));
            match (&entry.header, is_end, &mut self.window) {
                (Ok(header), true, Some(window)) => {
                    tail.scan(window, header, self.cursor.offset, true).map_err(failed)?;
                }
                (Ok(header), _, _) => {
                    tail.synced_sequence = tail.synced_sequence.max(header.synced_sequence);
                    let mut window = self.list.open_window(entry, READ_BYTES)?;
                    tail.scan(&mut window, header, PAGE_BYTES as u64, false).map_err(failed)?;
                }
                // A segment gets its name after its header was synced, so this is damage.
                (Err(_), _, _) => tail.synced_sequence = u64::MAX,
            }
        }
        Ok(tail)
    }

    fn corrupt(&self, number: u64, offset: u64, reason: String, last_epoch: u64) -> LogError {
        let lost = if last_epoch > self.cursor.epoch {
            format!("epochs {} to {last_epoch} and any later ones are lost", self.cursor.epoch + 1)
        } else {
            "synced frames behind it are lost".to_owned()
        };
        let (file, epoch) = (self.list.display(number), self.cursor.epoch);
        LogError::Corrupt { file, offset, reason, epoch, lost }
    }

    /// Verifies the next record of the current frame, moves after it and returns its range.
    fn take_record(&mut self) -> Result<Range<usize>, LogError> {
        let (Some(frame), Some(window)) = (self.frame, &self.window) else { return Ok(0..0) };
        let start = FRAME_HEADER_BYTES + self.record_at;
        let end = FRAME_HEADER_BYTES + self.payload_bytes();
        let bytes = &window.bytes(self.before.offset, end)[start..];
        let parsed = LoggedCycle::parse(frame.term, bytes).and_then(|cycle| {
            let (epoch, length) = (cycle.header.epoch, cycle.encoded().len());
            let is_placed = epoch > self.record_epoch
                && (self.record_at == 0) == (epoch == frame.epoch_first)
                && (length == bytes.len()) == (epoch == frame.epoch_last);
            if is_placed { Ok((epoch, length)) } else { Err(format!("epoch {epoch} is misplaced")) }
        });
        let (epoch, length) = parsed.map_err(|reason| {
            let file = self.list.display(self.list.entries[self.current].number);
            LogError::content(file, self.before.offset + start as u64, reason)
        })?;
        self.record_at += length;
        self.record_epoch = epoch;
        Ok(start..start + length)
    }
}

impl CycleSource for LogReader {
    fn next_cycle(&mut self) -> Result<Option<LoggedCycle<'_>>, LogError> {
        let record = loop {
            if self.record_at < self.payload_bytes() {
                let record = self.take_record()?;
                if self.record_epoch > self.options.after_epoch {
                    break record;
                }
            } else if !self.advance()? {
                return Ok(None);
            }
        };
        let (Some(frame), Some(window)) = (self.frame, &self.window) else { return Ok(None) };
        let bytes = window.bytes(self.before.offset, record.end);
        Ok(Some(LoggedCycle::of_checked(frame.term, &bytes[record])))
    }
}
