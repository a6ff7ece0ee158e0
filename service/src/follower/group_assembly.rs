//! Turns the parts of a leader's stream into groups, and verified groups into cycles.
//!
//! A group whose checksum differs yields no cycle.

use bytes::{Bytes, BytesMut};
use shoal_position_log::limits::GROUP_BYTES_MAX;
use shoal_position_log::{LoggedCycle, checksum};
use shoal_proto::v1;

use crate::fleet::FollowedCycle;
use crate::persistence::logged_record;

/// The group that is being received.
#[derive(Debug, Default)]
pub(super) struct GroupAssembly {
    bytes: BytesMut,
}

impl GroupAssembly {
    /// Adds a part. After the last part of a group, returns the group's cycles that are later than
    /// an epoch; otherwise returns none.
    ///
    /// # Errors
    /// What is wrong with the group. None of its cycles is returned.
    pub(super) fn add(
        &mut self,
        part: &v1::GroupPart,
        after_epoch: u64,
    ) -> Result<Vec<FollowedCycle>, String> {
        if self.bytes.len() + part.data.len() > GROUP_BYTES_MAX {
            return Err(format!("a group has more than {GROUP_BYTES_MAX} bytes"));
        }
        self.bytes.extend_from_slice(&part.data);
        if !part.last {
            return Ok(Vec::new());
        }
        let group = std::mem::take(&mut self.bytes).freeze();
        let found = checksum(&group);
        if found != part.crc {
            let expected = part.crc;
            return Err(format!("the checksum of a group is {found:08x}, not {expected:08x}"));
        }
        cycles(&group, part.term, after_epoch)
    }
}

fn cycles(group: &Bytes, term: u64, after_epoch: u64) -> Result<Vec<FollowedCycle>, String> {
    let (mut cycles, mut at, mut last) = (Vec::new(), 0, after_epoch);
    while at < group.len() {
        let logged = LoggedCycle::parse(term, &group[at..])?;
        let end = at + logged.encoded().len();
        if logged.header.epoch > last {
            last = logged.header.epoch;
            cycles.push(cycle(&logged, group.slice(at..end))?);
        }
        at = end;
    }
    Ok(cycles)
}

fn cycle(logged: &LoggedCycle<'_>, encoded: Bytes) -> Result<FollowedCycle, String> {
    let record = logged_record(logged).map_err(|error| error.to_string())?;
    Ok(FollowedCycle {
        header: logged.header,
        event_clock_max_ms: record.event_clock_max_ms,
        requests: record.requests,
        batches: record.batches,
        names: record.names,
        encoded,
    })
}

#[cfg(test)]
mod tests {
    use shoal_position_log::{
        CycleHeader, Group, LoggedRequest, ObjectIds, ProducerBatch, RequestBody,
    };

    use super::*;

    /// The payload of a group with cycles of these epochs.
    fn payload(epochs: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &epoch in epochs {
            // A group of one cycle has one record.
            let mut group = Group::new();
            let batch = Some(ProducerBatch { producer: "p", batch_seq: epoch });
            let body = RequestBody::Remove(ObjectIds::Ids(&[epoch, 9]));
            let header = CycleHeader { epoch, system_ms: 1, time_max_ms: 2 };
            group.append(header, [LoggedRequest { body, batch }]).unwrap();
            bytes.extend_from_slice(group.payload());
        }
        bytes
    }

    fn parts(bytes: &[u8], crc: u32, size: usize) -> Vec<v1::GroupPart> {
        let count = bytes.len().div_ceil(size);
        let part = |(index, data): (usize, &[u8])| v1::GroupPart {
            data: Bytes::copy_from_slice(data),
            last: index + 1 == count,
            crc,
            term: 7,
            durable_epoch: 0,
        };
        bytes.chunks(size).enumerate().map(part).collect()
    }

    fn assemble(parts: Vec<v1::GroupPart>, after: u64) -> Result<Vec<u64>, String> {
        let mut assembly = GroupAssembly::default();
        let mut epochs = Vec::new();
        for part in parts {
            epochs.extend(assembly.add(&part, after)?.iter().map(|cycle| cycle.header.epoch));
        }
        Ok(epochs)
    }

    #[test]
    fn cycles_after_an_epoch_are_returned_whole() {
        let bytes = payload(&[3, 5, 9]);
        for size in [1, 7, 64, 10_000] {
            let parts = |after| assemble(parts(&bytes, checksum(&bytes), size), after);
            assert_eq!(parts(0).unwrap(), [3, 5, 9]);
            assert_eq!(parts(5).unwrap(), [9]);
            assert!(parts(9).unwrap().is_empty());
        }
    }

    #[test]
    fn every_flipped_bit_is_found_before_anything_is_returned() {
        let bytes = payload(&[3, 5]);
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(assemble(parts(&flipped, checksum(&bytes), 50), 0).is_err(), "bit {bit}");
        }
        assert!(assemble(parts(&bytes[..40], checksum(&bytes[..40]), 50), 0).is_err());
    }
}
