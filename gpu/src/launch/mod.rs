//! The crate's only `unsafe`: device memory, copies, kernel launches and CUB's functions.
//!
//! No exported function lets the host access memory that a copy uses or that is freed, because host
//! buffers and slices of arenas check this. A launch checks number and sizes of its arguments, and
//! asserts that buffers are as long as the numbers of the host that index them. Numbers that a
//! kernel reads on the device, such as slots, lie within the capacity for which the stages make
//! buffers. Kernels access only device memory. The stages order streams and rebuild arguments after
//! their buffers have grown; a mistake there ends the device's context.

#![allow(unsafe_code, reason = "the driver's interface is unsafe; it ends here")]
#![allow(clippy::too_many_arguments, reason = "a launch has the parameters of its kernel")]

mod account;
mod admission;
mod argument_layout;
mod codec_decode;
mod codec_encode;
mod codec_encode_hash;
mod codec_encode_memory;
mod codec_encode_order;
mod codec_encode_place;
mod codec_encode_segment;
mod codec_encode_strings;
mod cub;
mod dispatch;
mod history;
mod host;
mod index;
mod memory;
mod module;
mod nearest;
mod parameters;
mod plain;
mod query;
mod rebuild;
mod records;
mod sort;
mod subscription;
#[cfg(test)]
pub(crate) mod tests;
mod trajectories;
mod update;
mod warp_query;

use shoal_engine::layout;

pub(crate) use account::{Account, Accounts};
pub(crate) use argument_layout::{
    AnswerListsArgument, BinsArgument, CellsArgument, IndexArgument, InputArgument,
    MatchesArgument, MovedArgument, NewBinsArgument, Outgrown, QueriesArgument, RecordsArgument,
    RegionsArgument, RowsArgument, SceneArgument, Span, SpareArgument, TrajectoriesArgument,
    ViewArgument,
};
pub(crate) use codec_decode::{CodecRanges, Failed};
pub(crate) use codec_encode::{EncodeKernels, Runs, TILE_VALUES};
pub(crate) use codec_encode_hash::HashTable;
pub(crate) use codec_encode_memory::{Arena, DeviceSlice};
pub(crate) use codec_encode_order::Ordering;
pub(crate) use codec_encode_place::Places;
pub(crate) use cub::Scratch;
pub(crate) use dispatch::{CycleRows, Ordered};
pub(crate) use history::{HeadsOnDevice, HistoryKernels, RunAndHeads, RunOnDevice, StatesOnDevice};
pub(crate) use host::{CopyTarget, PinnedBuffer, is_pinned};
pub(crate) use index::{TreeArrays, TreeKernels, TreeSearch};
pub(crate) use memory::{DeviceBuffer, Memory, fault};
pub(crate) use module::{Kernels, has_driver};
pub(crate) use nearest::NearestRanking;
pub(crate) use parameters::{ByteRange, QueryInput, QueryRanges};
pub(crate) use plain::{Plain, bytes_of};
pub(crate) use rebuild::{CellCounts, Partition};
pub(crate) use subscription::{Added, Listed};
pub(crate) use update::Clustered;
