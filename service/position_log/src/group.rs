//! A group of cycles in memory: the payload of one frame, encoded as the cycles are appended.
//!
//! Groups do no input or output, so one thread can fill a group while another writes the previous
//! one. Each request's bytes are copied once, into memory that the disk reads directly.

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::frame::{FrameHeader, FrameKind};
use crate::limits::{FRAME_HEADER_BYTES, GROUP_BYTES_KEPT, GROUP_BYTES_MAX, PAGE_BYTES};
use crate::record::{
    CycleHeader, CycleOutcome, LoggedCycle, LoggedRequest, encode_record, record_bytes,
};
use crate::wire::page_align;

/// Cycles to be written as one frame.
#[derive(Debug)]
pub struct Group {
    /// Space for the frame's header, then records.
    buffer: AlignedBuffer,
    /// Bytes in use, the header included.
    end: usize,
    payload_crc: u32,
    cycles: u32,
    epoch_first: u64,
    last: Option<CycleHeader>,
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}

impl Group {
    /// A group without cycles.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffer: AlignedBuffer::zeroed(PAGE_BYTES),
            end: FRAME_HEADER_BYTES,
            payload_crc: 0,
            cycles: 0,
            epoch_first: 0,
            last: None,
        }
    }

    /// Appends a cycle that has settled, with its final epoch. Do not append cycles that the engine
    /// refused or failed. Append cycles without requests if they change state, for example if
    /// objects expire.
    ///
    /// # Errors
    /// [`LogError::Input`] if the epoch is not above that of the cycle before, or a limit is
    /// exceeded. The group is unchanged; if it was not empty, write it and append the cycle again.
    pub fn append<'a, R>(&mut self, cycle: CycleHeader, requests: R) -> Result<(), LogError>
    where
        R: IntoIterator<Item = LoggedRequest<'a>>,
        R::IntoIter: Clone,
    {
        self.append_settled(cycle, None, requests)
    }

    /// As [`Self::append`]. The record contains the outcome of the cycle.
    ///
    /// # Errors
    /// As [`Self::append`]; [`LogError::Input`] if the refused rows do not ascend, or belong to no
    /// request.
    pub fn append_settled<'a, R>(
        &mut self,
        cycle: CycleHeader,
        outcome: Option<CycleOutcome<'_>>,
        requests: R,
    ) -> Result<(), LogError>
    where
        R: IntoIterator<Item = LoggedRequest<'a>>,
        R::IntoIter: Clone,
    {
        let requests = requests.into_iter();
        let bytes = record_bytes(outcome, requests.clone())?;
        let record = self.extend(cycle, bytes)?;
        encode_record(cycle, outcome, requests, record);
        self.commit(cycle, bytes);
        Ok(())
    }

    /// Appends a cycle that was read from another log or a leader's stream, without encoding it
    /// again.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_logged(&mut self, cycle: &LoggedCycle<'_>) -> Result<(), LogError> {
        let encoded = cycle.encoded();
        self.extend(cycle.header, encoded.len())?.copy_from_slice(encoded);
        self.commit(cycle.header, encoded.len());
        Ok(())
    }

    /// Returns a slice of `bytes` bytes for the next record. [`Self::commit`] adds the record to
    /// the group.
    fn extend(&mut self, cycle: CycleHeader, bytes: usize) -> Result<&mut [u8], LogError> {
        if let Some(last) = self.last.filter(|last| last.epoch >= cycle.epoch) {
            let (epoch, last) = (cycle.epoch, last.epoch);
            return Err(LogError::Input(format!("epoch {epoch} is appended after epoch {last}")));
        }
        let payload_bytes = self.bytes() + bytes;
        if payload_bytes > GROUP_BYTES_MAX {
            return Err(LogError::Input(format!(
                "a group of {payload_bytes} bytes, the limit is {GROUP_BYTES_MAX}: write it before"
            )));
        }
        let end = self.end + bytes;
        self.buffer.grow(page_align(end), self.end);
        Ok(&mut self.buffer[self.end..end])
    }

    fn commit(&mut self, cycle: CycleHeader, bytes: usize) {
        let end = self.end + bytes;
        self.payload_crc = crc32c::crc32c_append(self.payload_crc, &self.buffer[self.end..end]);
        self.end = end;
        if self.cycles == 0 {
            self.epoch_first = cycle.epoch;
        }
        self.cycles += 1;
        self.last = Some(cycle);
    }

    /// Bytes of the records.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.end - FRAME_HEADER_BYTES
    }

    /// Bytes of the frame on the disk.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        page_align(self.end)
    }

    /// The records.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.buffer[FRAME_HEADER_BYTES..self.end]
    }

    /// Number of cycles.
    #[must_use]
    pub fn cycles(&self) -> usize {
        self.cycles as usize
    }

    /// Whether there is no cycle.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cycles == 0
    }

    /// First and last epoch, unless the group is empty.
    #[must_use]
    pub fn epochs(&self) -> Option<(u64, u64)> {
        self.last.map(|last| (self.epoch_first, last.epoch))
    }

    /// Removes all cycles. A buffer above [`GROUP_BYTES_KEPT`] is replaced by one of a page.
    pub fn clear(&mut self) {
        if self.buffer.len() > GROUP_BYTES_KEPT {
            self.buffer = AlignedBuffer::zeroed(PAGE_BYTES);
        }
        self.end = FRAME_HEADER_BYTES;
        (self.payload_crc, self.cycles, self.epoch_first, self.last) = (0, 0, 0, None);
    }

    /// Fills the fields of a frame's header that the group determines.
    pub(crate) fn describe(&self, header: &mut FrameHeader) {
        let Some(last) = self.last else { return };
        header.kind = FrameKind::Cycles as u16;
        header.cycles = self.cycles;
        header.epoch_first = self.epoch_first;
        header.epoch_last = last.epoch;
        header.system_ms = last.system_ms;
        header.payload_bytes = self.bytes() as u32;
        header.payload_crc = self.payload_crc;
    }

    /// Returns the frame with this header, padded to whole pages, and the CRC of the header.
    pub(crate) fn seal(&mut self, header: &FrameHeader) -> (&[u8], u32) {
        let frame_bytes = self.frame_bytes();
        // Bytes of an earlier group must not reach the disk.
        self.buffer[self.end..frame_bytes].fill(0);
        let crc = header.encode(&mut self.buffer);
        (&self.buffer[..frame_bytes], crc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RequestBody;

    /// Returns the bytes of memory that a group keeps after it was filled with at least `bytes`
    /// bytes and cleared.
    fn kept_bytes(bytes: usize) -> usize {
        let (mut group, block) = (Group::new(), vec![7; 256 << 10]);
        for epoch in 1.. {
            let cycle = CycleHeader { epoch, system_ms: 0, time_max_ms: 0 };
            let request = LoggedRequest { body: RequestBody::Block(&block), batch: None };
            group.append(cycle, [request]).unwrap();
            if group.bytes() >= bytes {
                break;
            }
        }
        group.clear();
        group.buffer.len()
    }

    #[test]
    fn memory_for_the_next_group_is_kept_up_to_a_limit() {
        assert!((8 << 20..=GROUP_BYTES_KEPT).contains(&kept_bytes(8 << 20)));
        assert_eq!(kept_bytes(GROUP_BYTES_KEPT + 1), PAGE_BYTES);
    }
}
