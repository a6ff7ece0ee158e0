// Rebuilds a grid from the newest positions: a counting sort by cell in two steps. First the
// entries are partitioned by bins of consecutive cells, then they are placed in the cells of their
// bin.
//
// A block takes a chunk of consecutive entries. It counts them in its shared memory and adds each
// count to global memory once, so that few atomics are needed, also if all objects are in one cell.
// If the bins of its entries have more cells than it can count, every entry takes an atomic in
// global memory. The order of the entries of a cell is arbitrary.
#pragma once
#include "block/block.cuh"
#include "update/update.cuh"

// Loads the thread's entries of a block's chunk; those from `length` on are not alive.
__device__ inline void load_entries(const Entry* list, u32 length, Entry (&entries)[REBUILD_EACH]) {
    u32 at = blockIdx.x * blockDim.x * REBUILD_EACH + threadIdx.x;
#pragma unroll
    for (u32 index = 0; index < REBUILD_EACH; index++, at += blockDim.x) {
        int4 words = {0, 0, (int)NO_SLOT, 0};
        if (at < length) words = __ldcs((const int4*)(list + at));
        entries[index] = *(Entry*)&words;
    }
}

// Clears counts in shared memory.
__device__ inline void clear(u32* counts, u32 length) {
    for (u32 at = threadIdx.x; at < length; at += blockDim.x) counts[at] = 0;
    __syncthreads();
}

// The cells of the bins of a chunk of partitioned entries.
struct Window {
    u32 first;
    u32 length;
};

__device__ inline Window window_of(const Grid& grid, u32 shift, const Entry* sorted, u32 length) {
    u32 chunk = blockDim.x * REBUILD_EACH, at = blockIdx.x * chunk;
    Entry first = sorted[at], last = sorted[min(at + chunk, length) - 1];
    u32 first_bin = cell_of(grid, first.x, first.y) >> shift;
    u32 last_bin = cell_of(grid, last.x, last.y) >> shift;
    return {first_bin << shift, (last_bin + 1 - first_bin) << shift};
}
