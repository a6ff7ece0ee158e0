//! Blocks that are encoded before the clock starts.
//!
//! A few rounds of the workload are encoded once and sent repeatedly; each lap shifts the times by
//! the span of all rounds. Objects jump back once per lap. Memory is bounded: rounds that do not
//! fit are not encoded.

use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use shoal_codec::{BlockHeader, BlockStream, FixColumns, PlanChoice};

use super::batch::{EncodedBlock, MessageFleet, ReportBatch};
use super::source::{Source, is_acceptable_ms};
use super::wire::ReportMessage;
use super::wire_fix::wire_fix;
use crate::error::LoadError;
use crate::verify::SentRows;

/// The blocks of one connection.
#[derive(Debug)]
pub struct PreparedBlocks {
    blocks: Vec<PreparedBlock>,
    /// Time shift per lap, milliseconds.
    lap_ms: i64,
    lap: i64,
    next: usize,
    sequence: u64,
    /// True if the blocks contain the whole workload and may be sent only once.
    is_once: bool,
}

/// One block, sent repeatedly.
#[derive(Debug)]
struct PreparedBlock {
    head: bytes::Bytes,
    block: Arc<Mutex<Vec<u8>>>,
    block_bytes: usize,
    rows: u32,
    base_time_ms: i64,
    /// The block contains times that a server refuses. It is not shifted, because shifted times
    /// could be valid.
    is_fixed: bool,
    columns: Option<Arc<FixColumns>>,
}

/// Limits and options of preparation.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Rows of each block but the last.
    pub batch_rows: u32,
    /// Maximum number of rows of all blocks.
    pub rows: u64,
    /// Approximate maximum number of bytes of all blocks.
    pub bytes: usize,
    /// Lap shifts are multiples of this, milliseconds, above 0.
    pub step_ms: i64,
    /// Whether to send the whole workload once.
    pub is_once: bool,
    /// The encoding plan of the blocks.
    pub plans: PlanChoice,
}

impl PreparedBlocks {
    /// Encodes the blocks.
    ///
    /// # Errors
    /// [`LoadError::Block`]; [`LoadError::Usage`] if a workload to be sent once exceeds the memory.
    pub fn make(
        source: &mut Source,
        fleet: &MessageFleet,
        amount: Amount,
        is_verified: bool,
    ) -> Result<Self, LoadError> {
        let mut stream = BlockStream::new(fleet.quantizer.tag(), amount.plans);
        let mut prepared = Self {
            blocks: Vec::new(),
            lap_ms: 0,
            lap: 0,
            next: 0,
            sequence: 0,
            is_once: amount.is_once,
        };
        let (mut first_ms, mut last_ms) = (i64::MAX, i64::MIN);
        let (mut rows, mut bytes) = (0, 0);
        while rows < amount.rows {
            if bytes >= amount.bytes {
                if amount.is_once {
                    let limit = amount.bytes;
                    return Err(LoadError::Usage(format!(
                        "the workload's blocks need more than {limit} bytes a connection, the most \
                         that is prepared; leave --prepared out or set --seconds"
                    )));
                }
                break;
            }
            let most = (amount.rows - rows).min(amount.batch_rows.into());
            let (fixes, _) = source.next(most as usize);
            if fixes.is_empty() {
                break;
            }
            let mut columns = FixColumns::with_capacity(fixes.len());
            fixes.iter().for_each(|fix| columns.push_row(fleet.quantizer.row(&wire_fix(fix))));
            rows += columns.len() as u64;
            let times = bounds(&columns.time_ms);
            let block = PreparedBlock::make(fleet, &mut stream, columns, is_verified)?;
            if !block.is_fixed {
                (first_ms, last_ms) = (first_ms.min(times.0), last_ms.max(times.1));
            }
            bytes += block.block_bytes;
            prepared.blocks.push(block);
        }
        let span_ms = last_ms.saturating_sub(first_ms).max(0);
        prepared.lap_ms = (span_ms / amount.step_ms + 1).saturating_mul(amount.step_ms);
        Ok(prepared)
    }

    /// The next block, with its times shifted to this lap; `None` at the end.
    pub fn next_batch(&mut self) -> Option<ReportBatch> {
        if self.next == self.blocks.len() {
            if self.is_once || self.blocks.is_empty() {
                return None;
            }
            self.next = 0;
            self.lap += 1;
        }
        let block = &self.blocks[self.next];
        let shift_ms = if block.is_fixed { 0 } else { self.lap.saturating_mul(self.lap_ms) };
        self.next += 1;
        self.sequence += 1;
        Some(ReportBatch {
            message: ReportMessage::Prepared {
                head: block.head.clone(),
                block: Arc::clone(&block.block),
                base_time_ms: block.base_time_ms.saturating_add(shift_ms),
                sequence: self.sequence,
            },
            rows: block.rows,
            bytes: (block.head.len() + block.block_bytes) as u64,
            columns: block
                .columns
                .as_ref()
                .map(|columns| SentRows { columns: Arc::clone(columns), shift_ms }),
        })
    }
}

impl PreparedBlock {
    fn make(
        fleet: &MessageFleet,
        stream: &mut BlockStream,
        mut columns: FixColumns,
        is_verified: bool,
    ) -> Result<Self, LoadError> {
        let EncodedBlock { head, block } =
            fleet.encode(stream, &mut columns, &mut BytesMut::new())?;
        Ok(Self {
            head,
            block_bytes: block.len(),
            rows: u32::try_from(columns.len()).expect("within the row limit"),
            base_time_ms: BlockHeader::parse(&block)?.base_time_ms,
            is_fixed: columns.time_ms.iter().any(|time_ms| !is_acceptable_ms(*time_ms)),
            block: Arc::new(Mutex::new(block)),
            columns: is_verified.then(|| Arc::new(columns)),
        })
    }
}

/// Minimum and maximum of times.
fn bounds(times_ms: &[i64]) -> (i64, i64) {
    let outside = (i64::MAX, i64::MIN);
    times_ms.iter().fold(outside, |(first, last), time| (first.min(*time), last.max(*time)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shoal_client::Quantizer;
    use shoal_codec::{Block, Budget};
    use shoal_workload::Params;

    use super::*;

    fn prepared(rows: u64, is_verified: bool, plans: PlanChoice) -> PreparedBlocks {
        let params = Params { objects: 10, ..Params::default() };
        let workload = shoal_workload::open("uniform", &params).unwrap();
        let mut source = Source::clean(workload, 0, false, true);
        let (bytes, step_ms) = (1 << 20, 1_000);
        let amount = Amount { batch_rows: 4, rows, bytes, step_ms, is_once: false, plans };
        let (name, quantizer) = ("fleet".to_owned(), Quantizer::new(None));
        let fleet = MessageFleet { name, quantizer, is_named: false };
        PreparedBlocks::make(&mut source, &fleet, amount, is_verified).unwrap()
    }

    /// The decoded rows of a batch.
    fn decoded(batch: &ReportBatch) -> FixColumns {
        let ReportMessage::Prepared { block, base_time_ms, sequence, .. } = &batch.message else {
            panic!("not prepared")
        };
        let mut block = block.lock().unwrap();
        shoal_codec::rewrite_prepared(&mut block, *base_time_ms, *sequence).unwrap();
        let bytes = Bytes::copy_from_slice(&block);
        Block::parse(bytes, &Budget::default()).unwrap().decode().unwrap()
    }

    #[test]
    fn laps_move_times_on_and_the_oracle_learns_what_is_sent() {
        PlanChoice::ALL.into_iter().for_each(laps_move_times_on);
    }

    fn laps_move_times_on(plans: PlanChoice) {
        let mut blocks = prepared(20, true, plans);
        let mut last_ms = [i64::MIN; 10];
        for _ in 0..4 * 5 {
            let batch = blocks.next_batch().unwrap();
            let columns = decoded(&batch);
            let sent = batch.columns.unwrap().into_columns();
            assert_eq!(columns.len(), 4);
            for index in 0..columns.len() {
                let row = columns.row(index);
                assert_eq!(row, sent.row(index));
                let last_ms = &mut last_ms[row.object as usize];
                assert!(row.time_ms >= *last_ms + 1_000 || *last_ms == i64::MIN);
                *last_ms = row.time_ms;
            }
        }
    }

    #[test]
    fn sequences_count_up_and_nothing_is_kept_without_an_oracle() {
        let mut blocks = prepared(8, false, PlanChoice::Planned(shoal_codec::Aim::Fast));
        for expected in 1..=9 {
            let batch = blocks.next_batch().unwrap();
            assert!(batch.columns.is_none());
            let ReportMessage::Prepared { sequence, .. } = batch.message else { panic!() };
            assert_eq!(sequence, expected);
        }
    }

    #[test]
    fn a_workload_without_rows_prepares_nothing() {
        assert!(prepared(0, false, PlanChoice::Raw).next_batch().is_none());
    }
}
