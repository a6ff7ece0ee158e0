//! Settings for experiments, which override choices made from the data.
//!
//! No setting changes an answer, only its time. A narrow launch uses the same kernel: every block
//! requests so much shared memory that only the wanted number of blocks fits on a multiprocessor.
//! Unset settings cost nothing.

use shoal_engine::EngineError;

use crate::stages::UpdateMethod;

/// Threads of a block, unless a kernel defines its own number; fewer only in narrow launches.
pub(crate) const BLOCK_THREADS: u32 = 256;
const WARP_THREADS: u32 = 32;
/// Allocation granularity of shared memory, bytes, on every supported device.
const SHARED_PIECE_BYTES: u32 = 128;

/// Settings of one engine on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Cells along each axis of the grid, 1 to [`Tuning::SIDE_MAX`], instead of a number chosen by
    /// the number of objects. The extent is still that of nearly all objects.
    pub side: Option<u32>,
    /// The method of updating grids, instead of the one with the lower estimated time. A grid to
    /// which moves cannot be applied (new, outgrown, more than two cycles behind) is rebuilt in any
    /// case.
    pub update_method: Option<UpdateMethod>,
    /// Threads of the engine's kernels that are resident on the device, instead of as many as fit:
    /// the paper's number of threads. Rounded down to whole warps on each multiprocessor, from 256
    /// threads on to whole blocks of 256; at least one warp on each.
    ///
    /// Counts the kernels of all stages together, because they share the multiprocessors' memory.
    /// Does not limit sorts, scans, rebuilds of grids and copies. A kernel still has a thread for
    /// each row, candidate or slot: the next block starts when a block has ended, whereas the paper's threads loop. Shared
    /// memory that blocks request reduces the first-level cache, so a narrow launch also has less
    /// cache.
    pub resident_threads: Option<u32>,
}

impl Tuning {
    /// Most cells along an axis; a grid has at most 2^26.
    pub const SIDE_MAX: u32 = 1 << 13;

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.side {
            Some(side) if !(1..=Self::SIDE_MAX).contains(&side) => Err(EngineError::Limit {
                what: "cells along an axis of the grid, at least 1,",
                value: side.into(),
                limit: Self::SIDE_MAX.into(),
            }),
            _ => Ok(()),
        }
    }
}

/// Limits of a device for launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchLimits {
    pub(crate) multiprocessors: u32,
    /// Shared memory of one multiprocessor.
    pub(crate) shared_bytes: u32,
    /// Most shared memory of one block.
    pub(crate) block_shared_bytes_max: u32,
    /// Shared memory that the device reserves for each block, bytes.
    pub(crate) block_reserved_bytes: u32,
}

/// The width of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    pub(crate) block_threads: u32,
    /// Shared memory of a block, including the kernel's own; 0 adds none.
    block_shared_bytes: u32,
}

impl Width {
    /// As many threads as fit.
    pub(crate) const FULL: Self = Self { block_threads: BLOCK_THREADS, block_shared_bytes: 0 };

    /// As many blocks of `block_threads` threads as fit.
    pub(crate) const fn of_blocks(block_threads: u32) -> Self {
        Self { block_threads, block_shared_bytes: 0 }
    }

    /// As many blocks of `block_threads` threads as fit, each with `block_shared_bytes` of shared
    /// memory.
    pub(crate) const fn with_shared(block_threads: u32, block_shared_bytes: u32) -> Self {
        Self { block_threads, block_shared_bytes }
    }

    /// About `threads` threads at a time, on a device with `limits`.
    pub(crate) fn narrow(threads: u32, limits: &LaunchLimits) -> Self {
        let each = (threads / limits.multiprocessors).max(WARP_THREADS);
        let block_threads = (each - each % WARP_THREADS).min(BLOCK_THREADS);
        let blocks = each / block_threads;
        let share = limits.shared_bytes / blocks;
        let piece =
            (share - share % SHARED_PIECE_BYTES).saturating_sub(limits.block_reserved_bytes);
        Self { block_threads, block_shared_bytes: piece.min(limits.block_shared_bytes_max) }
    }

    /// Shared memory that a launch requests beyond the kernel's own.
    pub(crate) fn dynamic_shared_bytes(&self, declared_bytes: u32) -> u32 {
        self.block_shared_bytes.saturating_sub(declared_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H200, A100, RTX 4090, by their compute capability's tables.
    const DEVICES: [LaunchLimits; 3] = [
        limits(132, 233_472, 232_448),
        limits(108, 167_936, 166_912),
        limits(128, 102_400, 101_376),
    ];

    const fn limits(
        multiprocessors: u32,
        shared_bytes: u32,
        block_shared_bytes_max: u32,
    ) -> LaunchLimits {
        LaunchLimits {
            multiprocessors,
            shared_bytes,
            block_shared_bytes_max,
            block_reserved_bytes: 1_024,
        }
    }

    /// Blocks that fit on a multiprocessor by their shared memory.
    fn blocks(width: Width, limits: &LaunchLimits) -> u32 {
        let each = width.block_shared_bytes + limits.block_reserved_bytes;
        limits.shared_bytes / each.next_multiple_of(SHARED_PIECE_BYTES)
    }

    #[test]
    fn requested_threads_fit() {
        for limits in &DEVICES {
            for each in [32, 64, 96, 128, 224, 256, 512, 768, 1_024, 1_280, 1_536] {
                let width = Width::narrow(each * limits.multiprocessors, limits);
                assert_eq!(blocks(width, limits) * width.block_threads, each, "{limits:?}");
                assert!(width.block_shared_bytes <= limits.block_shared_bytes_max, "{limits:?}");
            }
        }
    }

    #[test]
    fn widths_between_are_rounded_down() {
        for (threads, each) in [(0, 32), (1, 32), (4_223, 32), (8_447, 32), (40_000, 256)] {
            let width = Width::narrow(threads, &DEVICES[0]);
            assert_eq!(blocks(width, &DEVICES[0]) * width.block_threads, each, "{threads}");
        }
    }

    #[test]
    fn what_a_kernel_declares_counts() {
        let width = Width::narrow(4_224, &DEVICES[0]);
        assert_eq!(width.dynamic_shared_bytes(0), 232_448);
        assert_eq!(width.dynamic_shared_bytes(49_152), 232_448 - 49_152);
        let half = Width::narrow(132 * 1_024, &DEVICES[0]);
        assert_eq!(half.dynamic_shared_bytes(60_000), 0, "it takes more than its share by itself");
        assert_eq!(Width::FULL.dynamic_shared_bytes(49_152), 0);
    }

    #[test]
    fn sides_without_sense_are_refused() {
        for side in [0, Tuning::SIDE_MAX + 1] {
            let error = Tuning { side: Some(side), ..Tuning::default() }.check().unwrap_err();
            assert!(error.to_string().contains(&format!("is {side}, the limit is 8192")));
        }
        Tuning { side: Some(Tuning::SIDE_MAX), ..Tuning::default() }.check().unwrap();
        Tuning::default().check().unwrap();
    }
}
