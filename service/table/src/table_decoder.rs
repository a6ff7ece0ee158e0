//! Decodes the blocks of a compressed file to groups of rows.
//!
//! The columns of every block must match the header (FILE.md, section 3). A group is decoded in
//! parts, because it may have many more rows than bytes.

use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shoal_codec::{Budget, Part, Table, TableValues, ValueType, Values};

use crate::TableError;
use crate::column_totals::ColumnTotals;
use crate::frame::{FrameReader, Trailer};
use crate::header::{BlockColumn, KEY_COLUMN};
use crate::row_group::RowGroup;
use crate::table_codec::{CodecFault, TableCodec};

/// The blocks of one group, and the number of rows that are decoded.
pub(crate) struct GroupBlocks {
    /// Offset in the file of the first block.
    place: u64,
    table: Table,
    /// For each text column, the block of its bytes if the table stores only the lengths.
    texts: Vec<Option<TextBlock>>,
    /// Number of rows of the group decoded so far.
    rows_read: usize,
}

/// The bytes of a text column that are stored in a separate block.
struct TextBlock {
    table: Table,
    /// Number of bytes decoded so far.
    bytes_read: usize,
}

/// Decodes the groups of one file.
pub(crate) struct TableDecoder<'a, R> {
    codec: &'a mut dyn TableCodec,
    /// The file.
    pub(crate) frame: FrameReader<R>,
    columns: Vec<BlockColumn>,
    /// Rows of all blocks so far.
    pub(crate) rows: u64,
    /// Bytes of all decoded values.
    pub(crate) raw_bytes: u64,
    /// Time spent in the codec.
    pub(crate) decode_time: Duration,
    /// Blocks of a group that is not fully decoded.
    open: Option<GroupBlocks>,
}

impl<'a, R: Read> TableDecoder<'a, R> {
    /// Decodes the blocks of `frame`.
    pub(crate) fn new(frame: FrameReader<R>, codec: &'a mut dyn TableCodec) -> Self {
        let columns = frame.header().block_columns();
        let decode_time = Duration::ZERO;
        Self { codec, frame, columns, rows: 0, raw_bytes: 0, decode_time, open: None }
    }

    /// Decodes the next rows of a group, at most as many as the codec decodes at a time; `None`
    /// after the last group.
    ///
    /// # Errors
    /// As [`TableDecoder::blocks`] and [`TableDecoder::part`].
    pub(crate) fn group(&mut self) -> Result<Option<RowGroup>, TableError> {
        loop {
            let mut blocks = match self.open.take() {
                Some(blocks) => blocks,
                None => match self.blocks()? {
                    Some(blocks) => blocks,
                    None => return Ok(None),
                },
            };
            if let Some(group) = self.part(&mut blocks)? {
                self.open = Some(blocks);
                return Ok(Some(group));
            }
        }
    }

    /// Reads the blocks of the next group; `None` after the last.
    ///
    /// # Errors
    /// [`TableError::Input`] with the byte for a damaged file.
    pub(crate) fn blocks(&mut self) -> Result<Option<GroupBlocks>, TableError> {
        let begin = Instant::now();
        let Some((place, table)) = self.block()? else {
            return Ok(None);
        };
        let apart = self.texts_apart(&table).ok_or_else(|| self.other_columns(place))?;
        let mut texts: Vec<_> = self.frame.header().texts().map(|_| None).collect();
        for text in apart {
            let Some((place, table)) = self.block()? else {
                return Err(self.frame.fault(self.frame.place, "the file ends within a group"));
            };
            let chunks = table.chunks().iter();
            if !chunks.map(|chunk| (chunk.id, chunk.value_type)).eq([(KEY_COLUMN, ValueType::U8)]) {
                return Err(self.other_columns(place));
            }
            texts[text] = Some(TextBlock { table, bytes_read: 0 });
        }
        self.rows += table.rows() as u64;
        self.decode_time += begin.elapsed();
        Ok(Some(GroupBlocks { place, table, texts, rows_read: 0 }))
    }

    /// Error for a block of another table.
    fn other_columns(&self, place: u64) -> TableError {
        self.frame.fault(place, "the block has other columns than the header")
    }

    /// Reads the next block; returns its offset in the file and the parsed block.
    fn block(&mut self) -> Result<Option<(u64, Table)>, TableError> {
        let Some((place, bytes)) = self.frame.block()? else {
            return Ok(None);
        };
        let block = Table::parse(Bytes::from(bytes), &Budget::default())
            .map_err(|error| self.frame.fault(place, &error.to_string()))?;
        Ok(Some((place, block)))
    }

    /// Returns the text columns for which the table stores only lengths; `None` if its columns do
    /// not match the header.
    fn texts_apart(&self, table: &Table) -> Option<Vec<usize>> {
        let (mut columns, mut before, mut apart) = (self.columns.iter(), None, Vec::new());
        for chunk in table.chunks() {
            if before.replace(chunk.id) == Some(chunk.id) {
                // This chunk is a second or third part of a text column.
                continue;
            }
            let column = columns.next()?;
            let is_text = chunk.part != Part::Numbers;
            let is_right =
                if is_text { column.text.is_some() } else { chunk.value_type == column.value_type };
            if chunk.id != column.id || !is_right {
                return None;
            }
            apart.extend(column.text.filter(|_| !is_text));
        }
        columns.next().is_none().then_some(apart)
    }

    /// Adds the blocks to sums.
    pub(crate) fn count(&self, blocks: &GroupBlocks, totals: &mut ColumnTotals) {
        let texts = blocks.texts.iter().flatten().map(|text| &text.table);
        let tables: Vec<&Table> = std::iter::once(&blocks.table).chain(texts).collect();
        totals.add_group(&tables, &self.columns);
    }

    /// Decodes the next rows of a group; `None` after the last row, when all bytes of the text
    /// blocks must be decoded.
    ///
    /// # Errors
    /// [`TableError::Input`] if values are invalid in their encoding, or if the length of a text
    /// block differs from the sum of its fields.
    pub(crate) fn part(
        &mut self,
        blocks: &mut GroupBlocks,
    ) -> Result<Option<RowGroup>, TableError> {
        let start = blocks.rows_read;
        let end = self.part_end(blocks);
        if start == end {
            for (text, index) in self.frame.header().texts().enumerate() {
                let Some(block) = &blocks.texts[text] else { continue };
                let (present, stated) = (block.table.rows(), block.bytes_read);
                if stated != present {
                    return Err(self.wrong_text(blocks, index, present, stated as u64));
                }
            }
            return Ok(None);
        }
        let begin = Instant::now();
        let values = self.codec.decode(&blocks.table, start..end);
        let values = values.map_err(|fault| self.refused(blocks, fault))?;
        self.decode_time += begin.elapsed();
        let mut group = RowGroup::new(self.frame.header());
        group.rows = end - start;
        for (place, values) in values.into_iter().enumerate() {
            let BlockColumn { index, text, .. } = self.columns[place];
            group.columns[index] = match (values, text) {
                (TableValues::Numbers(Values::U32(lengths)), Some(text)) => {
                    group.texts[text] = self.text_apart(blocks, (text, index), &lengths)?;
                    Values::U32(lengths).to_le_bytes()
                }
                (TableValues::Numbers(values), _) => values.to_le_bytes(),
                (TableValues::Text(strings), text) => {
                    let (bytes, lengths) = strings.into_parts();
                    text.into_iter().for_each(|text| group.texts[text] = bytes.as_bytes().into());
                    Values::U32(lengths).to_le_bytes()
                }
            };
        }
        blocks.rows_read = end;
        self.raw_bytes += group.raw_bytes();
        Ok(Some(group))
    }

    /// Decodes the next fields of a text column from its separate block; empty if the column has no
    /// separate block.
    fn text_apart(
        &mut self,
        blocks: &mut GroupBlocks,
        (text, index): (usize, usize),
        lengths: &[u32],
    ) -> Result<Vec<u8>, TableError> {
        let Some(block) = &blocks.texts[text] else { return Ok(Vec::new()) };
        let length: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        let (read, present) = (block.bytes_read, block.table.rows());
        let stated = read as u64 + length;
        if stated > present as u64 {
            return Err(self.wrong_text(blocks, index, present, stated));
        }
        let begin = Instant::now();
        let columns = self.codec.decode(&block.table, read..stated as usize);
        self.decode_time += begin.elapsed();
        let columns = columns.map_err(|fault| self.refused(blocks, fault))?;
        if let Some(block) = &mut blocks.texts[text] {
            block.bytes_read = stated as usize;
        }
        // A text block has one column, the bytes.
        match columns.into_iter().next() {
            Some(TableValues::Numbers(Values::U8(bytes))) => Ok(bytes),
            _ => Ok(Vec::new()),
        }
    }

    /// End (exclusive) of the rows of the next part of a group.
    fn part_end(&self, blocks: &GroupBlocks) -> usize {
        let rows = self.codec.rows_together(&blocks.table);
        blocks.table.rows().min(blocks.rows_read + rows)
    }

    /// Error for blocks that the codec cannot decode.
    fn refused(&self, blocks: &GroupBlocks, fault: CodecFault) -> TableError {
        match fault {
            CodecFault::Block(error) => self.frame.fault(blocks.place, &error.to_string()),
            CodecFault::Device(reason) => TableError::Device { reason },
        }
    }

    /// Error for a text block of column `index` whose length differs from the sum of its fields.
    fn wrong_text(
        &self,
        blocks: &GroupBlocks,
        index: usize,
        present: usize,
        stated: u64,
    ) -> TableError {
        let name = &self.frame.header().columns[index].name;
        let end = self.part_end(blocks);
        let problem = format!(
            "column {name} has {present} bytes, its fields {stated} in the first {end} rows"
        );
        self.frame.fault(blocks.place, &problem)
    }

    /// Returns the trailer; call it after the last group.
    ///
    /// # Errors
    /// [`TableError::Input`] if its number of rows differs from the rows that were read.
    pub(crate) fn finish(&self) -> Result<Trailer, TableError> {
        let trailer = self.frame.trailer.unwrap_or_default();
        if trailer.rows == self.rows {
            return Ok(trailer);
        }
        let problem = format!("the trailer states {} rows, there are {}", trailer.rows, self.rows);
        Err(self.frame.fault(self.frame.place, &problem))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shoal_codec::tile::SEGMENT_ROWS;

    use super::*;
    use crate::csv_source::{CsvSource, infer};
    use crate::frame::FrameWriter;
    use crate::header::Header;
    use crate::table_codec::CpuTableCodec;
    use crate::table_encoder::TableEncoder;

    /// A group of `rows` rows with a constant column of numbers and a column of words.
    fn group(rows: usize) -> (Header, RowGroup) {
        let lines = (0..rows).map(|row| format!("7,{}\n", "word".repeat(row % 3)));
        let text = "seven,word\n".to_owned() + &lines.collect::<String>();
        let header = infer("t", text.as_bytes(), b',').unwrap();
        let mut source =
            CsvSource::open("t", text.as_bytes(), &header.columns, b',', None).unwrap();
        let group = source.group(rows).unwrap().unwrap();
        (source.header, group)
    }

    /// Writes the group to a file and returns the groups that are read from the file.
    fn through(header: &Header, group: &RowGroup) -> Result<Vec<RowGroup>, TableError> {
        let mut frame = FrameWriter::open(Vec::new(), Path::new("f"), header)?;
        frame.group(
            &TableEncoder::new(header, shoal_codec::Aim::Fast, &mut CpuTableCodec)
                .encode(group, 0)?,
            group.rows,
        )?;
        let (bytes, _) = frame.finish(false)?;
        let frame = FrameReader::open("f", bytes.as_slice())?;
        let mut codec = CpuTableCodec;
        let mut decoder = TableDecoder::new(frame, &mut codec);
        let mut groups = Vec::new();
        while let Some(group) = decoder.group()? {
            groups.push(group);
        }
        decoder.finish().map(|_| groups)
    }

    #[test]
    fn a_large_group_is_decoded_in_parts() {
        let (header, whole) = group(2 * SEGMENT_ROWS + 5000);
        let parts = through(&header, &whole).unwrap();
        let rows: Vec<usize> = parts.iter().map(|part| part.rows).collect();
        assert_eq!(rows, [SEGMENT_ROWS, SEGMENT_ROWS, 5000]);
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
        let (header, whole) = group(SEGMENT_ROWS + 10);
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
