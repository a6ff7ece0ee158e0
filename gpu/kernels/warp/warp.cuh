// Counts, sums and lists over the threads of a warp. All threads of the warp must call each
// function.
//
// Sums and bounds use cooperative groups. On an H100, these are as fast as explicit shuffles in
// cycles (`glfpp --experiment mixed`), in the codec and with continuous queries.
#pragma once
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "layout.cuh"

namespace cg = cooperative_groups;

__device__ __forceinline__ cg::thread_block_tile<32> whole_warp() {
    return cg::tiled_partition<32>(cg::this_thread_block());
}

static const u32 WHOLE_WARP = 0xffffffffu;

__device__ inline u32 lane() { return threadIdx.x & 31u; }

// A bit for each lane below this one.
__device__ inline u32 lanes_below() { return (1u << lane()) - 1u; }

// Adds the number of threads with `yes` to a counter, with one atomic per warp.
__device__ inline void warp_count(bool yes, u32* counter) {
    u32 votes = __ballot_sync(WHOLE_WARP, yes);
    if (votes != 0 && lane() == 0) atomicAdd(counter, (u32)__popc(votes));
}

__device__ inline void warp_count(bool yes, u64* counter) {
    u32 votes = __ballot_sync(WHOLE_WARP, yes);
    if (votes != 0 && lane() == 0) atomicAdd(counter, (u64)__popc(votes));
}

// Adds the sum of `change` (-1, 0, 1) to a wrapping counter.
__device__ inline void warp_add_signs(int change, u64* counter) {
    int sum = __popc(__ballot_sync(WHOLE_WARP, change > 0))
        - __popc(__ballot_sync(WHOLE_WARP, change < 0));
    if (sum != 0 && lane() == 0) atomicAdd(counter, (u64)(i64)sum);
}

// The sum over the lanes up to this one.
template <class T>
__device__ __forceinline__ T warp_sum_to(T value) {
    return cg::inclusive_scan(whole_warp(), value, cg::plus<T>());
}

// The sum over the lanes below.
__device__ inline u32 warp_sum_before(u32 value) { return warp_sum_to(value) - value; }

// Adds the number of threads with `yes` to `*length`, the length of a list, and returns a distinct
// new place in the list to each of them.
__device__ inline u32 warp_append(bool yes, u32* length) {
    u32 votes = __ballot_sync(WHOLE_WARP, yes);
    u32 first = 0;
    if (votes != 0 && lane() == 0) first = atomicAdd(length, (u32)__popc(votes));
    first = __shfl_sync(WHOLE_WARP, first, 0);
    return first + __popc(votes & lanes_below());
}

// Each thread with `yes` adds `each` to the wrapping counter of its group; one atomic per group and
// warp. All threads of a group pass the same `counter`.
__device__ inline void warp_count_by_key(bool yes, u32 group, u32* counter, u32 each = 1) {
    u32 votes = __ballot_sync(WHOLE_WARP, yes);
    if (votes == 0) return;
    u32 peers = __match_any_sync(WHOLE_WARP, group);
    u32 mine = votes & peers;
    if (mine != 0 && lane() == (u32)__ffs(mine) - 1u) atomicAdd(counter, each * __popc(mine));
}

template <class T>
__device__ __forceinline__ T warp_or(T value) {
    return cg::reduce(whole_warp(), value, cg::bit_or<T>());
}

template <class T>
__device__ __forceinline__ T warp_max(T value) {
    return cg::reduce(whole_warp(), value, cg::greater<T>());
}

template <class T>
__device__ __forceinline__ T warp_min(T value) {
    return cg::reduce(whole_warp(), value, cg::less<T>());
}

// The sum in 64 bits, also of narrower values.
__device__ inline u64 warp_sum(u64 value) {
    return cg::reduce(whole_warp(), value, cg::plus<u64>());
}
