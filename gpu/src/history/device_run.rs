//! A run in the device's memory: columns of tiles, each with only as many bits per value as it
//! needs; zones; and heads.
//!
//! A head is the first row of an object in a tile. A CSB+-tree has the keys (object, time) of all
//! heads, so the newest row of an object at a moment is found with one search and one tile.
//!
//! The blocks of a file are smaller than a run on the device, but have to be decoded tile by tile.
//! A packed value is read directly, so a state costs a few reads instead of the decoding of a tile.

use shoal_codec::tile::TILE_VALUES;
use shoal_codec::{Block, Column, ValueType};
use shoal_engine::EngineError;
use shoal_engine::layout::{RUN_TILE_ROWS, RunColumn, RunInput, RunZone};
use shoal_history::RunObject;
use shoal_history::{ObjectTime, TreeKey};

use super::DeviceHistory;
use crate::codec::Decoder;
use crate::index::DeviceTree;
use crate::launch::{DeviceBuffer, HeadsOnDevice, Plain, RunOnDevice, fault};

const _: () = assert!(RUN_TILE_ROWS as usize == TILE_VALUES, "a tile is one of the codec's");

/// Rows that are decoded together. Bounds the memory that loading takes in addition to the run.
const BATCH_ROWS: usize = 1 << 21;

/// A run to load. Every block but the last has whole tiles. The rows of an object are contiguous
/// and ascend by time.
#[derive(Clone, Copy, Debug)]
pub struct RunSource<'a> {
    /// First time of the partition; all times are less than 2^32 ms after it.
    pub start_ms: i64,
    /// Its blocks, in order.
    pub blocks: &'a [Block],
    /// The zone of each tile.
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

/// Heads of a run on the host; see [`HeadsOnDevice`].
#[derive(Default)]
struct Heads {
    keys: Vec<ObjectTime>,
    rows: Vec<u32>,
    ends: Vec<u32>,
}

impl Heads {
    /// The heads of the objects of a run, without times.
    fn of(objects: &[RunObject]) -> Self {
        let mut heads = Self::default();
        for &RunObject { object, first_row, rows: count } in objects {
            let (mut row, end) = (first_row, first_row + count);
            while row < end {
                let tile_end = (row / RUN_TILE_ROWS + 1) * RUN_TILE_ROWS;
                heads.keys.push(ObjectTime { object, time: 0 });
                heads.rows.push(row);
                heads.ends.push(tile_end.min(end));
                row = tile_end;
            }
        }
        heads
    }
}

fn refused(reason: &str) -> EngineError {
    EngineError::Device(format!("a run cannot be loaded: {reason}"))
}

/// The columns that a run of these blocks has on the device.
fn columns_of(blocks: &[Block]) -> Vec<Column> {
    let has = |column: &Column| {
        let mut columns = blocks.iter().flat_map(Block::columns);
        column.is_mandatory() || columns.any(|(stored, _)| stored == *column)
    };
    let all = Column::ALL.into_iter();
    all.filter(|column| *column != Column::Object).filter(has).collect()
}

/// Appends the columns of a block's tiles to `inputs`, tile by tile; the block's chunks begin at
/// `first_bytes`.
fn add_inputs(
    block: &Block,
    first_bytes: &[usize],
    columns: &[Column],
    start_ms: i64,
    inputs: &mut Vec<RunInput>,
) -> Result<(), EngineError> {
    let base_ms = block.header().base_time_ms.checked_sub(start_ms);
    let base = base_ms.and_then(|base_ms| u32::try_from(base_ms).ok());
    let base = base.ok_or_else(|| refused("a block has times before its partition"))?;
    let first_values: Vec<Option<usize>> = columns
        .iter()
        .map(|column| {
            let chunk = block.columns().position(|(stored, _)| stored == *column);
            chunk.map(|chunk| first_bytes[chunk])
        })
        .collect();
    for first_row in (0..block.rows()).step_by(TILE_VALUES) {
        let rows = TILE_VALUES.min(block.rows() - first_row) as u32;
        for (column, first_value) in columns.iter().zip(&first_values) {
            let width = column.value_type().width_bytes();
            inputs.push(match first_value {
                Some(first_value) => RunInput {
                    values: (first_value + first_row * width) as u64,
                    rows,
                    bits: 8 * width as u32,
                    base: if *column == Column::Time { base } else { 0 },
                    is_signed: (column.value_type() == ValueType::I32).into(),
                },
                None => RunInput {
                    rows,
                    base: column.unknown().unwrap_or_default() as u32,
                    ..RunInput::default()
                },
            });
        }
    }
    Ok(())
}

impl DeviceHistory {
    /// Copies a run to the device.
    ///
    /// # Errors
    /// [`EngineError`] if the device fails, lacks memory or refuses a block.
    pub fn load(&mut self, source: RunSource<'_>) -> Result<DeviceRun, EngineError> {
        self.bind()?;
        let rows: usize = source.blocks.iter().map(Block::rows).sum();
        let (_, whole) = source.blocks.split_last().ok_or_else(|| refused("it has no block"))?;
        let lies_inside = |object: &RunObject| {
            object.first_row as usize + object.rows as usize <= rows && object.rows > 0
        };
        let fits = rows.div_ceil(TILE_VALUES) == source.zones.len()
            && u32::try_from(rows).is_ok()
            && whole.iter().all(|block| block.rows().is_multiple_of(TILE_VALUES))
            && source.objects.iter().all(lies_inside)
            && source.objects.iter().map(|object| object.rows as usize).sum::<usize>() == rows;
        if !fits {
            return Err(refused("its blocks, tiles and objects differ in rows"));
        }
        let columns = columns_of(source.blocks);
        let resident = self.load_rows(&source, rows, &columns)?;
        let (heads, tree) = self.load_heads(&source, &resident)?;
        Ok(DeviceRun { resident, heads, tree, columns })
    }

    /// Decodes the blocks and packs their columns, batch by batch.
    fn load_rows(
        &mut self,
        source: &RunSource<'_>,
        rows: usize,
        columns: &[Column],
    ) -> Result<RunOnDevice, EngineError> {
        let (tiles, kinds) = (source.zones.len(), columns.len());
        let packed_columns = DeviceBuffer::new(&self.memory, tiles * kinds)?;
        let (mut packed, mut first) = (Vec::new(), 0);
        let mut decoder = Decoder::within(&self.gpu, &self.memory)?;
        for blocks in batches(source.blocks) {
            let Some(decoded) = decoder.on_device(blocks)? else {
                return Err(refused("a block breaks a rule of the format"));
            };
            let mut inputs = Vec::new();
            for (block, first_bytes) in blocks.iter().zip(&decoded.first_bytes) {
                add_inputs(block, first_bytes, columns, source.start_ms, &mut inputs)?;
            }
            packed.push(self.pack(decoded.bytes, &inputs, (&packed_columns, first))?);
            first += inputs.len();
        }
        Ok(RunOnDevice {
            columns: packed_columns,
            kinds,
            packed,
            zones: self.upload(source.zones)?,
            tiles,
            rows,
            start_ms: source.start_ms,
        })
    }

    /// Packs decoded columns; returns the packed values. Writes the bounds and the place of each
    /// column to the list `columns`, from its index on.
    fn pack(
        &mut self,
        decoded: &DeviceBuffer<u8>,
        inputs: &[RunInput],
        columns: (&DeviceBuffer<RunColumn>, usize),
    ) -> Result<DeviceBuffer<u32>, EngineError> {
        let length = inputs.len();
        let on_device = self.upload(inputs)?;
        let unpacked = (decoded, &on_device, length);
        let words = DeviceBuffer::new(&self.memory, length + 1)?;
        let places = DeviceBuffer::new(&self.memory, length + 1)?;
        self.kernels.pack_bounds(&self.stream, unpacked, columns, &words)?;
        self.scratch.sum_before(&self.stream, &words, &places, length as u32 + 1)?;
        let words = self.place(&places, length)? as usize;
        // Reading a value also reads the next word, even in a column without words.
        let packed = DeviceBuffer::new(&self.memory, words + 2)?;
        self.kernels.pack(&self.stream, unpacked, columns, &places, &packed)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(packed)
    }

    fn load_heads(
        &self,
        source: &RunSource<'_>,
        run: &RunOnDevice,
    ) -> Result<(HeadsOnDevice, DeviceTree<ObjectTime>), EngineError> {
        let heads = Heads::of(source.objects);
        let keys = self.index.keys(&heads.keys)?;
        let lists = HeadsOnDevice {
            rows: self.upload(&heads.rows)?,
            ends: self.upload(&heads.ends)?,
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

/// Batches of consecutive blocks with at most [`BATCH_ROWS`] rows together; a longer block is a
/// batch.
fn batches(blocks: &[Block]) -> impl Iterator<Item = &[Block]> {
    let mut left = blocks;
    std::iter::from_fn(move || {
        let (mut count, mut rows) = (0, 0);
        for block in left {
            rows += block.rows();
            if count > 0 && rows > BATCH_ROWS {
                break;
            }
            count += 1;
        }
        let (batch, rest) = left.split_at(count);
        left = rest;
        (count > 0).then_some(batch)
    })
}
