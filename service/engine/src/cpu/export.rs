//! Exports while cycles run. The records are read slot by slot, between two cycles.
//!
//! A cycle that writes or frees a slot that was not read yet first saves its record, once. Saved
//! records are returned before further slots are read. While rows are read as fast as records
//! change, the saved records take the memory of one or two slices; there is never more than one per
//! object.

use shoal_codec::{Attributes, FixColumns};

use super::record::{NO_OBJECT, Record};
use super::shard::{Shard, reserve_by_quarter};

/// The export of an engine.
#[derive(Debug)]
pub(super) struct Export {
    /// The shard whose slots are read; those before it are done.
    shard: usize,
    /// Rows that were not returned yet.
    rows: u64,
}

/// The rest of an export that one shard has still to return.
#[derive(Debug)]
pub(super) struct ShardExport {
    /// The next slot to read.
    next: usize,
    /// Slots at the start of the export.
    end: usize,
    /// A bit for each slot. It is set once a cycle changed the slot; the slot's record at the start
    /// of the export is then saved, if it had one.
    changed: Vec<u64>,
    saved: Vec<Record>,
    /// Attributes of the saved records; empty until a saved record has some.
    attributes: Vec<Attributes>,
}

impl Export {
    /// Begins the export of these shards, which hold `rows` objects.
    pub(super) fn begin(shards: &mut [Shard], rows: u64) -> Self {
        shards.iter_mut().for_each(|shard| {
            shard.export = Some(ShardExport::new(shard.records.len()));
        });
        Self { shard: 0, rows }
    }

    /// The next rows, at most `max(rows_max, 1)`; `None` at the end.
    pub(super) fn next(&mut self, shards: &mut [Shard], rows_max: usize) -> Option<FixColumns> {
        let rows_max = self.rows.min(rows_max.max(1) as u64) as usize;
        let mut columns = FixColumns::with_capacity(rows_max);
        shards[self.shard..].iter_mut().for_each(|shard| shard.take_saved(&mut columns, rows_max));
        while columns.len() < rows_max {
            let shard = &mut shards[self.shard];
            if shard.read_slots(&mut columns, rows_max) {
                shard.export = None;
                self.shard += 1;
            }
        }
        self.rows -= rows_max as u64;
        (rows_max > 0).then_some(columns)
    }

    /// Drops the export state of the shards.
    pub(super) fn end(shards: &mut [Shard]) {
        shards.iter_mut().for_each(|shard| shard.export = None);
    }
}

impl ShardExport {
    fn new(end: usize) -> Self {
        let changed = vec![0; end.div_ceil(64)];
        Self { next: 0, end, changed, saved: Vec::new(), attributes: Vec::new() }
    }

    /// Saves the records of slots that are about to change. The flag of each slot is true if it has
    /// a record.
    pub(super) fn save(
        &mut self,
        slots: impl Iterator<Item = (u32, bool)>,
        records: &[Record],
        attributes: &[Attributes],
    ) {
        for (slot, has_record) in slots {
            let slot = slot as usize;
            if slot < self.next || slot >= self.end || self.mark(slot) || !has_record {
                continue;
            }
            if !attributes.is_empty() {
                self.attributes.resize(self.saved.len(), Attributes::UNKNOWN);
                reserve_by_quarter(&mut self.attributes);
                self.attributes.push(attributes[slot]);
            }
            reserve_by_quarter(&mut self.saved);
            self.saved.push(records[slot]);
        }
    }

    /// Marks a slot as changed; returns true if it was marked before.
    fn mark(&mut self, slot: usize) -> bool {
        let (word, bit) = (&mut self.changed[slot / 64], 1 << (slot % 64));
        let was_changed = *word & bit != 0;
        *word |= bit;
        was_changed
    }

    fn is_changed(&self, slot: usize) -> bool {
        self.changed[slot / 64] & (1 << (slot % 64)) != 0
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.changed.capacity() * size_of::<u64>()
            + self.saved.capacity() * size_of::<Record>()
            + self.attributes.capacity() * size_of::<Attributes>()
    }
}

impl Shard {
    /// Saves the records of slots that are about to change if a shard export is running.
    pub(super) fn save(&mut self, slots: impl Iterator<Item = (u32, bool)>) {
        if let Some(export) = &mut self.export {
            export.save(slots, &self.records, &self.attributes);
        }
    }

    /// Moves saved records to `columns`, up to `rows_max` rows in all.
    fn take_saved(&mut self, columns: &mut FixColumns, rows_max: usize) {
        let Some(export) = &mut self.export else { return };
        while columns.len() < rows_max
            && let Some(record) = export.saved.pop()
        {
            let attributes = export.attributes.pop().unwrap_or(Attributes::UNKNOWN);
            columns.push_row(record.row(attributes));
        }
        if export.saved.is_empty() {
            (export.saved, export.attributes) = (Vec::new(), Vec::new());
        }
    }

    /// Copies the records of further slots to `columns`, up to `rows_max` rows in all. Returns true
    /// if all slots were read.
    fn read_slots(&mut self, columns: &mut FixColumns, rows_max: usize) -> bool {
        let Some(mut export) = self.export.take() else { return true };
        while export.next < export.end && columns.len() < rows_max {
            let slot = export.next;
            let record = &self.records[slot];
            if record.object != NO_OBJECT && !export.is_changed(slot) {
                columns.push_row(record.row(self.attributes_of(slot)));
            }
            export.next += 1;
        }
        let is_done = export.next == export.end;
        self.export = Some(export);
        is_done
    }
}
