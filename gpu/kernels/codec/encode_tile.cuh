// One tile of a column, which a block encodes. The values are bit patterns of up to 32 (T is u32)
// or 64 bits (u64) in shared memory, where the nodes of the tree transform them one after another.
//
// A node with two children leaves its second child's values at the present level and its first
// child's at the next. All threads of the block must call each function, after a barrier.
#pragma once
#include "codec/code.cuh"
#include "codec/encode_bits.cuh"

static const u32 TILE_VALUES = 1024;
static const u32 TILE_GROUPS = 32;
// Values of a tile per thread. Value `item` of a thread is the one at its lane in group
// `8 item + warp`.
static const u32 TILE_EACH = TILE_VALUES / TILE_THREADS;
static const u32 TILE_WARPS = TILE_THREADS / 32;
template <class T>
struct TileMemory {
    T values[ENCODE_LEVELS][TILE_VALUES];
    u32 counts[ENCODE_LEVELS];
    // A number for each group; then the sum of the numbers before each, and the sum of all.
    u32 groups[TILE_GROUPS];
    u32 offsets[TILE_GROUPS + 1];
    u32 widths[TILE_GROUPS];
    u64 warps[TILE_WARPS];
    T additions[EXCEPTIONS_MAX];
    u32 positions[EXCEPTIONS_MAX];
    u32 chosen[4];
    // Packed codes and low bits of all values.
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

// The place in the tile of this thread's value `item`.
__device__ inline u32 place_of(u32 item) { return item * TILE_THREADS + threadIdx.x; }

__device__ inline u32 group_of(u32 item) { return item * TILE_WARPS + warp_number(); }

// The number of values of a group in a tile of `count` values.
__device__ inline u32 group_count(u32 count, u32 group) {
    u32 first = group * 32;
    return count <= first ? 0 : (count - first < 32 ? count - first : 32);
}

__device__ inline u32 warp_sum_u32(u32 value) { return __reduce_add_sync(WHOLE_WARP, value); }

// The greatest value over all threads of the block.
template <class T, class V>
__device__ inline V block_max(TileMemory<T>& memory, V value) {
    V best = warp_max(value);
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

// Writes the exclusive prefix sums of `groups`, and the sum of all, to `offsets`. Waits until all
// threads have written to `groups`.
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

// Writes to `at` the number of flagged values before each value of the thread. Returns the number
// of flagged values of the tile.
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

// Adds `values` to the step's count in the summary.
__device__ inline void count_values(const EncodeTask& task, const EncodeStep& step, u32 values) {
    if (threadIdx.x == 0) atomicAdd((u64*)task.summary + step.summary, (u64)values);
}
