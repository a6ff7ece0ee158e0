//! The block container for positions and its CPU codec.
//!
//! `FORMAT.md` in this package specifies every byte. Modules are named after the structures of the
//! format. Nothing here reads files, clocks or the network.

pub mod assemble;
pub mod block;
pub mod block_plan;
pub mod block_stream;
mod buckets;
pub mod chunk;
mod chunk_rules;
pub mod codec;
mod column_decode;
pub mod column_encode;
pub mod columns;
pub mod compact;
mod decode;
mod distinct;
pub mod encode;
pub mod encoding;
mod entropy;
pub mod error;
pub mod grouping;
pub mod header;
mod huffman_code;
pub mod limits;
pub mod measure;
mod measure_table;
pub mod node_spec;
mod packed;
pub mod plan;
pub mod planner;
mod radix;
mod section;
pub mod space;
pub mod table;
mod table_decode;
pub mod text;
pub mod tile;
pub mod tree;
mod tree_decode;
pub mod tree_encode;
pub mod universal_hash;
mod value_codes;
pub mod value_type;
pub mod values;
mod wire;
pub mod word;

pub use block::Block;
pub use block_plan::BlockPlan;
pub use block_stream::{BlockStream, PlanChoice};
pub use chunk::Chunk;
pub use chunk_rules::TABLE_COLUMN_MIN;
pub use codec::{BlockCodec, CpuCodec};
pub use column_encode::{check_column, decode_column, decode_column_into, encode_column};
pub use columns::{
    ALTITUDE_UNKNOWN, Column, ColumnSet, ColumnValues, FixColumns, FixRow, HEADING_UNKNOWN,
    SPEED_UNKNOWN, STATE_NONE, VALIDITY_UNKNOWN,
};
pub use compact::compact;
pub use encode::{ColumnOutcome, encoded_size_max};
pub use encoding::Encoding;
pub use error::BlockError;
pub use grouping::Grouping;
pub use header::{BlockHeader, bytes_to_header, rewrite_prepared};
pub use limits::Budget;
pub use measure::{Attributes, MEASURES, Measure, Measures, Stored, deadline_ms};
pub use plan::{Plan, PlanNode};
pub use planner::{
    Aim, ColumnPlanner, PlannedChunk, Planner, Statistics, TablePlanner, UnknownAim,
    encode_planned_table, observe_table, planned_chunks, with_trees,
};
pub use radix::sort_words;
pub use space::{SpaceKind, SpaceTag};
pub use table::{TableColumn, TableOutcome, assemble_table, encode_table};
pub use table_decode::{Table, TableValues};
pub use text::{Part, Text};
pub use tree::{DivisorChoice, Tree, TreeTextError};
pub use tree_encode::{EncodedTree, Keys, NotApplicable};
pub use universal_hash::UniversalHash;
pub use value_type::ValueType;
pub use values::Values;
pub use word::Mode;
