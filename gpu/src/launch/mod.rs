//! The only place with `unsafe`: memory of the device, launches of kernels, CUB's functions.
//!
//! What is exported is safe to call on one condition, which the pipeline keeps by events: work
//! that is queued on streams finishes before the buffers that it names are dropped, rewritten by
//! the host or used by another stream. Lengths are asserted at every launch.

#![allow(unsafe_code, reason = "the driver's interface is unsafe; it ends here")]

mod account;
mod admission;
mod brief;
mod codec_decode;
mod codec_encode;
mod codec_encode_hash;
mod codec_encode_memory;
mod codec_encode_order;
mod codec_encode_place;
mod codec_encode_segment;
mod confirm;
mod dispatch;
mod memory;
mod module;
mod nearest;
mod nvcomp;
mod parameters;
mod plain;
mod primitives;
mod query;
mod sort;
mod subscription;
#[cfg(test)]
pub(crate) mod tests;
mod update;
mod ways;

pub(crate) use account::{Account, Accounts};
pub(crate) use codec_decode::{CodecStretches, Failed};
pub(crate) use codec_encode::{EncodeKernels, Runs, TILE_VALUES};
pub(crate) use codec_encode_hash::HashTable;
pub(crate) use codec_encode_memory::{Arena, DeviceSlice};
pub(crate) use codec_encode_order::Ordering;
pub(crate) use codec_encode_place::Places;
pub(crate) use confirm::{CellsOfParts, ConfirmationArgument};
pub(crate) use dispatch::{CycleRows, Ordered};
pub(crate) use memory::{DeviceBuffer, Memory, PinnedBuffer, fault, is_pinned};
pub(crate) use module::{Kernels, has_driver};
pub(crate) use nearest::Candidates;
pub use nvcomp::{NvComp, NvCompChoice, NvCompColumn};
pub(crate) use parameters::{
    ByteRange, CellsArgument, IndexArgument, InputArgument, MatchesArgument, MovedArgument,
    Outgrown, QuestionStretches, QuestionsArgument, RecordsArgument, RowsArgument, Span,
    SpareArgument, ViewArgument,
};
pub(crate) use plain::{Plain, bytes_of};
pub(crate) use primitives::Scratch;
pub(crate) use subscription::{
    Added, BinsArgument, Listed, NewBinsArgument, RegionsArgument, SceneArgument,
};
pub(crate) use update::Clustered;
pub(crate) use ways::WaysArgument;
