//! Positions in the log, and the properties of a segment.

use crate::segment::SegmentHeader;

/// The end of a frame, up to which the log is written, synced or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Segment of the frame.
    pub segment: u64,
    /// Byte in the segment after the frame.
    pub offset: u64,
    /// Sequence of the frame.
    pub sequence: u64,
    /// Last epoch at or before this position.
    pub epoch: u64,
}

/// A segment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number.
    pub number: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Last epoch before the segment.
    pub epoch_before: u64,
    /// System clock of the last cycle before the segment, Unix milliseconds.
    pub system_ms_before: i64,
}

impl SegmentInfo {
    pub(crate) fn of(header: &SegmentHeader) -> Self {
        Self {
            number: header.number,
            bytes: header.bytes,
            epoch_before: header.epoch_before,
            system_ms_before: header.system_ms_before,
        }
    }
}
