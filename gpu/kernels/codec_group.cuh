// In which order do keyed columns stand? FORMAT.md, section 6.13.
//
// One block of threads sorts the rows of a segment by a radix sort: every warp has a share of the
// rows and a counter for each digit, so that rows of equal key keep their order.
#pragma once
#include "codec_tile.cuh"

// What all key columns of a launch share.
struct Grouping {
    // Where undecoded keys are, and where decoded ones are.
    const u8* input;
    u8* output;
    const CodecKeys* keys;
    u32 length;
    u32 reserved;
};

static const u32 GROUP_WARPS = 32;
static const u32 GROUP_THREADS = 32 * GROUP_WARPS;
static const u32 DIGIT_BITS = 8;
static const u32 DIGITS = 1u << DIGIT_BITS;

// The rows of one segment.
struct Segment {
    const u8* keys;
    u32 key_bytes;
    u32 rows;
    // First row of each warp's share; shares are whole warps of rows.
    u32 first;
    u32 end;

    __device__ u64 key(u32 row) const {
        if (key_bytes == 2) return ((const u16*)keys)[row];
        if (key_bytes == 4) return ((const u32*)keys)[row];
        if (key_bytes == 8) return ((const u64*)keys)[row];
        return keys[row];
    }
};

// Least and greatest key of a segment, to every thread.
__device__ inline void key_range(const Segment& segment, u64* least, u64* most) {
    __shared__ u64 ranges[2][GROUP_WARPS];
    u64 low = ~0ull, high = 0;
    for (u32 row = threadIdx.x; row < segment.rows; row += GROUP_THREADS) {
        u64 key = segment.key(row);
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    low = warp_min(low);
    high = warp_max(high);
    if (lane() == 0) ranges[0][threadIdx.x / 32] = low, ranges[1][threadIdx.x / 32] = high;
    __syncthreads();
    *least = warp_min(ranges[0][lane()]);
    *most = warp_max(ranges[1][lane()]);
    __syncthreads();
}

// Turns counts by warp and digit into places: all of lesser digits, then those of earlier warps.
__device__ inline void places_of_counts(u32 (&counts)[GROUP_WARPS][DIGITS]) {
    __shared__ u32 sums[DIGITS / 32];
    u32 digit = threadIdx.x, total = 0, to = 0;
    if (digit < DIGITS) {
        for (u32 warp = 0; warp < GROUP_WARPS; warp++) total += counts[warp][digit];
        to = total;
        for (u32 step = 1; step < 32; step *= 2) {
            u32 below = __shfl_up_sync(WHOLE_WARP, to, step);
            if (lane() >= step) to += below;
        }
        if (lane() == 31) sums[digit / 32] = to;
    }
    __syncthreads();
    if (digit < DIGITS) {
        u32 place = to - total;
        for (u32 warp = 0; warp < digit / 32; warp++) place += sums[warp];
        for (u32 warp = 0; warp < GROUP_WARPS; warp++) {
            u32 count = counts[warp][digit];
            counts[warp][digit] = place;
            place += count;
        }
    }
    __syncthreads();
}

// One stable pass: rows in the order of `from` (none: as they are) by one digit of their keys.
__device__ inline void group_pass(const Segment& segment, u64 least, u32 shift, const u16* from,
                                  u16* to) {
    __shared__ u32 counts[GROUP_WARPS][DIGITS];
    u32* mine = counts[threadIdx.x / 32];
    for (u32 digit = lane(); digit < DIGITS; digit += 32) mine[digit] = 0;
    __syncwarp();
    for (u32 at = segment.first + lane(); at < segment.end; at += 32) {
        u32 row = from == nullptr ? at : from[at];
        atomicAdd(&mine[(u32)(segment.key(row) - least >> shift) & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    places_of_counts(counts);
    for (u32 start = segment.first; start < segment.end; start += 32) {
        u32 at = start + lane(), row = 0, digit = DIGITS;
        bool is_row = at < segment.end;
        if (is_row) {
            row = from == nullptr ? at : from[at];
            digit = (u32)(segment.key(row) - least >> shift) & (DIGITS - 1);
        }
        u32 peers = __match_any_sync(WHOLE_WARP, digit);
        u32 before = __popc(peers & ((1u << lane()) - 1u));
        u32 place = is_row ? mine[digit] + before : 0;
        __syncwarp();
        if (is_row) {
            if (before == 0) mine[digit] += __popc(peers);
            to[place] = (u16)row;
        }
        __syncwarp();
    }
    __syncthreads();
}
