//! Summarizes the log of a fleet: its segments, requests and terms, and how it ends.
//!
//! Damage ends the reading and becomes part of the result, so that everything before it can be
//! shown.

use std::io;

use shoal_codec::FixColumns;
use shoal_engine::Request;
use shoal_position_log::{
    Frame, FrameKind, LogError, LogReader, LoggedCycle, LoggedRequest, Position, ReadCounts,
    ReadMode, RequestBody, SegmentHeader, TornTail, list_segments, segment_path,
};

use super::data_folder::FleetFolder;
use super::rows_body;

/// Receives every frame that was read.
pub(super) type FrameVisitor<'a> = dyn FnMut(&Frame<'_>) -> io::Result<()> + 'a;

/// How much of the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadDepth {
    /// Decodes frames, requests and the headers of blocks.
    Headers,
    /// Also decodes all rows.
    Rows,
}

/// See the file's head.
#[derive(Debug, Default)]
pub struct LogContent {
    /// Oldest first.
    pub segments: Vec<SegmentContent>,
    /// Frames and bytes that were read.
    pub counts: ReadCounts,
    /// Requests and rows in them.
    pub requests: RequestCounts,
    /// Oldest first.
    pub terms: Vec<TermContent>,
    /// Epoch of the first cycle; 0 without one.
    pub first_epoch: u64,
    /// The end of what was read.
    pub end: Position,
    /// Whether the writer was closed in order.
    pub is_clean: bool,
    /// A torn frame at the end, if there is one.
    pub torn: Option<TornTail>,
    /// The error that ended the reading, if any.
    pub fault: Option<LogError>,
}

/// A segment.
#[derive(Debug)]
pub struct SegmentContent {
    /// Its number, as in its file name.
    pub number: u64,
    /// Its header, or what is wrong with the header.
    pub header: Result<SegmentHeader, String>,
    /// Its place in the log.
    pub state: SegmentState,
    /// Frames, cycles and bytes read from it.
    pub counts: ReadCounts,
    /// Epoch of its last cycle, if it has one.
    pub last_epoch: Option<u64>,
}

/// The place of a segment in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Its last frame says that the next segment exists.
    Sealed,
    /// The log ends in it.
    Last,
    /// It comes after the segment in which the log ends; the next writer removes it.
    BehindEnd,
    /// It was not read, because of damage before it or in it.
    Unread,
}

/// Numbers of requests and rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestCounts {
    /// Blocks of clients.
    pub blocks: u64,
    /// Messages of plain rows.
    pub rows: u64,
    pub removals: u64,
    pub clears: u64,
    /// Requests with a producer and a batch number.
    pub numbered: u64,
    /// Rows in blocks and messages.
    pub fixes: u64,
    /// Objects in removals.
    pub removed: u64,
    /// Blocks of clients that do not decode; the engine has refused them too. Counted only with
    /// [`ReadDepth::Rows`].
    pub refused_blocks: u64,
}

/// A term of which the log still has frames.
#[derive(Clone, Copy, Debug)]
pub struct TermContent {
    pub term: u64,
    /// Its first cycle; `None` without one.
    pub first_epoch: Option<u64>,
    /// Its last epoch.
    pub last_epoch: u64,
}

impl LogContent {
    /// Reads a log. The storage of `fleet` is read-only.
    ///
    /// # Errors
    /// Errors of the visitor.
    pub(super) fn read(
        fleet: &FleetFolder,
        depth: ReadDepth,
        visitor: &mut FrameVisitor<'_>,
    ) -> io::Result<Self> {
        let mut content = Self::default();
        match content.open(fleet) {
            Ok(reader) => content.read_frames(reader, fleet, depth, visitor)?,
            Err(error) => content.fault = Some(error),
        }
        let (end, is_damaged) = (content.end.segment, content.fault.is_some());
        for segment in &mut content.segments {
            segment.state = match segment.number {
                number if number < end => SegmentState::Sealed,
                number if number == end && segment.header.is_ok() => SegmentState::Last,
                _ if is_damaged => SegmentState::Unread,
                _ => SegmentState::BehindEnd,
            };
        }
        Ok(content)
    }

    fn open(&mut self, fleet: &FleetFolder) -> Result<LogReader, LogError> {
        let segments = list_segments(fleet.storage.clone(), &fleet.log())?;
        self.segments = segments
            .into_iter()
            .map(|entry| SegmentContent {
                number: entry.number,
                header: entry.header,
                state: SegmentState::Unread,
                counts: ReadCounts::default(),
                last_epoch: None,
            })
            .collect();
        fleet.read_log(0, ReadMode::Inspect)
    }

    fn read_frames(
        &mut self,
        mut reader: LogReader,
        fleet: &FleetFolder,
        depth: ReadDepth,
        visitor: &mut FrameVisitor<'_>,
    ) -> io::Result<()> {
        let mut decoded = FixColumns::new();
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => {
                    visitor(&frame)?;
                    if let Err(reason) = self.add(&frame, depth, &mut decoded) {
                        let path = segment_path(&fleet.log(), frame.header.segment);
                        let (file, offset) = (fleet.storage.display(&path), frame.offset);
                        self.fault = Some(LogError::Content { file, offset, reason });
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.fault = Some(error);
                    break;
                }
            }
        }
        (self.end, self.counts) = (reader.position(), reader.counts());
        if self.fault.is_none() {
            match reader.finish() {
                Ok(recovered) => {
                    self.is_clean = recovered.was_clean();
                    self.torn = recovered.torn_tail().cloned();
                }
                Err(error) => self.fault = Some(error),
            }
        }
        Ok(())
    }

    /// Counts a frame whose checksum is valid. Fails with a description of what is wrong with its
    /// content.
    fn add(
        &mut self,
        frame: &Frame<'_>,
        depth: ReadDepth,
        decoded: &mut FixColumns,
    ) -> Result<(), String> {
        let header = &frame.header;
        let is_cycles = header.kind == FrameKind::Cycles as u16;
        let term = header.term;
        if self.terms.last().is_none_or(|last| last.term != term) {
            // The first frame of a term has the last epoch of the term before it.
            if let Some(last) = self.terms.last_mut() {
                last.last_epoch = header.epoch_last;
            }
            let last_epoch = header.epoch_last;
            self.terms.push(TermContent { term, first_epoch: None, last_epoch });
        }
        if let Some(last) = self.terms.last_mut().filter(|_| is_cycles) {
            last.first_epoch = last.first_epoch.or(Some(header.epoch_first));
            last.last_epoch = header.epoch_last;
        }
        let segment = self.segments.iter_mut().find(|segment| segment.number == header.segment);
        if let Some(segment) = segment {
            segment.counts.frames += 1;
            segment.counts.cycles += u64::from(header.cycles);
            segment.counts.bytes += header.frame_bytes();
            segment.last_epoch = segment.last_epoch.max(is_cycles.then_some(header.epoch_last));
        }
        if is_cycles && self.first_epoch == 0 {
            self.first_epoch = header.epoch_first;
        }
        self.add_cycles(frame, depth, decoded)
    }

    fn add_cycles(
        &mut self,
        frame: &Frame<'_>,
        depth: ReadDepth,
        decoded: &mut FixColumns,
    ) -> Result<(), String> {
        let header = &frame.header;
        let (mut cycles, mut last) = (0, header.epoch_first.saturating_sub(1));
        for cycle in frame.cycles() {
            let cycle = cycle?;
            let epoch = cycle.header.epoch;
            let is_placed = epoch > last && (cycles > 0 || epoch == header.epoch_first);
            if !is_placed || epoch > header.epoch_last {
                return Err(format!("epoch {epoch} is misplaced"));
            }
            (cycles, last) = (cycles + 1, epoch);
            self.requests.add_cycle(&cycle, depth, decoded)?;
        }
        let is_whole = cycles == header.cycles && (cycles == 0 || last == header.epoch_last);
        if is_whole { Ok(()) } else { Err("cycles are missing in the frame".to_owned()) }
    }
}

impl RequestCounts {
    fn add_cycle(
        &mut self,
        cycle: &LoggedCycle<'_>,
        depth: ReadDepth,
        decoded: &mut FixColumns,
    ) -> Result<(), String> {
        for (index, request) in cycle.requests().enumerate() {
            self.add(&request, depth, decoded).map_err(|reason| {
                format!("request {} of the cycle of epoch {}: {reason}", index, cycle.header.epoch)
            })?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        request: &LoggedRequest<'_>,
        depth: ReadDepth,
        decoded: &mut FixColumns,
    ) -> Result<(), String> {
        self.numbered += u64::from(request.batch.is_some());
        match request.body {
            RequestBody::Block(bytes) => {
                self.blocks += 1;
                let block = rows_body::block(bytes)?;
                let is_decoded = depth == ReadDepth::Headers
                    || block.decode_rows(0..block.rows(), decoded).is_ok();
                self.refused_blocks += u64::from(!is_decoded);
                self.fixes += block.rows() as u64;
            }
            RequestBody::Rows(body) => {
                self.rows += 1;
                self.fixes += match rows_body::decode(body)? {
                    Request::Block(block) => {
                        if depth == ReadDepth::Rows {
                            let rows = block.decode_rows(0..block.rows(), decoded);
                            rows.map_err(|error| error.to_string())?;
                        }
                        block.rows() as u64
                    }
                    other => other.rows() as u64,
                };
            }
            RequestBody::Remove(objects) => {
                self.removals += 1;
                self.removed += objects.len() as u64;
            }
            RequestBody::Clear => self.clears += 1,
            RequestBody::Rewind => {}
        }
        Ok(())
    }
}
