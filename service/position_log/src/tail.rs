//! Decides whether an invalid frame is a torn tail or damage, by what later frames state as synced.
//!
//! Frames after the end of the log are *orphans*. Their header pages are erased before the log
//! continues, so that no later recovery can take an orphan for a frame of the log.

use std::io;

use crate::frame::FrameHeader;
use crate::limits::PAGE_BYTES;
use crate::segment::SegmentHeader;
use crate::segment_window::SegmentWindow;

/// What lies after the last valid frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Greatest sequence that a header states as synced.
    pub(crate) synced_sequence: u64,
    /// Greatest sequence of a frame header.
    pub(crate) last_sequence: u64,
    /// Greatest epoch of a frame header.
    pub(crate) last_epoch: u64,
    /// Offsets of the frame headers after the end, in the segment in which the log ends.
    pub(crate) orphans: Vec<u64>,
}

impl Tail {
    /// Collects the frame headers of a segment from `offset` on. Only headers with the salt of the
    /// segment count, because bytes of clients cannot contain it and old frames have another.
    pub(crate) fn scan(
        &mut self,
        window: &mut SegmentWindow,
        segment: &SegmentHeader,
        mut offset: u64,
        is_end: bool,
    ) -> io::Result<()> {
        while window.load(offset, PAGE_BYTES)? {
            let frame = FrameHeader::parse(window.bytes(offset, PAGE_BYTES));
            if let Ok((frame, _)) = frame
                && frame.belongs_to(segment)
            {
                self.synced_sequence = self.synced_sequence.max(frame.synced_sequence);
                self.last_sequence = self.last_sequence.max(frame.sequence);
                self.last_epoch = self.last_epoch.max(frame.epoch_last);
                if is_end {
                    self.orphans.push(offset);
                }
            }
            offset += PAGE_BYTES as u64;
        }
        Ok(())
    }
}
