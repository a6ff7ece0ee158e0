//! Encodes cycles and collects them in a group while the disk writes the previous group.
//!
//! A group goes to the disk as soon as the disk is idle. Under load it grows while the previous
//! group is written and synced, up to its limit. So no timer is needed, and at most two groups
//! exist.

use crossbeam_channel::{Receiver, Select, Sender};
use shoal_codec::{Aim, BlockCodec, SpaceTag};
use shoal_engine::Request;
use shoal_position_log::{
    CycleHeader, CycleOutcome, Group, LogError, LoggedCycle, LoggedRequest, ObjectIds,
    ProducerBatch, RequestBody,
};

use super::rows_body::RowsEncoder;
use crate::cycle::{BatchId, CycleRecord};
use crate::limits::LOG_GROUP_BYTES_MAX;
use crate::names::NameChanges;

/// An item to be written to the log.
#[derive(Debug)]
pub(super) enum LogItem {
    /// A cycle.
    Cycle(LogCycle),
    /// A term that begins after the cycles that were sent before it.
    Term(u64),
}

/// A cycle on its way to the log.
#[derive(Debug)]
pub(super) struct LogCycle {
    pub(super) cycle: CycleRecord,
    /// Its share of the pending bytes.
    pub(super) bytes: u64,
}

/// A group with its number of cycles and their pending bytes.
#[derive(Debug, Default)]
pub(super) struct PendingGroup {
    pub(super) group: Group,
    pub(super) cycles: u64,
    pub(super) bytes: u64,
    /// Term that starts after this group; the group is closed.
    pub(super) term: Option<u64>,
    /// True for the last group, which is empty. The log is closed after it.
    pub(super) is_last: bool,
}

/// See the file's head.
pub(super) struct GroupThread {
    pub(super) items: Receiver<LogItem>,
    pub(super) groups: Sender<PendingGroup>,
    /// Written groups, emptied, for reuse.
    pub(super) written: Receiver<PendingGroup>,
    pub(super) space: SpaceTag,
    /// Encodes plain rows.
    pub(super) codec: Box<dyn BlockCodec + Send>,
    /// The aim of the block encoder: speed or size.
    pub(super) aim: Aim,
}

impl GroupThread {
    /// Runs until the sink has closed its channel and the last group is handed over, or until the
    /// disk thread ends.
    ///
    /// # Errors
    /// [`LogError::Input`] for a cycle that the log cannot hold.
    pub(super) fn run(&self) -> Result<(), LogError> {
        let rows = RowsEncoder::new(&*self.codec, self.aim, self.space);
        let mut encoder = CycleEncoder { encoder: rows, rows: Vec::new() };
        let mut pending = PendingGroup::default();
        loop {
            let is_open = if pending.group.is_empty() && pending.term.is_none() {
                match self.items.recv() {
                    Ok(item) => encoder.add(&mut pending, item)?,
                    Err(_) => {
                        let last = PendingGroup { is_last: true, ..pending };
                        // An error means that the disk's thread has ended.
                        let _ = self.groups.send(last);
                        return Ok(());
                    }
                }
                true
            } else {
                self.collect(&mut encoder, &mut pending)?
            };
            if !is_open {
                return Ok(());
            }
        }
    }

    /// Hands the group over if the disk thread is idle, else adds the next item. Waits until one of
    /// them is possible. Returns false once the disk thread has ended.
    fn collect(
        &self,
        encoder: &mut CycleEncoder<'_>,
        pending: &mut PendingGroup,
    ) -> Result<bool, LogError> {
        let mut select = Select::new_biased();
        let handing = select.send(&self.groups);
        // A closed channel is always ready to receive; in that case only the disk thread is waited
        // for.
        let is_full = pending.term.is_some() || pending.group.bytes() >= LOG_GROUP_BYTES_MAX;
        let receiving = (!is_full).then(|| select.recv(&self.items));
        let ready = select.select();
        if Some(ready.index()) == receiving {
            return match ready.recv(&self.items) {
                Ok(item) => encoder.add(pending, item).map(|()| true),
                Err(_) => Ok(self.groups.send(std::mem::take(pending)).is_ok()),
            };
        }
        debug_assert_eq!(ready.index(), handing);
        let next = self.written.try_recv().unwrap_or_default();
        Ok(ready.send(&self.groups, std::mem::replace(pending, next)).is_ok())
    }
}

/// Encodes cycles.
struct CycleEncoder<'a> {
    encoder: RowsEncoder<'a>,
    /// The encoded rows of a cycle's plain-row requests, in order.
    rows: Vec<Vec<u8>>,
}

impl CycleEncoder<'_> {
    fn add(&mut self, pending: &mut PendingGroup, item: LogItem) -> Result<(), LogError> {
        match item {
            LogItem::Cycle(cycle) => self.append(pending, &cycle),
            LogItem::Term(term) => {
                // A term counts as a cycle: later epochs become durable only after it.
                pending.cycles += 1;
                pending.term = Some(term);
                Ok(())
            }
        }
    }

    fn append(&mut self, pending: &mut PendingGroup, cycle: &LogCycle) -> Result<(), LogError> {
        let LogCycle { cycle, bytes } = cycle;
        pending.cycles += 1;
        pending.bytes += bytes;
        if let Some(encoded) = &cycle.encoded {
            // The leader's record was verified when it arrived. The term 0 is unused: the frame has
            // the term.
            let logged = LoggedCycle::parse(0, encoded).map_err(LogError::Input)?;
            return pending.group.append_logged(&logged);
        }
        self.rows.clear();
        for request in cycle.requests.iter() {
            if let Request::Fixes(columns) = request {
                self.rows.push(self.encoder.encode(columns));
            }
        }
        let CycleRecord { epoch, system_ms, time_max_ms, clock_ms, .. } = *cycle;
        let header = CycleHeader { epoch, system_ms, time_max_ms };
        let names = cycle.names.as_ref().map(NameChanges::logged);
        let outcome = CycleOutcome { clock_ms, refused: &cycle.refused, names };
        pending.group.append_settled(header, Some(outcome), logged(cycle, &self.rows))
    }
}

/// The requests of a cycle as the log stores them. `rows` has the encoded plain rows, in order.
fn logged<'a>(
    cycle: &'a CycleRecord,
    rows: &'a [Vec<u8>],
) -> impl Iterator<Item = LoggedRequest<'a>> + Clone {
    let mut rows = rows.iter();
    cycle.requests.iter().zip(&cycle.batches).map(move |(request, batch)| {
        let body = match request {
            Request::Block(block) => RequestBody::Block(block.bytes()),
            Request::Fixes(_) => RequestBody::Rows(rows.next().map_or(&[], |rows| &rows[..])),
            Request::Remove(objects) => RequestBody::Remove(ObjectIds::Ids(objects)),
            Request::Clear => RequestBody::Clear,
            Request::Rewind => RequestBody::Rewind,
        };
        let batch = batch.as_ref().map(|BatchId { producer, batch_seq }| ProducerBatch {
            producer,
            batch_seq: *batch_seq,
        });
        LoggedRequest { body, batch }
    })
}
