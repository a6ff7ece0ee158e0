//! A run in the device's memory: blocks as they are, the steps that decode them, and its heads.
//!
//! A head is the first row of an object in a tile. A CSB+-tree has the keys (object, time) of all
//! heads, so the newest row of an object at a moment is found with one search and one tile.

use shoal_codec::limits::SECTION_ALIGN_BYTES;
use shoal_codec::tile::TILE_VALUES;
use shoal_codec::{Block, Chunk, Column};
use shoal_engine::EngineError;
use shoal_engine::layout::{CodecColumn, RUN_BLOCK_TILES, RunZone};
use shoal_history::RunObject;
use shoal_index::{Key, ObjectTime};

use super::DeviceHistory;
use crate::codec::{ChunkSource, Decoding, List, OutputRequest, of_block};
use crate::index::DeviceTree;
use crate::launch::{
    ByteRange, CodecRanges, DeviceBuffer, Failed, HeadsOnDevice, Plain, RunOnDevice, bytes_of,
    fault,
};

/// Alignment of lists, bytes.
const ALIGN: usize = 256;
/// Rows of each block but the last.
const BLOCK_ROWS: usize = RUN_BLOCK_TILES as usize * TILE_VALUES;

/// A run to load. Its blocks have [`BLOCK_ROWS`] rows each but the last, ordered so that the rows
/// of an object follow each other by time, without keyed columns.
#[derive(Clone, Copy, Debug)]
pub struct RunSource<'a> {
    /// First time of the partition; all times lie less than 2^32 ms behind it.
    pub start_ms: i64,
    /// Its blocks, in order.
    pub blocks: &'a [Block],
    /// What the rows of each tile have.
    pub zones: &'a [RunZone],
    /// Its objects, ascending.
    pub objects: &'a [RunObject],
}

/// A run on the device.
#[derive(Debug)]
pub struct DeviceRun {
    pub(super) resident: RunOnDevice,
    pub(super) heads: HeadsOnDevice,
    pub(super) tree: DeviceTree<ObjectTime>,
    /// The columns of its states.
    pub(super) columns: Vec<Column>,
}

/// Bytes and lists of the blocks of a run.
#[derive(Default)]
struct Compiled {
    input: Vec<u8>,
    decoding: Decoding,
    columns: Vec<CodecColumn>,
    bases: Vec<u32>,
    has_slots: bool,
}

/// Heads of a run on the host; see [`HeadsOnDevice`].
struct Heads {
    keys: Vec<ObjectTime>,
    rows: Vec<u32>,
    ends: Vec<u32>,
    order: Vec<u32>,
    firsts: Vec<u32>,
}

impl Compiled {
    /// Appends a list behind the blocks.
    fn push<T: Plain>(&mut self, values: &[T]) -> ByteRange {
        self.input.resize(self.input.len().next_multiple_of(ALIGN), 0);
        let at = self.input.len();
        self.input.extend_from_slice(bytes_of(values));
        ByteRange { at, length: values.len() }
    }

    /// Adds the columns of a block but the objects.
    fn add(&mut self, block: &Block, columns: &[Column], start_ms: i64) -> Result<(), EngineError> {
        self.input.resize(self.input.len().next_multiple_of(SECTION_ALIGN_BYTES), 0);
        let start = self.input.len() as u64;
        self.input.extend_from_slice(block.bytes());
        let base_ms = block.header().base_time_ms.checked_sub(start_ms);
        let base = base_ms.and_then(|base_ms| u32::try_from(base_ms).ok());
        let is_keyed = |chunk: &Chunk| chunk.plan.key_column().is_some();
        let (Some(base), false) = (base, block.chunks().iter().any(is_keyed)) else {
            return Err(refused("a block has keyed columns or times before its partition"));
        };
        self.bases.push(base);
        let (sources, outputs) = of_block(block, OutputRequest::default());
        for column in columns {
            let found = sources.iter().zip(&outputs).find(|(source, _)| source.id == column.id());
            let column = match found {
                Some((source, output)) => self.column(start, source, output.limits),
                None => CodecColumn {
                    rows: block.rows() as u32,
                    least: column.unknown().unwrap_or_default() as u32,
                    ..CodecColumn::default()
                },
            };
            self.columns.push(column);
        }
        Ok(())
    }

    fn column(
        &mut self,
        start: u64,
        source: &ChunkSource<'_>,
        limits: Option<(u32, u32)>,
    ) -> CodecColumn {
        let (column, slots) = self.decoding.add_tiles(start, source, limits);
        self.has_slots |= slots > 1;
        column
    }
}

fn refused(reason: &str) -> EngineError {
    EngineError::Device(format!("a run cannot be loaded: {reason}"))
}

impl Heads {
    /// The heads of the objects of a run with so many tiles.
    fn of(objects: &[RunObject], tiles: usize) -> Self {
        let (mut keys, mut rows, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut firsts = vec![0_u32; tiles + 1];
        let tile_rows = TILE_VALUES as u32;
        for &RunObject { object, first_row, rows: count } in objects {
            let (mut row, end) = (first_row, first_row + count);
            while row < end {
                let tile_end = (row / tile_rows + 1) * tile_rows;
                keys.push(ObjectTime { object, time: 0 });
                rows.push(row);
                ends.push(tile_end.min(end));
                firsts[(row / tile_rows) as usize + 1] += 1;
                row = tile_end;
            }
        }
        for tile in 0..tiles {
            firsts[tile + 1] += firsts[tile];
        }
        let mut next = firsts.clone();
        let mut order = vec![0; rows.len()];
        for (head, row) in (0_u32..).zip(&rows) {
            let place = &mut next[(row / tile_rows) as usize];
            order[*place as usize] = head;
            *place += 1;
        }
        Self { keys, rows, ends, order, firsts }
    }
}

impl DeviceHistory {
    /// Copies a run to the device.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails, lacks memory or refuses a block.
    pub fn load(&mut self, source: RunSource<'_>) -> Result<DeviceRun, EngineError> {
        self.bind()?;
        let tiles = source.zones.len();
        let rows: usize = source.blocks.iter().map(Block::rows).sum();
        let is_whole = |block: &Block| block.rows() == BLOCK_ROWS;
        let (last, whole) = source.blocks.split_last().ok_or_else(|| refused("it has no block"))?;
        let lies_inside = |object: &RunObject| {
            object.first_row as usize + object.rows as usize <= rows && object.rows > 0
        };
        let fits = rows.div_ceil(TILE_VALUES) == tiles
            && whole.iter().all(is_whole)
            && (1..=BLOCK_ROWS).contains(&last.rows())
            && source.objects.iter().all(lies_inside)
            && source.objects.iter().map(|object| object.rows as usize).sum::<usize>() == rows;
        if !fits {
            return Err(refused("its blocks, tiles and objects differ in rows"));
        }
        let (resident, columns) = self.load_blocks(&source)?;
        let (heads, tree) = self.load_heads(&source, &resident)?;
        let run = DeviceRun { resident, heads, tree, columns };
        self.check(&run)?;
        Ok(run)
    }

    fn load_blocks(
        &self,
        source: &RunSource<'_>,
    ) -> Result<(RunOnDevice, Vec<Column>), EngineError> {
        let has = |column: &Column| {
            let chunks = source.blocks.iter().flat_map(Block::chunks);
            column.is_mandatory() || chunks.into_iter().any(|chunk| chunk.column == *column)
        };
        let columns: Vec<Column> = Column::ALL
            .into_iter()
            .filter(|column| *column != Column::Object)
            .filter(has)
            .collect();
        let mut compiled = Compiled::default();
        for block in source.blocks {
            compiled.add(block, &columns, source.start_ms)?;
        }
        let front = (compiled.decoding.bytes as usize).next_multiple_of(ALIGN);
        let decoding = std::mem::take(&mut compiled.decoding);
        let lists: CodecRanges = decoding.place(&mut |list| {
            let range = match list {
                List::Steps(list) => compiled.push(list),
                List::Opens(list) => compiled.push(list),
                _ => ByteRange::default(),
            };
            ByteRange { at: front + range.at, ..range }
        });
        let lists = CodecRanges { front, ..lists };
        let (memory, stream) = (&self.memory, &self.stream);
        let buffer = DeviceBuffer::new(memory, front + compiled.input.len())?;
        buffer.upload(stream, front, &compiled.input[..])?;
        let resident = RunOnDevice {
            front,
            steps: lists.steps.at,
            columns: self.upload(&compiled.columns)?,
            kinds: columns.len(),
            bases: self.upload(&compiled.bases)?,
            zones: self.upload(source.zones)?,
            tiles: source.zones.len(),
            has_slots: compiled.has_slots,
            failed: self.upload(&[0])?,
            start_ms: source.start_ms,
            buffer,
        };
        // Tables are filled once; queries only read them.
        let failed = Failed::words(&resident.failed);
        self.gpu.kernels.codec_decode(stream, &resident.buffer, &lists, failed)?;
        stream.synchronize().map_err(fault)?;
        Ok((resident, columns))
    }

    fn load_heads(
        &self,
        source: &RunSource<'_>,
        run: &RunOnDevice,
    ) -> Result<(HeadsOnDevice, DeviceTree<ObjectTime>), EngineError> {
        let heads = Heads::of(source.objects, run.tiles);
        let keys = self.index.keys(&heads.keys)?;
        let lists = HeadsOnDevice {
            rows: self.upload(&heads.rows)?,
            ends: self.upload(&heads.ends)?,
            order: self.upload(&heads.order)?,
            firsts: self.upload(&heads.firsts)?,
            length: heads.keys.len(),
        };
        self.kernels.times(&self.stream, (run, &lists, &keys.buffer))?;
        self.stream.synchronize().map_err(fault)?;
        let tree = self.index.build(&keys, None, ObjectTime::LEAF_KEYS)?;
        Ok((lists, tree))
    }

    fn upload<T: Plain>(&self, values: &[T]) -> Result<DeviceBuffer<T>, EngineError> {
        let buffer = DeviceBuffer::new(&self.memory, values.len())?;
        buffer.upload(&self.stream, 0, values)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(buffer)
    }
}
