//! Encodes groups of rows as blocks.
//!
//! A group is one table block and a block of bytes for each text column (FILE.md, section 3). Each
//! column has a planner that chooses its trees.

use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::{
    Aim, Budget, ColumnPlanner, Table, TableColumn, TableOutcome, ValueType, Values, encode_table,
};

use crate::TableError;
use crate::column_totals::ColumnTotals;
use crate::header::{BlockColumn, Header, KEY_COLUMN};
use crate::row_group::RowGroup;

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
pub(crate) struct TableEncoder {
    has_key: bool,
    columns: Vec<BlockColumn>,
    planners: Vec<ColumnPlanner>,
    text_planners: Vec<ColumnPlanner>,
    /// Sums over all blocks.
    pub(crate) totals: ColumnTotals,
    /// Time spent in the codec, planning included.
    pub(crate) encode_time: Duration,
}

impl TableEncoder {
    /// For a table with this header; planners have this aim.
    pub(crate) fn new(header: &Header, aim: Aim) -> Self {
        let columns = header.block_columns();
        let planner = |place: usize| ColumnPlanner::new(place as u64, aim);
        Self {
            has_key: header.key_column().is_some(),
            planners: (0..columns.len()).map(planner).collect(),
            columns,
            text_planners: (0..header.texts().count()).map(planner).collect(),
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
        let mut blocks = vec![self.table(&typed, sequence)?];
        for (planner, values) in self.text_planners.iter_mut().zip(&texts) {
            let tree = planner.plan(values, None);
            let column = TableColumn { id: KEY_COLUMN, values, tree: &tree };
            let (block, outcomes) = block(&[column], None, sequence + blocks.len() as u64)?;
            planner.observe(values.len(), outcomes[0].encoded_bytes);
            blocks.push(block);
        }
        self.encode_time += begin.elapsed();
        self.count(&blocks)?;
        Ok(blocks)
    }

    /// The table block of a group.
    fn table(&mut self, typed: &[Values], sequence: u64) -> Result<Vec<u8>, TableError> {
        let keys = self.has_key.then(|| typed[0].keys());
        let mut trees = Vec::with_capacity(typed.len());
        for (place, (planner, values)) in self.planners.iter_mut().zip(typed).enumerate() {
            // The key itself is in the order of rows.
            let keys = keys.as_deref().filter(|_| place > 0);
            trees.push(planner.plan(values, keys));
        }
        let columns: Vec<TableColumn<'_>> = self
            .columns
            .iter()
            .zip(typed.iter().zip(&trees))
            .map(|(column, (values, tree))| TableColumn { id: column.id, values, tree })
            .collect();
        let (block, outcomes) = block(&columns, self.has_key.then_some(KEY_COLUMN), sequence)?;
        for (planner, (values, outcome)) in self.planners.iter_mut().zip(typed.iter().zip(outcomes))
        {
            let width = values.value_type().width_bytes();
            planner.observe(values.len() * width, outcome.encoded_bytes);
        }
        Ok(block)
    }

    /// Adds blocks to the sums as a reader sees them, so that an invalid block is never written.
    fn count(&mut self, blocks: &[Vec<u8>]) -> Result<(), TableError> {
        for (index, block) in blocks.iter().enumerate() {
            let parsed = Table::parse(Bytes::copy_from_slice(block), &Budget::default());
            let parsed = parsed.map_err(|error| TableError::Block { reason: error.to_string() })?;
            match index {
                0 => self.totals.add_table(&parsed, &self.columns),
                text => self.totals.add_text(&parsed, text - 1),
            }
        }
        Ok(())
    }
}

/// One table block, and the outcomes of its columns.
fn block(
    columns: &[TableColumn<'_>],
    key: Option<u16>,
    sequence: u64,
) -> Result<(Vec<u8>, Vec<TableOutcome>), TableError> {
    let mut out = Vec::new();
    let outcomes = encode_table(columns, key, sequence, &mut out)
        .map_err(|error| TableError::Block { reason: error.to_string() })?;
    Ok((out, outcomes))
}
