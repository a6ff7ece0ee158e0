// Counts, sums and lists over the threads of a block. All threads of the block must call each
// function; the block size is a multiple of 32.
#pragma once
#include "warp/warp.cuh"

// As `warp_append`, with one atomic per block instead of one per warp, for lists to which nearly
// all blocks append: atomics on one word are serialized.
__device__ inline u32 block_append(bool yes, u32* length) {
    __shared__ u32 firsts[32];
    u32 votes = __ballot_sync(WHOLE_WARP, yes), warp = threadIdx.x / 32;
    if (lane() == 0) firsts[warp] = (u32)__popc(votes);
    __syncthreads();
    if (warp == 0) {
        u32 count = lane() < blockDim.x / 32 ? firsts[lane()] : 0;
        u32 before = warp_sum_before(count), first = 0;
        if (lane() == 31 && before + count != 0) first = atomicAdd(length, before + count);
        first = __shfl_sync(WHOLE_WARP, first, 31);
        firsts[lane()] = first + before;
    }
    __syncthreads();
    return firsts[warp] + __popc(votes & lanes_below());
}

// The sum of the values of the threads before this one; `*sum` becomes that of all threads.
__device__ inline u32 block_sum_before(u32 value, u32* sum) {
    __shared__ u32 sums[33];
    u32 warp = threadIdx.x / 32, to = warp_sum_to(value);
    __syncthreads();
    if (lane() == 31) sums[warp] = to;
    __syncthreads();
    if (warp == 0) {
        u32 each = lane() < blockDim.x / 32 ? sums[lane()] : 0, all = warp_sum_to(each);
        sums[lane()] = all - each;
        if (lane() == 31) sums[32] = all;
    }
    __syncthreads();
    *sum = sums[32];
    return sums[warp] + to - value;
}

// As `warp_count_by_key`, but the group of the block's first thread, in many blocks the only one,
// is counted with one atomic per block.
__device__ inline void block_count_by_key(bool yes, u32 group, u32* counter, u32 each = 1) {
    __shared__ u32 first;
    if (__syncthreads_or(yes) == 0) return;
    if (threadIdx.x == 0) first = group;
    __syncthreads();
    bool is_first = group == first;
    u32 count = (u32)__syncthreads_count(yes && is_first);
    if (threadIdx.x == 0 && count != 0) atomicAdd(counter, each * count);
    warp_count_by_key(yes && !is_first, group, counter, each);
}

// Raises `*word` to the greatest value of the block's threads, with one atomic. A thread without a
// value passes 0.
__device__ inline void block_raise(u64 value, u64* word) {
    __shared__ u64 greatest[32];
    value = warp_max(value);
    u32 warp = threadIdx.x / 32;
    if (lane() == 0) greatest[warp] = value;
    __syncthreads();
    if (warp != 0) return;
    value = warp_max(lane() < blockDim.x / 32 ? greatest[lane()] : 0);
    if (lane() == 0 && value != 0) atomicMax(word, value);
}

// Adds the sum of the values of all threads of a block to `*word`, with one atomic.
__device__ inline void block_add(u64 value, u64* word) {
    __shared__ u64 together;
    if (threadIdx.x == 0) together = 0;
    __syncthreads();
    value = warp_sum(value);
    if (lane() == 0 && value != 0) atomicAdd(&together, value);
    __syncthreads();
    if (threadIdx.x == 0 && together != 0) atomicAdd(word, together);
}
