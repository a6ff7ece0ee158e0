// One tile of a column that a block encodes: bit patterns of up to 32 (T is u32) or 64 bits (u64)
// in shared memory, where nodes transform them one after another.
//
// A node with two children leaves the second one's values a level below the first one's. Every
// function is called by all threads of the block, after a barrier.
#pragma once
#include "codec/code.cuh"
#include "codec/encode_bits.cuh"

static const u32 TILE_VALUES = 1024;
static const u32 TILE_GROUPS = 32;
// Values of a tile that one thread has: of group `8 item + warp` the one at its lane.
static const u32 TILE_EACH = TILE_VALUES / TILE_THREADS;
static const u32 TILE_WARPS = TILE_THREADS / 32;
template <class T>
struct TileMemory {
    T values[ENCODE_LEVELS][TILE_VALUES];
    u32 counts[ENCODE_LEVELS];
    // A number for each group, the sums before them, and the sum of all.
    u32 groups[TILE_GROUPS];
    u32 offsets[TILE_GROUPS + 1];
    u32 widths[TILE_GROUPS];
    u64 warps[TILE_WARPS];
    T additions[EXCEPTIONS_MAX];
    u32 positions[EXCEPTIONS_MAX];
    u32 chosen[4];
    // Codes and low bits of all values.
    u32 coded[TILE_GROUPS * (CODE_BITS_MAX + 8 * sizeof(T) - 1) + 2];
};

template <class T>
struct Tile {
    TileMemory<T>& memory;
    const EncodeTask& task;
    u32 number;
    u32 level;
    // Words of this tile already staged.
    u32 staged;

    __device__ T* values() { return memory.values[level]; }
    __device__ u32 count() { return memory.counts[level]; }
    __device__ u32* scratch() {
        return (u32*)task.staged + (u64)number * task.staged_words + staged;
    }
    // Commits the words just written to `scratch` as the tile's part of a section.
    __device__ void close(const EncodeStep& step, u32 words, u32 entry) {
        if (threadIdx.x == 0) {
            u64 at = (u64)step.variable * task.tiles + number;
            ((u32*)task.sizes)[at] = words;
            ((u32*)task.entries)[at] = entry;
        }
        staged += words;
    }
};

__device__ inline u32 warp_number() { return threadIdx.x / 32; }

// Place in the tile of one thread's value.
__device__ inline u32 place_of(u32 item) { return item * TILE_THREADS + threadIdx.x; }

__device__ inline u32 group_of(u32 item) { return item * TILE_WARPS + warp_number(); }

// Values of a group in a tile of `count`.
__device__ inline u32 group_count(u32 count, u32 group) {
    u32 first = group * 32;
    return count <= first ? 0 : (count - first < 32 ? count - first : 32);
}

__device__ inline u32 warp_max_u32(u32 value) { return __reduce_max_sync(WHOLE_WARP, value); }
__device__ inline u32 warp_min_u32(u32 value) { return __reduce_min_sync(WHOLE_WARP, value); }
__device__ inline u32 warp_sum_u32(u32 value) { return __reduce_add_sync(WHOLE_WARP, value); }

// The greatest pattern of a warp.
__device__ inline u32 warp_best(u32 value) { return warp_max_u32(value); }
__device__ inline u64 warp_best(u64 value) { return warp_max(value); }

// The greatest pattern over all threads.
template <class T, class V>
__device__ inline V block_max(TileMemory<T>& memory, V value) {
    V best = warp_best(value);
    if (lane() == 0) memory.warps[warp_number()] = best;
    __syncthreads();
    best = (V)memory.warps[0];
#pragma unroll
    for (u32 warp = 1; warp < TILE_WARPS; warp++) {
        V other = (V)memory.warps[warp];
        best = other > best ? other : best;
    }
    __syncthreads();
    return best;
}

// Sums of `groups` before each, and the sum of all, in `offsets`; all threads have written theirs.
template <class T>
__device__ inline void block_sum_groups(TileMemory<T>& memory) {
    __syncthreads();
    if (warp_number() == 0) {
        u32 value = memory.groups[lane()];
        u32 before = warp_sum_before(value);
        memory.offsets[lane()] = before;
        if (lane() == 31) memory.offsets[TILE_GROUPS] = before + value;
    }
    __syncthreads();
}

// Numbers the values with `flags` in their order: place of each in `at`; returns their number.
template <class T>
__device__ inline u32 block_number_flags(TileMemory<T>& memory, const bool (&flags)[TILE_EACH],
                                   u32 (&at)[TILE_EACH]) {
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 votes = __ballot_sync(WHOLE_WARP, flags[item]);
        at[item] = (u32)__popc(votes & lanes_below());
        if (lane() == 0) memory.groups[group_of(item)] = (u32)__popc(votes);
    }
    block_sum_groups(memory);
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) at[item] += memory.offsets[group_of(item)];
    return memory.offsets[TILE_GROUPS];
}

// Adds to a count of the summary.
__device__ inline void count_values(const EncodeTask& task, const EncodeStep& step, u32 values) {
    if (threadIdx.x == 0) atomicAdd((u64*)task.summary + step.summary, (u64)values);
}
