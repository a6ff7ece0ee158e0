//! The lists of a decode: the columns of all blocks, grouped by kernel, so that the number of
//! launches does not depend on the number of blocks.
//!
//! This file allocates places in input and output; it copies and launches nothing.

use std::ops::Range;

use shoal_codec::encoding::dict::entries;
use shoal_codec::tile::{SEGMENT_ROWS, TILE_VALUES, tiles};
use shoal_codec::{Encoding, Plan, PlanNode};
use shoal_engine::layout::{
    CODEC_DIGITS, CODEC_PARTS, CODEC_SCATTER_EACH, CODEC_SCATTER_THREADS, CODEC_SEGMENT_ROWS,
    CODEC_SLOTS, CodecColumn, CodecKeys, CodecOpen, CodecRange, CodecScatter, CodecStep,
    CodecStrings, NO_COLUMN,
};

use super::runs;
use super::steps::{Compiler, take};
use crate::launch::{ByteRange, CodecRanges};

/// Alignment of lists of the output, bytes.
pub(super) const ALIGN: u64 = 256;

const _: () = assert!(SEGMENT_ROWS == CODEC_SEGMENT_ROWS as usize, "the format's");

/// An encoded chunk of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSource<'a> {
    /// Number of its column.
    pub(crate) id: u16,
    pub(crate) plan: &'a Plan,
    /// Ranges of bytes from the start of the block.
    pub(crate) sections: &'a [Range<usize>],
}

/// Form of a column's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Decoded, in row order.
    #[default]
    Decoded,
    /// In row order; a column whose plan is raw remains in the input.
    Rows,
    /// In grouped order if the column is keyed by the column with this number, else in row order.
    Grouped(u16),
    /// In row order; as codes if the column has a dictionary with at most as many entries as rows.
    Codes,
}

/// The requested output of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputRequest {
    pub(crate) form: Form,
    /// The request that fails if this chunk fails.
    pub(crate) request: u32,
    /// Permitted values of a 32-bit column: the least, and the greatest distance above it.
    pub(crate) limits: Option<(u32, u32)>,
}

/// Place of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bytes from the start of the input.
    Input(u64),
    /// Bytes from the start of the output.
    Output(u64),
    /// `values`: start of the values in grouped order. `places`: start of a list with the 16-bit
    /// place of each row within its segment. Both are bytes from the start of the output.
    Grouped { values: u64, places: u64 },
    /// `codes`: start of the 16-bit codes in row order. `table`: start of the `entries` values of
    /// the dictionary, 64 bits each. Both are bytes from the start of the output.
    Codes { codes: u64, table: u64, entries: u32 },
}

/// The kernel that decodes a tree, by the width of its arithmetic and its number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Computes in 32 bits, with 0, 1 or [`CODEC_SLOTS`] slots.
    Narrow(u32),
    /// Computes in 64 bits, with as many slots as [`Class::Narrow`].
    Wide(u32),
    /// A common keyed tree, see [`super::runs`].
    Runs,
    /// A tree of repeated codes, see [`super::runs`].
    Repeats,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub(crate) const ALL: [Self; 8] = [
        Self::Narrow(0),
        Self::Narrow(1),
        Self::Narrow(CODEC_SLOTS),
        Self::Wide(0),
        Self::Wide(1),
        Self::Wide(CODEC_SLOTS),
        Self::Runs,
        Self::Repeats,
    ];
    /// The numbers of the last two classes.
    const RUNS: usize = Self::ALL.len() - 2;
    const REPEATS: usize = Self::RUNS + 1;

    fn number(is_wide: bool, slots: u32) -> usize {
        usize::from(is_wide) * 3 + slots.min(2) as usize
    }
}

/// Columns of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) columns: Vec<CodecColumn>,
    pub(crate) tiles: u32,
}

/// Lists of steps, tasks and columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoding {
    pub(crate) steps: Vec<CodecStep>,
    pub(crate) opens: Vec<CodecOpen>,
    pub(crate) keys: Vec<CodecKeys>,
    pub(crate) scatters: Vec<CodecScatter>,
    pub(crate) strings: Vec<CodecStrings>,
    /// Number of chunks of all columns of strings.
    pub chunks: u32,
    /// Number of parts of all key columns, and number of pieces of all columns to scatter.
    pub parts: u32,
    pub pieces: u32,
    /// Bytes of the longest segment of a column to scatter.
    pub scatter_bytes: u32,
    /// Number of segments of all key columns, and rows of the longest segment.
    pub segments: u32,
    pub segment_rows: u32,
    /// Digits of the longest key, and whether the keys of any key column are not codes.
    pub passes: u32,
    pub has_wide_keys: bool,
    /// `columns[0]` has the columns in row order, `columns[1]` the keyed columns; each by class.
    pub(crate) columns: [[Columns; Class::ALL.len()]; 2],
    /// Bytes of the output.
    pub(crate) bytes: u64,
}

/// One of the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List<'a> {
    Steps(&'a [CodecStep]),
    Opens(&'a [CodecOpen]),
    Keys(&'a [CodecKeys]),
    Scatters(&'a [CodecScatter]),
    Strings(&'a [CodecStrings]),
    Columns(&'a [CodecColumn]),
}

/// Order of the rows by one key column.
#[derive(Clone, Copy)]
struct Grouped {
    id: u16,
    heads: u64,
    places: u64,
}

/// A compiled column.
struct Compiled {
    first_step: u32,
    /// Number of the class; see [`Class::ALL`].
    class: usize,
    /// Place of the dictionary of the codes, or `NO_COLUMN` if there is none; number of its
    /// entries.
    table: u64,
    entries: u32,
}

impl Decoding {
    /// Adds the chunks of a block that begins at `start` of the input; returns the place of each
    /// chunk's values. Chunks ascend by number, so keys precede the columns that they order.
    pub(crate) fn add_block(
        &mut self,
        start: u64,
        chunks: &[ChunkSource<'_>],
        outputs: &[OutputRequest],
    ) -> Vec<Place> {
        assert_eq!(chunks.len(), outputs.len(), "an output request per chunk");
        let mut places = Vec::with_capacity(chunks.len());
        let mut grouped: Vec<Grouped> = Vec::new();
        for (index, (chunk, output)) in chunks.iter().zip(outputs).enumerate() {
            let key = chunk.plan.key_column().map(|(id, _)| id);
            let orders = |other: &ChunkSource<'_>| {
                other.plan.key_column().is_some_and(|(id, _)| id == chunk.id)
            };
            let is_key = key.is_none() && chunks[index + 1..].iter().any(orders);
            let group = key.map(|id| {
                let found = grouped.iter().find(|group| group.id == id);
                *found.expect("plans name preceding keys")
            });
            let (place, codes) = self.add(start, chunk, output, group, is_key);
            places.push(place);
            if is_key {
                grouped.push(self.group(chunk, place, codes));
            }
        }
        places
    }

    /// Adds one column; returns its place and the place of its codes, `NO_COLUMN` if they are not
    /// stored.
    fn add(
        &mut self,
        start: u64,
        chunk: &ChunkSource<'_>,
        requested: &OutputRequest,
        group: Option<Grouped>,
        is_key: bool,
    ) -> (Place, u64) {
        let root = *chunk.plan.root();
        if root.encoding == Encoding::Lzw {
            return (self.strings(start, chunk, requested.request), NO_COLUMN);
        }
        let rows = root.values;
        let stays = requested.form != Form::Decoded && root.encoding == Encoding::Raw;
        let staying = || Place::Input(start + chunk.sections[0].start as u64);
        if stays && requested.limits.is_none() {
            return (staying(), NO_COLUMN);
        }
        let width_bytes = root.value_type.width_bytes() as u64;
        let Compiled { first_step, class, table, entries } =
            self.compile(start, chunk, requested.request, group.is_some());
        let is_dictionary = root.encoding == Encoding::Dict && root.children == 1;
        let gives_codes = requested.form == Form::Codes && table != NO_COLUMN && entries <= rows;
        let keeps_codes = (is_key && is_dictionary) || gives_codes;
        let is_usual = width_bytes <= 4 && !keeps_codes;
        let class = if is_usual { self.class_of_runs(first_step, class) } else { class };
        let codes = match keeps_codes {
            true => take(&mut self.bytes, 2 * u64::from(rows)),
            false => NO_COLUMN,
        };
        let (output, place) = match group {
            _ if stays => (NO_COLUMN, staying()),
            _ if gives_codes => (NO_COLUMN, Place::Codes { codes, table, entries }),
            Some(group) => self.keyed(requested.form, group, rows, width_bytes),
            None => {
                let at = take(&mut self.bytes, u64::from(rows) * width_bytes);
                (at, Place::Output(at))
            }
        };
        let (least, span) = requested.limits.unwrap_or_default();
        let column = CodecColumn {
            output,
            heads: group.map_or(NO_COLUMN, |group| group.heads),
            codes,
            table,
            first_tile: 0,
            tiles: tiles(rows as usize) as u32,
            rows,
            first_step,
            steps: self.steps.len() as u32 - first_step,
            bits: 8 * width_bytes as u32,
            request: requested.request,
            checks: requested.limits.is_some().into(),
            least,
            span,
            entries,
            reserved: 0,
        };
        let columns = &mut self.columns[usize::from(group.is_some())][class];
        if rows > 0 {
            columns.columns.push(CodecColumn { first_tile: columns.tiles, ..column });
            columns.tiles += column.tiles;
        }
        (place, codes)
    }

    /// Adds a column of strings and a column of their codes; returns the place of the strings.
    fn strings(&mut self, start: u64, chunk: &ChunkSource<'_>, request: u32) -> Place {
        let root = chunk.plan.root();
        let rows = root.values;
        let [codes, strings, output] =
            [2, 4, 1].map(|bytes| take(&mut self.bytes, bytes * u64::from(rows)));
        let Compiled { first_step, class, .. } = self.compile(start, chunk, request, false);
        if rows == 0 {
            return Place::Output(output);
        }
        let columns = &mut self.columns[0][class];
        let column = CodecColumn {
            output: codes,
            heads: NO_COLUMN,
            codes: NO_COLUMN,
            table: NO_COLUMN,
            first_tile: columns.tiles,
            tiles: tiles(rows as usize) as u32,
            rows,
            first_step,
            steps: self.steps.len() as u32 - first_step,
            bits: 16,
            request,
            ..CodecColumn::default()
        };
        columns.tiles += column.tiles;
        columns.columns.push(column);
        let chunk_tiles = root.parameter_u32;
        self.strings.push(CodecStrings {
            codes,
            counts: start + chunk.sections[0].start as u64,
            strings,
            output,
            first_chunk: self.chunks,
            chunk_tiles,
            rows,
            request,
        });
        self.chunks += column.tiles.div_ceil(chunk_tiles);
        Place::Output(output)
    }

    /// Compiles a column. If its root is a dictionary of wide values and the column is not keyed,
    /// the steps decode only the codes.
    fn compile(
        &mut self,
        start: u64,
        chunk: &ChunkSource<'_>,
        request: u32,
        is_keyed: bool,
    ) -> Compiled {
        let root = chunk.plan.root();
        let first_step = self.steps.len() as u32;
        let mut compiler = Compiler::new(
            chunk.plan,
            chunk.sections,
            start,
            request,
            &mut self.steps,
            &mut self.opens,
            &mut self.bytes,
        );
        let is_dictionary = root.encoding == Encoding::Dict && root.children == 1;
        let (mut table, mut entries) = (NO_COLUMN, 0);
        if is_dictionary && compiler.is_wide && !is_keyed {
            (table, entries) = compiler.codes();
        } else {
            compiler.subtree(0);
        }
        let needs_slots = compiler.slots.max(compiler.needs_tile.into());
        let class = Class::number(compiler.is_wide, needs_slots);
        Compiled { first_step, class, table, entries }
    }

    /// Allocates a keyed column in grouped order and, if another form is requested, also in row
    /// order. Returns the place of the grouped values and the place of the requested form.
    fn keyed(&mut self, form: Form, group: Grouped, rows: u32, bytes: u64) -> (u64, Place) {
        let places = group.places;
        // Kernels read whole tiles.
        let whole = u64::from(rows).next_multiple_of(TILE_VALUES as u64);
        let values = take(&mut self.bytes, whole * bytes);
        if form == Form::Grouped(group.id) {
            return (values, Place::Grouped { values, places });
        }
        let output = take(&mut self.bytes, u64::from(rows) * bytes);
        if rows > 0 {
            let (first_piece, bytes) = (self.pieces, bytes as u32);
            self.pieces += rows.div_ceil(CODEC_SCATTER_EACH * CODEC_SCATTER_THREADS);
            let segment_rows = whole.min(SEGMENT_ROWS as u64) as u32;
            self.scatter_bytes = self.scatter_bytes.max(segment_rows * bytes);
            let grouped = values;
            let scatter =
                CodecScatter { grouped, places, output, first_piece, rows, bytes, reserved: 0 };
            self.scatters.push(scatter);
        }
        (values, Place::Output(output))
    }

    /// The class of a column whose steps begin at `first_step`. If a dedicated kernel decodes the
    /// tree, replaces the steps by those of that kernel.
    fn class_of_runs(&mut self, first_step: u32, class: usize) -> usize {
        let first_step = first_step as usize;
        let compiled = &self.steps[first_step..];
        let keyed = runs::keyed(compiled).map(|steps| (steps, Class::RUNS));
        let found = keyed.or_else(|| Some((runs::repeats(compiled)?, Class::REPEATS)));
        let Some((steps, class)) = found else {
            return class;
        };
        self.steps.truncate(first_step);
        self.steps.extend(steps);
        class
    }

    /// Adds a key column that orders the rows of a block, by its codes if they are stored.
    fn group(&mut self, chunk: &ChunkSource<'_>, place: Place, codes: u64) -> Grouped {
        let root = chunk.plan.root();
        let rows = root.values;
        // Orders are read in whole tiles.
        let whole = u64::from(rows).next_multiple_of(TILE_VALUES as u64);
        let has_codes = codes != NO_COLUMN;
        let bits = if has_codes { code_bits(root) } else { 0 };
        let (keys, key_bytes, is_decoded) = match place {
            _ if has_codes => (codes, 2, true),
            Place::Input(at) => (at, root.value_type.width_bytes(), false),
            Place::Output(at) => (at, root.value_type.width_bytes(), true),
            _ => unreachable!("keys lie by row"),
        };
        let passes = if has_codes { bits } else { 8 * key_bytes as u32 }.div_ceil(8);
        let (order, work) = (take(&mut self.bytes, 4 * whole), take(&mut self.bytes, 4 * whole));
        let other = if has_codes { work } else { take(&mut self.bytes, 4 * whole) };
        let [places, heads] = [2 * whole, whole / 8].map(|bytes| take(&mut self.bytes, bytes));
        let segments = rows.div_ceil(SEGMENT_ROWS as u32);
        let parts = rows.div_ceil(SEGMENT_ROWS as u32 / CODEC_PARTS);
        let [counts, published] = [parts * passes, parts]
            .map(|lists| take(&mut self.bytes, 4 * u64::from(lists * CODEC_DIGITS)));
        let ranges = take(&mut self.bytes, u64::from(segments) * size_of::<CodecRange>() as u64);
        if rows > 0 {
            self.keys.push(CodecKeys {
                keys,
                order,
                places,
                heads,
                work,
                other,
                counts,
                published,
                ranges,
                first_part: self.parts,
                rows,
                key_bytes: key_bytes as u32,
                is_decoded: is_decoded.into(),
                bits,
                passes,
                first_segment: self.segments,
                reserved: 0,
            });
            self.parts += parts;
            self.segments += segments;
            self.segment_rows = self.segment_rows.max(rows.min(SEGMENT_ROWS as u32));
            self.passes = self.passes.max(passes);
            self.has_wide_keys |= !has_codes;
        }
        Grouped { id: chunk.id, heads, places }
    }

    /// Passes each list to `push`, which assigns a place to it after the output on the device and
    /// returns the place.
    pub(crate) fn place<'a>(&'a self, push: &mut impl FnMut(List<'a>) -> ByteRange) -> CodecRanges {
        let columns = self.columns.each_ref().map(|classes| {
            classes.each_ref().map(|list| (push(List::Columns(&list.columns)), list.tiles))
        });
        CodecRanges {
            front: self.bytes as usize,
            steps: push(List::Steps(&self.steps)),
            opens: push(List::Opens(&self.opens)),
            keys: push(List::Keys(&self.keys)),
            parts: self.parts,
            segments: self.segments,
            segment_rows: self.segment_rows,
            strings: push(List::Strings(&self.strings)),
            chunks: self.chunks,
            scatters: push(List::Scatters(&self.scatters)),
            pieces: self.pieces,
            scatter_bytes: self.scatter_bytes,
            passes: self.passes,
            has_wide_keys: self.has_wide_keys,
            columns,
        }
    }
}

/// Bits of the codes of a dictionary, at least one.
fn code_bits(dictionary: &PlanNode) -> u32 {
    let entries = entries(dictionary.parameter_u32);
    (u32::BITS - (entries - 1).leading_zeros()).max(1)
}
