// Sorts few distinct values by counting, for each value, those that are smaller.
#pragma once
#include "warp/warp.cuh"

// Calls `each(at, rank)` for each of `count` distinct values, at most 32 * EACH; `rank` is the
// number of smaller values. Called by all threads of a warp.
template <u32 EACH, class Each>
__device__ __forceinline__ void warp_rank_each(const u64* values, u32 count, Each each) {
    u64 mine[EACH];
    u32 ranks[EACH] = {};
#pragma unroll
    for (u32 number = 0; number < EACH; number++) {
        u32 at = lane() + 32 * number;
        mine[number] = at < count ? values[at] : 0;
    }
    for (u32 other = 0; other < count; other++) {
        u64 value = values[other];
#pragma unroll
        for (u32 number = 0; number < EACH; number++) ranks[number] += value < mine[number];
    }
#pragma unroll
    for (u32 number = 0; number < EACH; number++) {
        u32 at = lane() + 32 * number;
        if (at < count) each(at, ranks[number]);
    }
}

// As `warp_rank_each`, for at most WARP_SORT_MATCHES values.
template <class Each>
__device__ __forceinline__ void warp_rank(const u64* values, u32 count, Each each) {
    static_assert(WARP_SORT_MATCHES == 32 * 8, "the greatest case ranks all values");
    if (count <= 32 * 2) warp_rank_each<2>(values, count, each);
    else if (count <= 32 * 4) warp_rank_each<4>(values, count, each);
    else warp_rank_each<8>(values, count, each);
}
