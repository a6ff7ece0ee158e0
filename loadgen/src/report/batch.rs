//! Encodes batches of fixes as messages.
//!
//! In a named fleet a block has indices in the names of its message in place of objects. Rows are encoded from fixes, blocks from columns. The oracle always needs the columns, which are
//! the expected state of the server. Buffers are reused.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use shoal_client::Quantizer;
use shoal_codec::{BlockStream, CpuCodec, FixColumns, PlanChoice};
use shoal_workload::Fix;

use super::row_wire::{write_block_head, write_rows};
use super::wire::ReportMessage;
use super::wire_fix::wire_fix;
use crate::args::ReportEncoding;
use crate::error::LoadError;
use crate::verify::SentRows;

/// One encoded message.
#[derive(Debug)]
pub struct ReportBatch {
    /// The message.
    pub message: ReportMessage,
    /// Number of rows.
    pub rows: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// The rows as the server stores them, if answers are verified.
    pub columns: Option<SentRows>,
}

/// The fleet that messages are encoded for.
#[derive(Clone, Debug)]
pub struct MessageFleet {
    /// Its name.
    pub name: String,
    /// Rounds fixes to its stored precision.
    pub quantizer: Quantizer,
    /// Whether objects are reported by name.
    pub is_named: bool,
}

/// Encodes the messages of one connection.
#[derive(Debug)]
pub struct BatchMaker {
    fleet: MessageFleet,
    encoding: ReportEncoding,
    is_verified: bool,
    buffer: BytesMut,
    columns: FixColumns,
    blocks: BlockStream,
}

impl BatchMaker {
    /// Encodes messages for one fleet. Blocks are encoded with `plans`. If `is_verified`, each
    /// message keeps its columns for the oracle.
    #[must_use]
    pub fn new(
        fleet: MessageFleet,
        encoding: ReportEncoding,
        plans: PlanChoice,
        is_verified: bool,
    ) -> Self {
        Self {
            blocks: BlockStream::new(fleet.quantizer.tag(), plans),
            fleet,
            encoding,
            is_verified,
            buffer: BytesMut::new(),
            columns: FixColumns::new(),
        }
    }

    /// Encodes fixes as a message.
    ///
    /// # Errors
    /// [`LoadError::Block`] if no block can hold the fixes, for instance because of their time
    /// range.
    pub fn make(&mut self, fixes: &[Fix]) -> Result<ReportBatch, LoadError> {
        if self.is_verified || self.encoding == ReportEncoding::Block {
            self.columns.clear();
            let row = |fix| self.fleet.quantizer.row(&wire_fix(fix));
            fixes.iter().for_each(|fix| self.columns.push_row(row(fix)));
        }
        let rows = u32::try_from(fixes.len()).expect("within the row limit");
        let (message, bytes) = match self.encoding {
            ReportEncoding::Rows => {
                let MessageFleet { name, is_named, .. } = &self.fleet;
                let message = write_rows(name, fixes, *is_named, &mut self.buffer);
                let bytes = message.len();
                (ReportMessage::Whole(message), bytes)
            }
            ReportEncoding::Block => {
                let EncodedBlock { head, block } =
                    self.fleet.encode(&mut self.blocks, &mut self.columns, &mut self.buffer)?;
                let bytes = head.len() + block.len();
                (ReportMessage::Block { head, block: block.into() }, bytes)
            }
        };
        let columns = self.is_verified.then(|| SentRows {
            columns: Arc::new(std::mem::take(&mut self.columns)),
            shift_ms: 0,
        });
        Ok(ReportBatch { message, rows, bytes: bytes as u64, columns })
    }
}

/// A block and the part of its message that precedes it.
#[derive(Debug)]
pub(super) struct EncodedBlock {
    pub(super) head: Bytes,
    pub(super) block: Vec<u8>,
}

impl MessageFleet {
    /// Encodes columns as a block; they are unchanged afterwards.
    ///
    /// # Errors
    /// [`LoadError::Block`].
    pub(super) fn encode(
        &self,
        blocks: &mut BlockStream,
        columns: &mut FixColumns,
        buffer: &mut BytesMut,
    ) -> Result<EncodedBlock, LoadError> {
        let mut names = Vec::new();
        let objects = columns.object.clone();
        if self.is_named {
            names = index_objects(&mut columns.object);
        }
        let block = blocks.encode(&CpuCodec, columns);
        columns.object = objects;
        let block = block?;
        let head = write_block_head(&self.name, &names, block.len(), buffer);
        Ok(EncodedBlock { head, block })
    }
}

/// Replaces objects by indices in a list of them, which it returns.
fn index_objects(objects: &mut [u64]) -> Vec<u64> {
    let (mut indices, mut list) = (HashMap::with_capacity(objects.len()), Vec::new());
    for object in objects {
        *object = *indices.entry(*object).or_insert_with(|| {
            list.push(*object);
            list.len() as u64 - 1
        });
    }
    list
}
