// How are the matches of each query brought into the order of their ids? By length: up to a warp's
// lanes in registers, up to SORT_TILE in a block's shared memory; longer lists as sorted tiles that
// are merged, every merge cut into tiles again, so that one long answer keeps the whole device busy.
#pragma once
#include <cub/block/block_radix_sort.cuh>

#include "warp.cuh"

static const u32 SORT_THREADS = 256;

// Two lists of matches, ids and their slots beside them.
struct Matches {
    u64* objects;
    u32* slots;
};

// The stretch of one query.
struct List {
    u64 first;
    u64 count;
};

__device__ inline List list_of(const u64* bounds, u32 query) {
    return {bounds[query], bounds[query + 1] - bounds[query]};
}

template <u32 ITEMS>
using BlockSort = cub::BlockRadixSort<u64, SORT_THREADS, ITEMS, u32>;

// Shared memory of the block's sort, and the bits in which its ids differ.
struct SortMemory {
    union {
        typename BlockSort<1>::TempStorage one;
        typename BlockSort<4>::TempStorage four;
        typename BlockSort<16>::TempStorage sixteen;
    };
    u64 differing;
};

// Sorts `count` matches, at most SORT_THREADS * ITEMS, by all threads of a block. Only bits in which
// ids differ are sorted by; what fills the last places gets a bit above them all.
template <u32 ITEMS>
__device__ inline void sort_block(typename BlockSort<ITEMS>::TempStorage& storage, u64& differing,
                                  const Matches& from, const Matches& to, u64 first, u32 count) {
    u64 keys[ITEMS];
    u32 values[ITEMS];
    u64 reference = from.objects[first], mine = 0;
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = threadIdx.x + item * SORT_THREADS;
        keys[item] = at < count ? from.objects[first + at] : reference;
        values[item] = at < count ? from.slots[first + at] : NO_SLOT;
        mine |= keys[item] ^ reference;
    }
    if (threadIdx.x == 0) differing = 0;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) mine |= __shfl_xor_sync(WHOLE_WARP, mine, step);
    if (lane() == 0 && mine != 0) atomicOr(&differing, mine);
    __syncthreads();
    u32 bits = 64 - __clzll((i64)differing);
    u64 below = bits < 64 ? (1ull << bits) - 1ull : ~0ull;
    u64 above = reference & ~below;
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        bool is_match = threadIdx.x + item * SORT_THREADS < count;
        keys[item] = is_match ? keys[item] & below : (bits < 64 ? below + 1ull : ~0ull);
    }
    BlockSort<ITEMS>(storage).SortBlockedToStriped(keys, values, 0, bits < 64 ? bits + 1 : 64);
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = threadIdx.x + item * SORT_THREADS;
        if (at < count) {
            to.objects[first + at] = keys[item] | above;
            to.slots[first + at] = values[item];
        }
    }
    __syncthreads();
}

__device__ inline void sort_block(SortMemory& memory, const Matches& from, const Matches& to,
                                  u64 first, u32 count) {
    if (count <= SORT_THREADS)
        sort_block<1>(memory.one, memory.differing, from, to, first, count);
    else if (count <= 4 * SORT_THREADS)
        sort_block<4>(memory.four, memory.differing, from, to, first, count);
    else
        sort_block<16>(memory.sixteen, memory.differing, from, to, first, count);
}

// How many of the first `diagonal` ids of two merged lists come from `a`.
__device__ inline u32 merge_split(const u64* a, u32 a_count, const u64* b, u32 b_count,
                                  u32 diagonal) {
    u32 low = diagonal > b_count ? diagonal - b_count : 0;
    u32 high = diagonal < a_count ? diagonal : a_count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (a[middle] < b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}
