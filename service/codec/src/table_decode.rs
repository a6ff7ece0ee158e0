//! Decoding of the columns of tables, all rows or a range of rows.
//!
//! A column of strings is assembled from its parts, which are decoded as columns of numbers (on a
//! device as well). The assembly checks the rules of text.

use std::ops::Range;

use bytes::Bytes;

use crate::block::{read, within};
use crate::chunk::Chunk;
use crate::column_decode::segments_of;
use crate::column_encode::{Source, refused};
use crate::compact::expanded;
use crate::decode::sections_of;
use crate::error::BlockError;
use crate::grouping::Grouping;
use crate::header::{BlockHeader, at};
use crate::limits::Budget;
use crate::table::SPACE;
use crate::text::{GatherFault, Part, Text};
use crate::values::Values;

/// A table whose structure and checksums hold; no value is decoded yet.
#[derive(Clone, Debug)]
pub struct Table {
    bytes: Bytes,
    stored_bytes: usize,
    text_bytes_max: usize,
    header: BlockHeader,
    chunks: Vec<Chunk>,
}

/// A column in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum TableValues {
    /// Values of one type.
    Numbers(Values),
    /// Strings.
    Text(Text),
}

impl TableValues {
    /// The values, unless they are strings.
    pub fn into_numbers(self) -> Option<Values> {
        match self {
            Self::Numbers(values) => Some(values),
            Self::Text(_) => None,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Text(text) => text.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// Parses exactly one table and checks everything but the values.
    ///
    /// # Errors
    /// If FORMAT.md, section 7, refuses the table, or if it is a block of fixes.
    pub fn parse(bytes: Bytes, budget: &Budget) -> Result<Self, BlockError> {
        let stored_bytes = bytes.len();
        let (bytes, checksums) = expanded(bytes, budget)?;
        let (header, chunks) = read(&bytes, budget, checksums, check_header)?;
        let text_bytes_max = budget.text_bytes_max;
        Ok(Self { bytes, stored_bytes, text_bytes_max, header, chunks })
    }

    /// Its header.
    pub fn header(&self) -> &BlockHeader {
        &self.header
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.header.rows as usize
    }

    /// Length of the bytes that were parsed.
    pub fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// All its bytes, expanded if the table was compact.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its chunks in order of column.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Decodes `rows` of column `id`; `None` if the table has no such column.
    ///
    /// # Errors
    /// [`BlockError::RowRange`]; what FORMAT.md, sections 4.2 and 6, refuses in the column or its
    /// key; [`BlockError::Budget`] for strings that together exceed the budget.
    pub fn decode(&self, id: u16, rows: Range<usize>) -> Result<Option<TableValues>, BlockError> {
        within_rows(&rows, self.rows())?;
        let Some(first) = self.chunks.iter().position(|chunk| chunk.id == id) else {
            return Ok(None);
        };
        let mut order = None;
        let mut decode = |chunk, rows| self.ordered(chunk, rows, &mut order);
        self.column(first, rows, &mut { self.text_bytes_max }, &mut decode).map(Some)
    }

    /// Decodes `rows` of all columns, in order; the grouped order is computed once for adjacent
    /// columns with the same key.
    ///
    /// # Errors
    /// As [`Table::decode`].
    pub fn decode_all(&self, rows: Range<usize>) -> Result<Vec<TableValues>, BlockError> {
        let mut order = None;
        self.decode_by(rows, |chunk, rows| self.ordered(chunk, rows, &mut order))
    }

    /// As [`Table::decode_all`], but `decode` decodes the values of each chunk, for instance on a
    /// device. It receives the chunk's number and the rows.
    ///
    /// # Errors
    /// As [`Table::decode_all`], and the errors of `decode`.
    pub fn decode_by(
        &self,
        rows: Range<usize>,
        mut decode: impl FnMut(usize, Range<usize>) -> Result<Values, BlockError>,
    ) -> Result<Vec<TableValues>, BlockError> {
        within_rows(&rows, self.rows())?;
        let (mut left, mut before) = (self.text_bytes_max, None);
        let mut columns = Vec::with_capacity(self.chunks.len());
        for (first, chunk) in self.chunks.iter().enumerate() {
            if before.replace(chunk.id) != Some(chunk.id) {
                columns.push(self.column(first, rows.clone(), &mut left, &mut decode)?);
            }
        }
        Ok(columns)
    }

    /// Decodes values of one chunk: a column of numbers, or a part of a column of strings. A part
    /// may have more or fewer values than the table has rows.
    ///
    /// # Errors
    /// As [`Table::decode`].
    ///
    /// # Panics
    /// If the table has fewer chunks.
    pub fn decode_chunk(&self, chunk: usize, rows: Range<usize>) -> Result<Values, BlockError> {
        self.ordered(chunk, rows, &mut None)
    }

    /// Decodes `rows` of the column that begins with chunk `first`. Subtracts the bytes of strings
    /// from `text_bytes_left`.
    fn column(
        &self,
        first: usize,
        rows: Range<usize>,
        text_bytes_left: &mut usize,
        decode: &mut impl FnMut(usize, Range<usize>) -> Result<Values, BlockError>,
    ) -> Result<TableValues, BlockError> {
        let text = match self.chunks[first].part {
            Part::Numbers => return decode(first, rows).map(TableValues::Numbers),
            Part::Indexes => self.indexed_text(first, rows, *text_bytes_left, decode)?,
            Part::Lengths | Part::Bytes => {
                self.plain_text(first, rows, *text_bytes_left, decode)?
            }
        };
        *text_bytes_left -= text.as_str().len();
        Ok(TableValues::Text(text))
    }

    /// Strings of `rows` of a column with indexes in chunk `first`; the next chunks are lengths and
    /// bytes.
    fn indexed_text(
        &self,
        first: usize,
        rows: Range<usize>,
        bytes_max: usize,
        decode: &mut impl FnMut(usize, Range<usize>) -> Result<Values, BlockError>,
    ) -> Result<Text, BlockError> {
        let [lengths, bytes] = [first + 1, first + 2];
        let indexes = numbers(decode(first, rows)?);
        let stored = bytes_of(decode(bytes, 0..self.chunks[bytes].values())?);
        let lengths = numbers(decode(lengths, 0..self.chunks[lengths].values())?);
        let text = Text::new(stored, &lengths).or_else(|problem| self.fault(bytes, problem))?;
        text.gather(&indexes, bytes_max as u64).or_else(|fault| match fault {
            GatherFault::Bytes(bytes) => {
                Err(within("text bytes", bytes, bytes_max as u64).expect_err("more than the limit"))
            }
            GatherFault::Index(index) => {
                self.fault(first, format!("index {index} of {} strings", text.len()))
            }
        })
    }

    /// Strings of `rows` of a column with lengths in chunk `first`; the next chunk is bytes.
    fn plain_text(
        &self,
        first: usize,
        rows: Range<usize>,
        bytes_max: usize,
        decode: &mut impl FnMut(usize, Range<usize>) -> Result<Values, BlockError>,
    ) -> Result<Text, BlockError> {
        let (bytes, stored) = (first + 1, self.chunks[first + 1].values() as u64);
        let (is_end, lengths) = (rows.end == self.rows(), numbers(decode(first, 0..rows.end)?));
        let sum = |lengths: &[u32]| lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        let (before, lengths) = lengths.split_at(rows.start);
        let start = sum(before);
        let end = start + sum(lengths);
        if end > stored || is_end && end != stored {
            let problem = format!("lengths add up to {end} bytes, the text has {stored}");
            return self.fault(bytes, problem);
        }
        within("text bytes", end - start, bytes_max as u64)?;
        let stored = bytes_of(decode(bytes, start as usize..end as usize)?);
        Text::new(stored, lengths).or_else(|problem| self.fault(bytes, problem))
    }

    /// A fault in the values of chunk `chunk`.
    fn fault<T>(&self, chunk: usize, problem: String) -> Result<T, BlockError> {
        Err(BlockError::Chunk { chunk, offset: self.chunks[chunk].payload.start, problem })
    }

    /// Decodes values of a chunk; `order` caches the key, the rows and the grouped order of the
    /// last keyed chunk.
    fn ordered(
        &self,
        chunk: usize,
        rows: Range<usize>,
        order: &mut Option<(u16, Range<usize>, Grouping)>,
    ) -> Result<Values, BlockError> {
        within_rows(&rows, self.chunks[chunk].values())?;
        let Some((key, _)) = self.chunks[chunk].plan.key_column() else {
            return self.values(chunk, rows, None);
        };
        let is_known =
            |(known, of, _): &&(u16, Range<usize>, Grouping)| (known, of) == (&key, &rows);
        if order.as_ref().filter(is_known).is_none() {
            *order = Some((key, rows.clone(), self.grouping(key, &rows)?));
        }
        self.values(chunk, rows, order.as_ref().map(|(.., grouping)| grouping))
    }

    /// Grouped order of the segments that `rows` touch, by column `key`.
    fn grouping(&self, key: u16, rows: &Range<usize>) -> Result<Grouping, BlockError> {
        let key = self.chunks.iter().position(|chunk| chunk.id == key);
        let key = key.expect("parse refuses missing keys");
        let segments = segments_of(rows, self.rows());
        let start = segments.start;
        let keys = self.values(key, segments, None)?.keys();
        Ok(Grouping::of_segments(start, &keys))
    }

    /// Rows of one chunk.
    fn values(
        &self,
        index: usize,
        rows: Range<usize>,
        grouping: Option<&Grouping>,
    ) -> Result<Values, BlockError> {
        let chunk = &self.chunks[index];
        let sections = sections_of(&self.bytes, &chunk.sections);
        let source = Source { plan: &chunk.plan, sections: &sections, grouping, rows };
        let mut values = Values::empty(chunk.value_type);
        values.fill(&source).map_err(|fault| refused(index, fault))?;
        Ok(values)
    }
}

/// Fails if `rows` are not all present.
fn within_rows(rows: &Range<usize>, present: usize) -> Result<(), BlockError> {
    if rows.start > rows.end || rows.end > present {
        let Range { start, end } = *rows;
        return Err(BlockError::RowRange { start, end, rows: present });
    }
    Ok(())
}

/// The values of indexes and lengths, whose type was checked.
fn numbers(values: Values) -> Vec<u32> {
    match values {
        Values::U32(values) => values,
        _ => unreachable!("parse refuses parts of another type"),
    }
}

/// The values of bytes.
fn bytes_of(values: Values) -> Vec<u8> {
    match values {
        Values::U8(values) => values,
        _ => unreachable!("parse refuses parts of another type"),
    }
}

/// Checks that a table states no time, no box, and the space of tables.
pub(crate) fn check_header(header: &BlockHeader) -> Result<(), BlockError> {
    let limits = [header.x_min, header.x_max, header.y_min, header.y_max];
    let times = [header.time_min_offset_ms, header.time_max_offset_ms];
    let rules = [
        (header.is_table(), at::flags_required, "the block is no table"),
        (header.base_time_ms == 0, at::base_time_ms, "a table has base time 0"),
        (times == [0; 2], at::time_min_offset_ms, "a table has no times"),
        (limits == [0; 4], at::x_min, "a table has no box"),
        (header.space == SPACE, at::space_kind, "a table is planar from 0, 0 in steps of 1"),
    ];
    match rules.into_iter().find(|(holds, ..)| !holds) {
        None => Ok(()),
        Some((_, offset, problem)) => {
            Err(BlockError::Header { offset, problem: problem.to_owned() })
        }
    }
}
