//! Encodes groups of rows as blocks.
//!
//! A group is one table block; each text column that is not UTF-8 adds a block of bytes (FILE.md,
//! section 3). Each column has planners that choose its trees.

use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::{Aim, Budget, Table, TablePlanner, TableValues, Text, Values, compact};

use crate::TableError;
use crate::column_totals::ColumnTotals;
use crate::header::{BlockColumn, Header, KEY_COLUMN};
use crate::row_group::RowGroup;
use crate::table_codec::{CodecFault, TableCodec};

/// Encodes the groups of one table.
pub(crate) struct TableEncoder<'a> {
    codec: &'a mut dyn TableCodec,
    has_key: bool,
    columns: Vec<BlockColumn>,
    planners: Vec<TablePlanner>,
    text_planners: Vec<TablePlanner>,
    aim: Aim,
    /// Sums over all blocks.
    pub(crate) totals: ColumnTotals,
    /// Time spent in the codec, planning included.
    pub(crate) encode_time: Duration,
}

impl<'a> TableEncoder<'a> {
    /// Creates the encoder of a table with this header; all planners have the aim `aim`.
    pub(crate) fn new(header: &Header, aim: Aim, codec: &'a mut dyn TableCodec) -> Self {
        let columns = header.block_columns();
        let planner = |place: usize| TablePlanner::new(place as u64, aim);
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
        let typed: Vec<TableValues> =
            self.columns.iter().map(|column| values(column, group)).collect();
        let begin = Instant::now();
        let columns: Vec<(u16, &TableValues)> =
            self.columns.iter().map(|column| column.id).zip(&typed).collect();
        let mut blocks = vec![Vec::new()];
        let done =
            self.codec.encode(&mut self.planners, &columns, self.has_key, sequence, &mut blocks[0]);
        done.map_err(refused)?;
        for (column, values) in self.columns.iter().zip(&typed) {
            let (Some(text), TableValues::Numbers(_)) = (column.text, values) else { continue };
            let bytes = TableValues::Numbers(Values::U8(group.texts[text].clone()));
            let planner = std::slice::from_mut(&mut self.text_planners[text]);
            let (sequence, mut block) = (sequence + blocks.len() as u64, Vec::new());
            let columns = [(KEY_COLUMN, &bytes)];
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

    /// Adds blocks to the sums by parsing them, so that an invalid block is never written.
    fn count(&mut self, blocks: &[Vec<u8>]) -> Result<(), TableError> {
        let parse = |block: &Vec<u8>| {
            let parsed = Table::parse(Bytes::copy_from_slice(block), &Budget::default());
            parsed.map_err(|error| TableError::block(&error))
        };
        let tables = blocks.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        self.totals.add_group(&tables.iter().collect::<Vec<_>>(), &self.columns);
        Ok(())
    }
}

/// The values of a column of a group: strings if they are UTF-8, else their lengths.
fn values(column: &BlockColumn, group: &RowGroup) -> TableValues {
    let numbers = Values::from_le_bytes(column.value_type, &group.columns[column.index]);
    match (column.text, numbers) {
        (Some(text), Values::U32(lengths)) => {
            match Text::new(group.texts[text].clone(), &lengths) {
                Ok(text) => TableValues::Text(text),
                Err(_) => TableValues::Numbers(Values::U32(lengths)),
            }
        }
        (_, numbers) => TableValues::Numbers(numbers),
    }
}

/// Error for a group that the codec cannot encode.
fn refused(fault: CodecFault) -> TableError {
    match fault {
        CodecFault::Block(error) => TableError::block(&error),
        CodecFault::Device(reason) => TableError::Device { reason },
    }
}
