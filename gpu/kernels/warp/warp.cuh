// Counting, sums and lists by the threads of a warp together. All threads of a warp call every
// function.
#pragma once
#include "layout.cuh"

static const u32 WHOLE_WARP = 0xffffffffu;

__device__ inline u32 lane() { return threadIdx.x & 31u; }

// A bit for each lane below this one.
__device__ inline u32 lanes_below() { return (1u << lane()) - 1u; }

// Adds the number of threads with `yes` to a counter, by one atomic a warp.
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
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        T below = __shfl_up_sync(WHOLE_WARP, value, step);
        if (lane() >= (u32)step) value += below;
    }
    return value;
}

// The sum over the lanes below.
__device__ inline u32 warp_sum_before(u32 value) { return warp_sum_to(value) - value; }

// Returns to every thread with `yes` a distinct place in a growing list.
__device__ inline u32 warp_append(bool yes, u32* length) {
    u32 votes = __ballot_sync(WHOLE_WARP, yes);
    u32 first = 0;
    if (votes != 0 && lane() == 0) first = atomicAdd(length, (u32)__popc(votes));
    first = __shfl_sync(WHOLE_WARP, first, 0);
    return first + __popc(votes & lanes_below());
}

// Adds `each` to the wrapping counter of each thread's own group where `yes`; neighbours mostly share a
// group.
__device__ inline void warp_count_by_key(bool yes, u32 group, u32* counter, u32 each = 1) {
    u32 votes = __ballot_sync(WHOLE_WARP, yes);
    if (votes == 0) return;
    u32 peers = __match_any_sync(WHOLE_WARP, group);
    u32 mine = votes & peers;
    if (mine != 0 && lane() == (u32)__ffs(mine) - 1u) atomicAdd(counter, each * __popc(mine));
}

__device__ __forceinline__ u32 warp_or(u32 value) { return __reduce_or_sync(WHOLE_WARP, value); }

__device__ __forceinline__ u64 warp_or(u64 value) {
    return (u64)warp_or((u32)(value >> 32)) << 32 | warp_or((u32)value);
}

__device__ inline u64 warp_max(u64 value) {
    for (int step = 16; step > 0; step /= 2) {
        u64 other = __shfl_xor_sync(WHOLE_WARP, value, step);
        value = other > value ? other : value;
    }
    return value;
}

__device__ inline u64 warp_min(u64 value) { return ~warp_max(~value); }

__device__ inline u64 warp_sum(u64 value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(WHOLE_WARP, value, step);
    return value;
}
