//! How do groups of rows become blocks of the format, and blocks rows again?
//!
//! A table block, and a block of bytes for each text column (FILE.md, section 3). Trees come from
//! one planner per column; what a block says of its columns must be what the header says.

use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::tile::SEGMENT_ROWS;
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

/// Rows that are decoded together: a group's rows may be many times its bytes.
const PART_ROWS: usize = SEGMENT_ROWS;

/// The blocks of one group, where the first begins, and how much of them was decoded.
pub(crate) struct GroupBlocks {
    place: u64,
    table: Table,
    texts: Vec<Table>,
    /// Rows of the table, and bytes of each text, that were decoded.
    rows_read: usize,
    texts_read: Vec<usize>,
}

/// Decodes the groups of one file.
pub(crate) struct TableDecoder {
    header: Header,
    order: Vec<usize>,
    rows: u64,
    raw_bytes: u64,
    spent: Duration,
    /// Blocks of which some rows are still to be decoded.
    open: Option<GroupBlocks>,
}

impl TableDecoder {
    /// For a file with this header.
    pub(crate) fn new(header: &Header) -> Self {
        let order = block_order(header);
        let (header, spent) = (header.clone(), Duration::ZERO);
        Self { header, order, rows: 0, raw_bytes: 0, spent, open: None }
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

    /// The next rows, at most [`PART_ROWS`], and where their blocks end; nothing after the last.
    ///
    /// # Errors
    /// As [`TableDecoder::blocks`] and [`TableDecoder::part`].
    pub(crate) fn group<R: Read>(
        &mut self,
        frame: &mut FrameReader<R>,
    ) -> Result<Option<(Group, u64)>, CliError> {
        loop {
            let mut blocks = match self.open.take() {
                Some(blocks) => blocks,
                None => match self.blocks(frame)? {
                    Some(blocks) => blocks,
                    None => return Ok(None),
                },
            };
            if let Some(group) = self.part(frame, &mut blocks)? {
                self.open = Some(blocks);
                return Ok(Some((group, frame.place())));
            }
        }
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
        let texts_read = vec![0; texts.len()];
        Ok(Some(GroupBlocks { place, table, texts, rows_read: 0, texts_read }))
    }

    /// Adds the blocks to sums.
    pub(crate) fn count(&self, blocks: &GroupBlocks, totals: &mut ColumnTotals) {
        totals.add_table(&blocks.table, &self.order);
        for (text, block) in blocks.texts.iter().enumerate() {
            totals.add_text(block, text);
        }
    }

    /// The next rows of a group; nothing after the last.
    ///
    /// # Errors
    /// [`CliError::Input`] for values that their encodings refuse, or texts of another length.
    pub(crate) fn part<R: Read>(
        &mut self,
        frame: &FrameReader<R>,
        blocks: &mut GroupBlocks,
    ) -> Result<Option<Group>, CliError> {
        let start = blocks.rows_read;
        let end = blocks.table.rows().min(start + PART_ROWS);
        if start == end {
            self.check_texts(frame, blocks)?;
            return Ok(None);
        }
        let refused = |error: BlockError| frame.fault(blocks.place, &error.to_string());
        let begin = Instant::now();
        let values = blocks.table.decode_all(start..end).map_err(refused)?;
        self.spent += begin.elapsed();
        let mut group = Group::new(&self.header);
        group.rows = end - start;
        for (index, values) in self.order.iter().zip(&values) {
            group.columns[*index] = value_bytes(values);
        }
        for (text, index) in self.header.texts().enumerate() {
            let (lengths, _) = group.columns[index].as_chunks();
            let length: u64 =
                lengths.iter().map(|length| u64::from(u32::from_le_bytes(*length))).sum();
            let read = blocks.texts_read[text];
            let stated = read as u64 + length;
            let present = blocks.texts[text].rows();
            if stated > present as u64 {
                return Err(self.wrong_text(frame, blocks, index, present, stated));
            }
            let begin = Instant::now();
            let columns = blocks.texts[text].decode_all(read..stated as usize);
            self.spent += begin.elapsed();
            group.texts[text] = columns.map_err(refused)?.iter().flat_map(value_bytes).collect();
            blocks.texts_read[text] = stated as usize;
        }
        blocks.rows_read = end;
        self.raw_bytes += group.raw_bytes();
        Ok(Some(group))
    }

    /// After the last rows of a group: the fields took all of its texts.
    fn check_texts<R: Read>(
        &self,
        frame: &FrameReader<R>,
        blocks: &GroupBlocks,
    ) -> Result<(), CliError> {
        for (text, index) in self.header.texts().enumerate() {
            let (present, stated) = (blocks.texts[text].rows(), blocks.texts_read[text]);
            if stated != present {
                return Err(self.wrong_text(frame, blocks, index, present, stated as u64));
            }
        }
        Ok(())
    }

    /// The fields of column `index` are not as long as its text.
    fn wrong_text<R: Read>(
        &self,
        frame: &FrameReader<R>,
        blocks: &GroupBlocks,
        index: usize,
        present: usize,
        stated: u64,
    ) -> CliError {
        let (name, end) = (&self.header.columns[index].name, blocks.rows_read + PART_ROWS);
        let end = end.min(blocks.table.rows());
        let problem = format!(
            "column {name} has {present} bytes, its fields {stated} in the first {end} rows"
        );
        frame.fault(blocks.place, &problem)
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

#[cfg(test)]
mod tests {
    use super::super::csv_source::{CsvSource, infer};
    use super::super::frame::FrameWriter;
    use super::*;

    /// A group of `rows` rows: a number that is always the same, and words.
    fn group(rows: usize) -> (Header, Group) {
        let lines = (0..rows).map(|row| format!("7,{}\n", "word".repeat(row % 3)));
        let text = "seven,word\n".to_owned() + &lines.collect::<String>();
        let header = infer("t", text.as_bytes(), b',').unwrap();
        let mut source =
            CsvSource::open("t", text.as_bytes(), &header.columns, b',', None).unwrap();
        let group = source.group(rows).unwrap().unwrap();
        (source.header().clone(), group)
    }

    /// The groups that are read of a file with one.
    fn through(header: &Header, group: &Group) -> Result<Vec<Group>, CliError> {
        let mut frame = FrameWriter::open(Vec::new(), header).unwrap();
        for (index, block) in TableEncoder::new(header).encode(group, 0)?.iter().enumerate() {
            frame.block(block, if index == 0 { group.rows as u64 } else { 0 }).unwrap();
        }
        let (bytes, _) = frame.finish(false).unwrap();
        let mut frame = FrameReader::open("f", bytes.as_slice())?;
        let (mut decoder, mut groups) = (TableDecoder::new(header), Vec::new());
        while let Some((group, _)) = decoder.group(&mut frame)? {
            groups.push(group);
        }
        decoder.finish(&frame).map(|_| groups)
    }

    #[test]
    fn a_large_group_is_decoded_in_parts() {
        let (header, whole) = group(2 * PART_ROWS + 5000);
        let parts = through(&header, &whole).unwrap();
        let rows: Vec<usize> = parts.iter().map(|part| part.rows).collect();
        assert_eq!(rows, [PART_ROWS, PART_ROWS, 5000]);
        for column in 0..2 {
            let values: Vec<&[u8]> =
                parts.iter().map(|part| part.columns[column].as_slice()).collect();
            assert_eq!(values.concat(), whole.columns[column]);
        }
        let texts: Vec<&[u8]> = parts.iter().map(|part| part.texts[0].as_slice()).collect();
        assert_eq!(texts.concat(), whole.texts[0]);
    }

    #[test]
    fn texts_are_as_long_as_their_fields() {
        let (header, whole) = group(PART_ROWS + 10);
        let length = whole.texts[0].len();
        for present in [0, length / 2, length - 1, length + 1] {
            let mut group = whole.clone();
            group.texts[0].resize(present, b'x');
            let error = through(&header, &group).unwrap_err().to_string();
            let problem = format!("column word has {present} bytes, its fields ");
            assert!(error.starts_with("f: byte ") && error.contains(&problem), "{error}");
        }
    }
}
