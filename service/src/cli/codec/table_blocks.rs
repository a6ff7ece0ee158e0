//! How do groups of rows become blocks of the format, and blocks rows again?
//!
//! A table block, and a block of bytes for each text column (FILE.md, section 3). Trees come from
//! one planner per column; what a block says of its columns must be what the header says.

use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::{
    BlockError, Budget, ColumnPlanner, Table, TableColumn, TableOutcome, ValueType, Values,
    encode_table,
};

use super::frame::{FrameReader, Trailer};
use super::group::Group;
use super::header::Header;
use super::report::ColumnTotals;
use crate::cli::error::CliError;

/// Column of the key, and the only one of a text block.
const KEY_COLUMN: u16 = 256;
/// Column of the header's first.
const FIRST_COLUMN: u16 = 257;

/// Numbers of the header's columns in the order of a table block: the key first.
fn block_order(header: &Header) -> Vec<usize> {
    let key = header.key_column();
    let others = (0..header.columns.len()).filter(|index| Some(*index) != key);
    key.into_iter().chain(others).collect()
}

/// The column id of a header's column in a table block.
fn column_id(header: &Header, index: usize) -> u16 {
    if header.key_column() == Some(index) { KEY_COLUMN } else { FIRST_COLUMN + index as u16 }
}

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

/// Values as little-endian bytes.
fn value_bytes(values: &Values) -> Vec<u8> {
    macro_rules! write {
        ($($variant:ident),*) => {
            match values {
                $(Values::$variant(values) => {
                    values.iter().flat_map(|value| value.to_le_bytes()).collect()
                })*
            }
        };
    }
    write!(U8, U16, U32, U64, I8, I16, I32, I64, F32, F64)
}

/// Encodes the groups of one table.
pub(crate) struct TableEncoder {
    header: Header,
    /// In the order of a table block.
    order: Vec<usize>,
    planners: Vec<ColumnPlanner>,
    text_planners: Vec<ColumnPlanner>,
    spent: Duration,
}

impl TableEncoder {
    /// For a table with this header.
    pub(crate) fn new(header: &Header) -> Self {
        let order = block_order(header);
        let planner = |place: usize| ColumnPlanner::new(place as u64);
        let planners = (0..order.len()).map(planner).collect();
        let text_planners = (0..header.texts().count()).map(planner).collect();
        Self { header: header.clone(), order, planners, text_planners, spent: Duration::ZERO }
    }

    /// Time spent in the codec so far, planning included.
    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// The blocks of a group; the first has number `sequence`.
    ///
    /// # Errors
    /// Those of the codec, which a group within its limits does not meet.
    pub(crate) fn encode(
        &mut self,
        group: &Group,
        sequence: u64,
    ) -> Result<Vec<Vec<u8>>, CliError> {
        let typed: Vec<Values> = self
            .order
            .iter()
            .map(|index| {
                let kind = self.header.columns[*index].kind;
                values(kind.value_type(), &group.columns[*index])
            })
            .collect();
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
        self.spent += begin.elapsed();
        Ok(blocks)
    }

    /// The table block of a group.
    fn table(&mut self, typed: &[Values], sequence: u64) -> Result<Vec<u8>, CliError> {
        let has_key = self.header.key_column().is_some();
        let keys = has_key.then(|| typed[0].keys());
        let mut trees = Vec::with_capacity(typed.len());
        for (place, (planner, values)) in self.planners.iter_mut().zip(typed).enumerate() {
            // The key itself stands in order of rows.
            let keys = keys.as_deref().filter(|_| place > 0);
            trees.push(planner.plan(values, keys));
        }
        let columns: Vec<TableColumn<'_>> = self
            .order
            .iter()
            .zip(typed.iter().zip(&trees))
            .map(|(index, (values, tree))| {
                let id = column_id(&self.header, *index);
                TableColumn { id, values, tree }
            })
            .collect();
        let (block, outcomes) = block(&columns, has_key.then_some(KEY_COLUMN), sequence)?;
        for (planner, (values, outcome)) in self.planners.iter_mut().zip(typed.iter().zip(outcomes))
        {
            let width = values.value_type().width_bytes();
            planner.observe(values.len() * width, outcome.encoded_bytes);
        }
        Ok(block)
    }

    /// Adds the blocks of a group to sums, as a reader sees them.
    ///
    /// # Errors
    /// A block that no reader would take: then nothing is written either.
    pub(crate) fn count(
        &self,
        blocks: &[Vec<u8>],
        totals: &mut ColumnTotals,
    ) -> Result<(), CliError> {
        for (index, block) in blocks.iter().enumerate() {
            let parsed = Table::parse(Bytes::copy_from_slice(block), &Budget::default());
            let parsed = parsed.map_err(|error| CliError::Usage(error.to_string()))?;
            match index {
                0 => totals.add_table(&parsed, &self.order),
                text => totals.add_text(&parsed, text - 1),
            }
        }
        Ok(())
    }
}

/// One table block, and what became of its columns.
fn block(
    columns: &[TableColumn<'_>],
    key: Option<u16>,
    sequence: u64,
) -> Result<(Vec<u8>, Vec<TableOutcome>), CliError> {
    let mut out = Vec::new();
    let outcomes = encode_table(columns, key, sequence, &mut out)
        .map_err(|error| CliError::Usage(format!("{error}; take fewer rows with --block-rows")))?;
    Ok((out, outcomes))
}

/// The blocks of one group, and where the first begins.
pub(crate) struct GroupBlocks {
    place: u64,
    table: Table,
    texts: Vec<Table>,
}

/// Decodes the groups of one file.
pub(crate) struct TableDecoder {
    header: Header,
    order: Vec<usize>,
    rows: u64,
    raw_bytes: u64,
    spent: Duration,
}

impl TableDecoder {
    /// For a file with this header.
    pub(crate) fn new(header: &Header) -> Self {
        let order = block_order(header);
        Self { header: header.clone(), order, rows: 0, raw_bytes: 0, spent: Duration::ZERO }
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of all values that were decoded.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Time spent in the codec so far.
    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// The next group and where it ends, nothing after the last.
    ///
    /// # Errors
    /// As [`TableDecoder::blocks`] and [`TableDecoder::decode`].
    pub(crate) fn group<R: Read>(
        &mut self,
        frame: &mut FrameReader<R>,
    ) -> Result<Option<(Group, u64)>, CliError> {
        let Some(blocks) = self.blocks(frame)? else {
            return Ok(None);
        };
        let group = self.decode(frame, &blocks)?;
        Ok(Some((group, frame.place())))
    }

    /// The blocks of the next group, their columns as the header has them; nothing after the last.
    ///
    /// # Errors
    /// [`CliError::Input`] for a damaged file, with the byte.
    pub(crate) fn blocks<R: Read>(
        &mut self,
        frame: &mut FrameReader<R>,
    ) -> Result<Option<GroupBlocks>, CliError> {
        let begin = Instant::now();
        let Some((place, bytes)) = frame.block()? else {
            return Ok(None);
        };
        let expected: Vec<(u16, ValueType)> = self
            .order
            .iter()
            .map(|index| {
                let id = column_id(&self.header, *index);
                (id, self.header.columns[*index].kind.value_type())
            })
            .collect();
        let table = parsed(frame, place, bytes, &expected)?;
        let mut texts = Vec::new();
        for _ in self.header.texts() {
            let Some((place, bytes)) = frame.block()? else {
                return Err(frame.fault(place, "the file ends within a group"));
            };
            texts.push(parsed(frame, place, bytes, &[(KEY_COLUMN, ValueType::U8)])?);
        }
        self.rows += table.rows() as u64;
        self.spent += begin.elapsed();
        Ok(Some(GroupBlocks { place, table, texts }))
    }

    /// Adds the blocks to sums.
    pub(crate) fn count(&self, blocks: &GroupBlocks, totals: &mut ColumnTotals) {
        totals.add_table(&blocks.table, &self.order);
        for (text, block) in blocks.texts.iter().enumerate() {
            totals.add_text(block, text);
        }
    }

    /// The rows of a group.
    ///
    /// # Errors
    /// [`CliError::Input`] for values that their encodings refuse, or texts of another length.
    pub(crate) fn decode<R: Read>(
        &mut self,
        frame: &FrameReader<R>,
        blocks: &GroupBlocks,
    ) -> Result<Group, CliError> {
        let begin = Instant::now();
        let refused = |error: BlockError| frame.fault(blocks.place, &error.to_string());
        let decoded = decode_table(&blocks.table).map_err(refused)?;
        let texts: Result<Vec<_>, _> = blocks.texts.iter().map(decode_table).collect();
        let texts = texts.map_err(refused)?;
        self.spent += begin.elapsed();
        let mut group = Group::new(&self.header);
        group.rows = blocks.table.rows();
        for (index, values) in self.order.iter().zip(&decoded) {
            group.columns[*index] = value_bytes(values);
        }
        for (text, columns) in group.texts.iter_mut().zip(texts) {
            *text = columns.iter().flat_map(value_bytes).collect();
        }
        for (text, index) in self.header.texts().enumerate() {
            let name = &self.header.columns[index].name;
            let (lengths, _) = group.columns[index].as_chunks();
            let stated: u64 =
                lengths.iter().map(|length| u64::from(u32::from_le_bytes(*length))).sum();
            let present = group.texts[text].len() as u64;
            if stated != present {
                let problem = format!("column {name} has {present} bytes, its fields {stated}");
                return Err(frame.fault(blocks.place, &problem));
            }
        }
        self.raw_bytes += group.raw_bytes();
        Ok(group)
    }

    /// After the last group: the trailer, whose rows are those that were read.
    ///
    /// # Errors
    /// [`CliError::Input`] if they are not.
    pub(crate) fn finish<R: Read>(&self, frame: &FrameReader<R>) -> Result<Trailer, CliError> {
        let trailer = frame.trailer().unwrap_or_default();
        if trailer.rows == self.rows {
            return Ok(trailer);
        }
        let problem = format!("the trailer states {} rows, there are {}", trailer.rows, self.rows);
        Err(frame.fault(frame.place(), &problem))
    }
}

/// Every column of a table block.
fn decode_table(table: &Table) -> Result<Vec<Values>, BlockError> {
    let mut columns = Vec::with_capacity(table.chunks().len());
    for chunk in table.chunks() {
        columns.extend(table.decode(chunk.id, 0..table.rows())?);
    }
    Ok(columns)
}

/// A block with exactly these columns.
fn parsed<R: Read>(
    frame: &FrameReader<R>,
    place: u64,
    bytes: Vec<u8>,
    expected: &[(u16, ValueType)],
) -> Result<Table, CliError> {
    let block = Table::parse(Bytes::from(bytes), &Budget::default())
        .map_err(|error| frame.fault(place, &error.to_string()))?;
    let columns = block.chunks().iter().map(|chunk| (chunk.id, chunk.value_type));
    if columns.eq(expected.iter().copied()) {
        return Ok(block);
    }
    Err(frame.fault(place, "the block has other columns than the header"))
}
