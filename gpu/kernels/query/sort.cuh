// Sorts the matches of each query by id. The algorithm depends on the length of the list. A warp
// sorts up to WARP_QUERY_MATCHES matches in registers, and up to WARP_SORT_MATCHES by counting the
// smaller ids of each; a block sorts up to SORT_TILE matches in shared memory (with CUB's block
// sort). Longer lists are cut into tiles, which are sorted and then merged. The output
// of each merge is also cut into tiles, so that one long answer uses the whole device.
#pragma once
#include <cub/block/block_radix_sort.cuh>

#include "query/policy.cuh"
#include "warp/search.cuh"
#include "warp/warp.cuh"

// The range of one query's matches.
struct List {
    u64 first;
    u64 count;
};

__device__ inline List list_of(const u64* bounds, u32 query) {
    return {bounds[query], bounds[query + 1] - bounds[query]};
}

template <class Key, u32 ITEMS>
using BlockSort = cub::BlockRadixSort<Key, SORT_THREADS, ITEMS, u32, SORT_PASS_BITS>;

// Shared memory of a block that sorts, with the bits in which its ids differ.
struct SortMemory {
    union {
        typename BlockSort<u64, 16>::TempStorage wide;
        typename BlockSort<u32, 1>::TempStorage one;
        typename BlockSort<u32, 2>::TempStorage two;
        typename BlockSort<u32, 4>::TempStorage four;
        typename BlockSort<u32, 8>::TempStorage eight;
        typename BlockSort<u32, 16>::TempStorage sixteen;
    };
    u64 differing;
};

// Returns the bits in which `count` ids differ to all threads of a block.
__device__ inline u64 block_differing_bits(u64& differing, const u64* objects, u32 count) {
    u64 reference = objects[0], mine = 0;
    for (u32 at = threadIdx.x; at < count; at += SORT_THREADS) mine |= objects[at] ^ reference;
    if (threadIdx.x == 0) differing = 0;
    __syncthreads();
    mine = warp_or(mine);
    if (lane() == 0 && mine != 0) atomicOr(&differing, mine);
    __syncthreads();
    return differing;
}

// Sorts `count` matches, at most SORT_THREADS * ITEMS, whose ids differ only in the lower `bits`;
// padding has the next higher bit set, so it sorts last.
template <class Key, u32 ITEMS>
__device__ inline void block_sort_items(typename BlockSort<Key, ITEMS>::TempStorage& storage,
                                  const Matches& from, const Matches& to, u64 first, u32 count,
                                  u32 bits) {
    Key keys[ITEMS];
    u32 values[ITEMS];
    const u32 key_bits = 8 * sizeof(Key);
    u64 below = bits < 64 ? (1ull << bits) - 1ull : ~0ull;
    u64 above = from.objects[first] & ~below;
    Key last = bits < key_bits ? (Key)(below + 1ull) : (Key)~0ull;
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = threadIdx.x + item * SORT_THREADS;
        keys[item] = at < count ? (Key)(from.objects[first + at] & below) : last;
        values[item] = at < count ? from.slots[first + at] : NO_SLOT;
    }
    // All threads read before any writes, because input and output may be the same lists.
    __syncthreads();
    int end = bits < key_bits ? (int)bits + 1 : (int)key_bits;
    BlockSort<Key, ITEMS>(storage).SortBlockedToStriped(keys, values, 0, end);
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = threadIdx.x + item * SORT_THREADS;
        if (at < count) {
            to.objects[first + at] = (u64)keys[item] | above;
            to.slots[first + at] = values[item];
        }
    }
    __syncthreads();
}

// Sorts at most SORT_TILE matches from `first` on; compares only the bits in which ids differ.
// Called by all threads of a block.
__device__ inline void block_sort(SortMemory& memory, const Matches& from, const Matches& to,
                                  u64 first, u32 count) {
    u32 bits =
        64 - __clzll((i64)block_differing_bits(memory.differing, from.objects + first, count));
    if (bits > 31)
        block_sort_items<u64, 16>(memory.wide, from, to, first, count, bits);
    else if (count <= SORT_THREADS)
        block_sort_items<u32, 1>(memory.one, from, to, first, count, bits);
    else if (count <= 2 * SORT_THREADS)
        block_sort_items<u32, 2>(memory.two, from, to, first, count, bits);
    else if (count <= 4 * SORT_THREADS)
        block_sort_items<u32, 4>(memory.four, from, to, first, count, bits);
    else if (count <= 8 * SORT_THREADS)
        block_sort_items<u32, 8>(memory.eight, from, to, first, count, bits);
    else
        block_sort_items<u32, 16>(memory.sixteen, from, to, first, count, bits);
}

// How many of the first `diagonal` ids of the merged lists `a` and `b` come from `a`.
__device__ inline u32 merge_split(const u64* a, u32 a_count, const u64* b, u32 b_count,
                                  u32 diagonal) {
    u32 low = diagonal > b_count ? diagonal - b_count : 0;
    u32 high = diagonal < a_count ? diagonal : a_count;
    return partition_point(low, high, [&](u32 at) { return a[at] < b[diagonal - 1 - at]; });
}
