//! Encodes groups of rows as blocks.
//!
//! A group is one table block and a block of bytes for each text column (FILE.md, section 3). Each
//! column has a planner that chooses its trees.

use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::{Aim, Budget, ColumnPlanner, Table, ValueType, Values, compact};

use crate::TableError;
use crate::column_totals::ColumnTotals;
use crate::header::{BlockColumn, Header, KEY_COLUMN};
use crate::row_group::RowGroup;
use crate::table_codec::{CodecFault, TableCodec};

/// Little-endian bytes as values.
fn values(value_type: ValueType, bytes: &[u8]) -> Values {
    macro_rules! read {
        ($($variant:ident => $native:ty),*) => {
            match value_type {
                $(ValueType::$variant => {
                    let (whole, rest) = bytes.as_chunks();
                    assert!(rest.is_empty(), "a column has whole values");
                    let value = |bytes: &_| <$native>::from_le_bytes(*bytes);
                    Values::$variant(whole.iter().map(value).collect())
                })*
            }
        };
    }
    read!(U8 => u8, U16 => u16, U32 => u32, U64 => u64, I8 => i8, I16 => i16, I32 => i32,
          I64 => i64, F32 => f32, F64 => f64)
}

/// Encodes the groups of one table.
pub(crate) struct TableEncoder<'a> {
    codec: &'a mut dyn TableCodec,
    has_key: bool,
    columns: Vec<BlockColumn>,
    planners: Vec<ColumnPlanner>,
    text_planners: Vec<ColumnPlanner>,
    aim: Aim,
    /// Sums over all blocks.
    pub(crate) totals: ColumnTotals,
    /// Time spent in the codec, planning included.
    pub(crate) encode_time: Duration,
}

impl<'a> TableEncoder<'a> {
    /// For a table with this header; planners have this aim.
    pub(crate) fn new(header: &Header, aim: Aim, codec: &'a mut dyn TableCodec) -> Self {
        let columns = header.block_columns();
        let planner = |place: usize| ColumnPlanner::new(place as u64, aim);
        Self {
            codec,
            has_key: header.key_column().is_some(),
            planners: (0..columns.len()).map(planner).collect(),
            columns,
            text_planners: (0..header.texts().count()).map(planner).collect(),
            aim,
            totals: ColumnTotals::new(header),
            encode_time: Duration::ZERO,
        }
    }

    /// The blocks of a group; the first has number `sequence`.
    ///
    /// # Errors
    /// [`TableError::Block`] for a group that does not fit a block.
    pub(crate) fn encode(
        &mut self,
        group: &RowGroup,
        sequence: u64,
    ) -> Result<Vec<Vec<u8>>, TableError> {
        let typed = |column: &BlockColumn| values(column.value_type, &group.columns[column.index]);
        let typed: Vec<Values> = self.columns.iter().map(typed).collect();
        let texts: Vec<Values> = group.texts.iter().map(|text| Values::U8(text.clone())).collect();
        let begin = Instant::now();
        let columns: Vec<(u16, &Values)> =
            self.columns.iter().map(|column| column.id).zip(&typed).collect();
        let mut blocks = vec![Vec::new()];
        let done =
            self.codec.encode(&mut self.planners, &columns, self.has_key, sequence, &mut blocks[0]);
        done.map_err(refused)?;
        for (planner, text) in self.text_planners.iter_mut().zip(&texts) {
            let (planner, columns) = (std::slice::from_mut(planner), [(KEY_COLUMN, text)]);
            let (sequence, mut block) = (sequence + blocks.len() as u64, Vec::new());
            let done = self.codec.encode(planner, &columns, false, sequence, &mut block);
            done.map_err(refused)?;
            blocks.push(block);
        }
        if self.aim.is_compact() {
            blocks.iter_mut().try_for_each(compact).map_err(|error| TableError::block(&error))?;
        }
        self.encode_time += begin.elapsed();
        self.count(&blocks)?;
        Ok(blocks)
    }

    /// Adds blocks to the sums as a reader sees them, so that an invalid block is never written.
    fn count(&mut self, blocks: &[Vec<u8>]) -> Result<(), TableError> {
        for (index, block) in blocks.iter().enumerate() {
            let parsed = Table::parse(Bytes::copy_from_slice(block), &Budget::default());
            let parsed = parsed.map_err(|error| TableError::block(&error))?;
            match index {
                0 => self.totals.add_table(&parsed, &self.columns),
                text => self.totals.add_text(&parsed, text - 1),
            }
        }
        Ok(())
    }
}

/// The error of a group that the codec does not encode.
fn refused(fault: CodecFault) -> TableError {
    match fault {
        CodecFault::Block(error) => TableError::block(&error),
        CodecFault::Device(reason) => TableError::Device { reason },
    }
}
