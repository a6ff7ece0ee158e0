// Runs of one key in a tile: their starts, and sums of differences along them (FORMAT.md, sections
// 6.13 to 6.15).
//
// To compute sums, a lane holds 32 neighbouring values, so only one number per lane is shuffled.
// Tiles are rearranged through shared memory.
#pragma once
#include "codec/tile.cuh"

static const u32 LANE_VALUES = 32;

// Heads of a tile: bit i of word l is place 32 l + i.
struct Heads {
    u32 words[32];

    // Stores the heads of a tile's first `count` places, and returns their number. `heads` is the
    // tile's part of the column's heads.
    __device__ __forceinline__ u32 find(const u32* heads, u32 count) {
        u32 word = heads[lane()], first = lane() * LANE_VALUES;
        if (count < first + LANE_VALUES)
            word = count > first ? word & low_mask<u32>(count - first) : 0;
        words[lane()] = word;
        return (u32)__reduce_add_sync(WHOLE_WARP, __popc(word));
    }
};

// Store (put) and load (get) four values of a lane in shared memory, in the order of `Tile` (four)
// or of ranges (range). Unit u of four values is at u ^ (u / 8 mod 8), so that neither order causes
// bank conflicts.
__device__ __forceinline__ void put_four(u32* memory, u32 k, const u32 (&v)[4]) {
    u32 unit = 32 * k + lane();
    ((uint4*)memory)[unit ^ (unit / 8 & 7)] = make_uint4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void get_four(const u32* memory, u32 k, u32 (&v)[4]) {
    u32 unit = 32 * k + lane();
    uint4 four = ((const uint4*)memory)[unit ^ (unit / 8 & 7)];
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}
__device__ __forceinline__ void put_range(u32* memory, u32 i, const u32 (&v)[4]) {
    ((uint4*)memory)[8 * lane() + (i ^ (lane() & 7))] = make_uint4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void get_range(const u32* memory, u32 i, u32 (&v)[4]) {
    uint4 four = ((const uint4*)memory)[8 * lane() + (i ^ (lane() & 7))];
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}

// The same for 64-bit values: unit u of two values is at u ^ (u / 16 mod 8).
__device__ __forceinline__ void put_four(u64* memory, u32 k, const u64 (&v)[4]) {
    u32 unit = 64 * k + 2 * lane(), turn = unit / 16 & 7;
    ulonglong2* units = (ulonglong2*)memory;
    units[unit ^ turn] = make_ulonglong2(v[0], v[1]);
    units[(unit + 1) ^ turn] = make_ulonglong2(v[2], v[3]);
}
__device__ __forceinline__ void get_four(const u64* memory, u32 k, u64 (&v)[4]) {
    u32 unit = 64 * k + 2 * lane(), turn = unit / 16 & 7;
    const ulonglong2* units = (const ulonglong2*)memory;
    ulonglong2 low = units[unit ^ turn], high = units[(unit + 1) ^ turn];
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
}
__device__ __forceinline__ void put_range(u64* memory, u32 i, const u64 (&v)[4]) {
    ulonglong2* units = (ulonglong2*)memory + 16 * lane();
    units[2 * i ^ (lane() & 7)] = make_ulonglong2(v[0], v[1]);
    units[(2 * i + 1) ^ (lane() & 7)] = make_ulonglong2(v[2], v[3]);
}
__device__ __forceinline__ void get_range(const u64* memory, u32 i, u64 (&v)[4]) {
    const ulonglong2* units = (const ulonglong2*)memory + 16 * lane();
    ulonglong2 low = units[2 * i ^ (lane() & 7)], high = units[(2 * i + 1) ^ (lane() & 7)];
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
}

// Rearranges a tile so that every lane has the values of 32 contiguous places: v[i][j] is place
// 32 lane + 4 i + j.
template <class T>
__device__ __forceinline__ void warp_to_ranges(T* memory, Tile<T>& tile) {
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) put_four(memory, k, tile.v[k]);
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < RUNS; i++) get_range(memory, i, tile.v[i]);
}

// The inverse of `warp_to_ranges`.
template <class T>
__device__ __forceinline__ void warp_from_ranges(T* memory, Tile<T>& tile) {
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < RUNS; i++) put_range(memory, i, tile.v[i]);
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) get_four(memory, k, tile.v[k]);
}

// The heads of a tile, from the view of one lane.
struct LaneRange {
    // A bit for each of the lane's places that is a head.
    u32 heads;
    // The number of heads of the lanes below.
    u32 rank;
    // The distance in lanes to the nearest lane with a head, at or below this one.
    u32 reach;

    __device__ __forceinline__ LaneRange(u32 word) {
        heads = word;
        u32 mine = __popc(heads);
        rank = warp_sum_to(mine) - mine;
        u32 any = __ballot_sync(WHOLE_WARP, heads != 0);
        // The first lane has a head.
        reach = lane() - (31 - __clz(any << (31 - lane()) >> (31 - lane())));
    }
};

// Replaces the values of a tile in ranges by their running sums, which restart at every head with
// its value.
template <class T>
__device__ __forceinline__ void warp_scan_runs(const LaneRange& range, Tile<T>& tile) {
    u32 heads = range.heads;
    T sum = 0;
#pragma unroll
    for (u32 at = 0; at < LANE_VALUES; at++) {
        T& value = tile.v[at / 4][at % 4];
        sum = (heads >> at & 1) != 0 ? value : sum + value;
        value = sum;
    }
#pragma unroll
    for (u32 step = 1; step < 32; step *= 2) {
        T below = __shfl_up_sync(WHOLE_WARP, sum, step);
        if (range.reach >= step) sum += below;
    }
    T before = __shfl_up_sync(WHOLE_WARP, sum, 1);
    u32 first = heads != 0 ? __ffs((int)heads) - 1 : LANE_VALUES;
#pragma unroll
    for (u32 at = 0; at < LANE_VALUES; at++)
        if (at < first) tile.v[at / 4][at % 4] += before;
}

// Replaces differences by running sums along runs; the head of run r is `values[r]`. If
// `is_second`, the differences are first replaced by their own running sums, which begin at 0.
// `memory` has room for a tile.
template <class T>
__device__ __forceinline__ void warp_sum_runs(const T* values, const Heads& heads, bool is_second,
                                         T* memory, Tile<T>& tile) {
    warp_to_ranges(memory, tile);
    LaneRange range(heads.words[lane()]);
    if (is_second) {
#pragma unroll
        for (u32 at = 0; at < LANE_VALUES; at++)
            if ((range.heads >> at & 1) != 0) tile.v[at / 4][at % 4] = 0;
        warp_scan_runs(range, tile);
    }
    u32 rank = range.rank;
#pragma unroll
    for (u32 at = 0; at < LANE_VALUES; at++)
        if ((range.heads >> at & 1) != 0) tile.v[at / 4][at % 4] = values[rank++];
    warp_scan_runs(range, tile);
    warp_from_ranges(memory, tile);
}
