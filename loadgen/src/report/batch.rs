//! Encodes batches of fixes as messages.
//!
//! Rows are encoded from fixes, blocks from columns. The oracle always needs the columns, which are
//! the expected state of the server. Buffers are reused.

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

/// Encodes the messages of one connection.
#[derive(Debug)]
pub struct BatchMaker {
    fleet: String,
    quantizer: Quantizer,
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
        fleet: &str,
        quantizer: Quantizer,
        encoding: ReportEncoding,
        plans: PlanChoice,
        is_verified: bool,
    ) -> Self {
        Self {
            fleet: fleet.to_owned(),
            quantizer,
            encoding,
            is_verified,
            buffer: BytesMut::new(),
            columns: FixColumns::new(),
            blocks: BlockStream::new(quantizer.tag(), plans),
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
            let row = |fix| self.quantizer.row(&wire_fix(fix));
            fixes.iter().for_each(|fix| self.columns.push_row(row(fix)));
        }
        let rows = u32::try_from(fixes.len()).expect("within the row limit");
        let (message, bytes) = match self.encoding {
            ReportEncoding::Rows => {
                let message = write_rows(&self.fleet, fixes, &mut self.buffer);
                let bytes = message.len();
                (ReportMessage::Whole(message), bytes)
            }
            ReportEncoding::Block => {
                let block = Bytes::from(self.blocks.encode(&CpuCodec, &self.columns)?);
                let head = write_block_head(&self.fleet, block.len(), &mut self.buffer);
                let bytes = head.len() + block.len();
                (ReportMessage::Block { head, block }, bytes)
            }
        };
        let columns = self.is_verified.then(|| SentRows {
            columns: Arc::new(std::mem::take(&mut self.columns)),
            shift_ms: 0,
        });
        Ok(ReportBatch { message, rows, bytes: bytes as u64, columns })
    }
}
