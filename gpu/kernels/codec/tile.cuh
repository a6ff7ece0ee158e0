// A tile: 1,024 values in the registers of a warp, with functions to load, store and scan them.
//
// Value 128 k + 4 lane + j of a tile is v[k][j]: a lane has four neighbours of each 128 values, so
// that a scan takes five shuffles for 128 values and memory is read and written 16 bytes at a time.
// T is u32 or u64; narrower types are computed in u32 and masked. All threads of a warp must call
// each function.
#pragma once
#include "codec/policy.cuh"
#include "device/dependent_launch.cuh"
#include "warp/warp.cuh"

typedef unsigned short u16;

static const u32 TILE_VALUES = 1024;
static const u32 TILE_WORDS = TILE_VALUES / 32;
static const u32 RUNS = 8;
static const u32 RUN_VALUES = TILE_VALUES / RUNS;
static const u32 SEGMENT_ROWS = CODEC_SEGMENT_ROWS;

template <class T>
struct Tile {
    T v[RUNS][4];
};

// The place of v[k][0].
__device__ __forceinline__ u32 place_of(u32 k) { return k * RUN_VALUES + lane() * 4; }

// A mask of the lower `bits` bits; `bits` is at least 1.
template <class T>
__device__ __forceinline__ T low_mask(u32 bits) {
    return (T)(~(T)0) >> (8 * sizeof(T) - bits);
}

// Truncates values to their lower `bits` bits.
template <class T>
__device__ __forceinline__ void narrow(Tile<T>& tile, u32 bits) {
    if (bits == 8 * sizeof(T)) return;
    T mask = low_mask<T>(bits);
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) tile.v[k][j] &= mask;
}

// The value of `width` bits at bit `bit` of `words`. `width` is 1 to 32, or to 64 for u64. Reads
// only words that contain bits of the value.
__device__ __forceinline__ u32 unpack(const u32* words, u32 bit, u32 width, u32) {
    u32 low = words[bit / 32], high = words[(bit + width - 1) / 32];
    return __funnelshift_r(low, high, bit) & low_mask<u32>(width);
}

__device__ __forceinline__ u64 unpack64(const u32* words, u64 bit, u32 width) {
    u64 first = bit / 32, last = (bit + width - 1) / 32;
    u32 shift = (u32)bit % 32;
    u64 low = words[first];
    if (last > first) low |= (u64)words[first + 1] << 32;
    u64 value = low >> shift;
    if (last > first + 1) value |= (u64)words[last] << (64 - shift);
    return value & low_mask<u64>(width);
}

__device__ __forceinline__ u64 unpack(const u32* words, u32 bit, u32 width, u64) {
    return unpack64(words, bit, width);
}

// Returns bits `bit` to `last` of `words` in its low bits; its other bits are undefined. Without
// branches. Reads only words that contain these bits.
__device__ __forceinline__ u32 unpack_near(const u32* words, u32 bit, u32 last, u32) {
    return __funnelshift_r(words[bit / 32], words[last / 32], bit);
}

__device__ __forceinline__ u64 unpack_near(const u32* words, u32 bit, u32 last, u64) {
    u32 first = bit / 32, end = last / 32;
    u32 low = words[first], high = words[end], middle = words[first < end ? first + 1 : end];
    return (u64)__funnelshift_r(middle, high, bit) << 32 | __funnelshift_r(low, middle, bit);
}

// Replaces each value by `start` plus the sum of all values up to it; returns `start` plus the sum
// of all values.
template <class T>
__device__ __forceinline__ T warp_scan(Tile<T>& tile, T start) {
    T totals[RUNS];
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        T(&v)[4] = tile.v[k];
        v[1] += v[0];
        v[2] += v[1];
        v[3] += v[2];
        T sum = warp_sum_to(v[3]), before = sum - v[3];
        totals[k] = __shfl_sync(WHOLE_WARP, sum, 31);
#pragma unroll
        for (u32 j = 0; j < 4; j++) v[j] += before;
    }
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) tile.v[k][j] += start;
        start += totals[k];
    }
    return start;
}

// Loads four values from `place` on, a multiple of 4. The values at `from` have the narrowest type
// that holds `bits` bits; `from` is aligned to four of them, or to 16 bytes if they are larger.
__device__ __forceinline__ void load_four(const u8* from, u32 place, u32 bits, u32 (&v)[4]) {
    if (bits == 32) {
        uint4 four = ((const uint4*)from)[place / 4];
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else if (bits == 16) {
        uint2 four = ((const uint2*)from)[place / 4];
        v[0] = four.x & 0xffff, v[1] = four.x >> 16, v[2] = four.y & 0xffff, v[3] = four.y >> 16;
    } else {
        u32 four = ((const u32*)from)[place / 4];
        for (u32 j = 0; j < 4; j++) v[j] = four >> (8 * j) & 0xff;
    }
}

__device__ __forceinline__ void load_four(const u8* from, u32 place, u32 bits, u64 (&v)[4]) {
    if (bits == 64) {
        const ulonglong2* pairs = (const ulonglong2*)from + place / 2;
        ulonglong2 low = pairs[0], high = pairs[1];
        v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
    } else {
        u32 narrow[4];
        load_four(from, place, bits, narrow);
        for (u32 j = 0; j < 4; j++) v[j] = narrow[j];
    }
}

// Stores one value in a type of `bits` bits.
template <class T>
__device__ __forceinline__ void store_one(u8* to, u32 place, u32 bits, T value) {
    if (bits == 64) ((u64*)to)[place] = value;
    else if (bits == 32) ((u32*)to)[place] = (u32)value;
    else if (bits == 16) ((u16*)to)[place] = (u16)value;
    else to[place] = (u8)value;
}

// Stores four values from `place` on; the inverse of `load_four`.
__device__ __forceinline__ void store_four(u8* to, u32 place, u32 bits, const u32 (&v)[4]) {
    if (bits == 32) {
        ((uint4*)to)[place / 4] = make_uint4(v[0], v[1], v[2], v[3]);
    } else if (bits == 16) {
        uint2 four = make_uint2((v[0] & 0xffff) | v[1] << 16, (v[2] & 0xffff) | v[3] << 16);
        ((uint2*)to)[place / 4] = four;
    } else {
        u32 four = (v[0] & 0xff) | (v[1] & 0xff) << 8 | (v[2] & 0xff) << 16 | v[3] << 24;
        ((u32*)to)[place / 4] = four;
    }
}

__device__ __forceinline__ void store_four(u8* to, u32 place, u32 bits, const u64 (&v)[4]) {
    if (bits == 64) {
        ulonglong2* pairs = (ulonglong2*)to + place / 2;
        pairs[0] = make_ulonglong2(v[0], v[1]);
        pairs[1] = make_ulonglong2(v[2], v[3]);
    } else {
        u32 narrow[4] = {(u32)v[0], (u32)v[1], (u32)v[2], (u32)v[3]};
        store_four(to, place, bits, narrow);
    }
}

// Stores each of a lane's four values whose place is below `count`. `to` is aligned to 16 bytes.
template <class T>
__device__ __forceinline__ void store_some(u8* to, u32 k, u32 count, u32 bits, const T (&v)[4]) {
    u32 place = place_of(k);
    if (place + 4 <= count) {
        store_four(to, place, bits, v);
    } else {
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if (place + j < count) store_one(to, place + j, bits, v[j]);
    }
}

// Stores the first `count` values in order.
template <class T>
__device__ __forceinline__ void store_tile(u8* to, u32 count, u32 bits, const Tile<T>& tile) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) store_some(to, k, count, bits, tile.v[k]);
}

// A set of places of a tile, in shared memory: one bit per place, and for each word the number of
// places in preceding words.
struct Places {
    u32 words[TILE_WORDS];
    u32 before[TILE_WORDS];

    __device__ void clear() {
        __syncwarp();
        words[lane()] = 0;
        __syncwarp();
    }

    __device__ void add(u32 place) { atomicOr(&words[place / 32], 1u << place % 32); }

    // Returns the number of places. Must be called before `rank`.
    __device__ u32 count() {
        __syncwarp();
        u32 mine = __popc(words[lane()]), sum = warp_sum_to(mine);
        before[lane()] = sum - mine;
        __syncwarp();
        return __shfl_sync(WHOLE_WARP, sum, 31);
    }

    // Four bits: whether each of the four places from `place` on, a multiple of 4, is in the set.
    __device__ u32 four(u32 place) const { return words[place / 32] >> place % 32 & 15u; }

    // The number of places of the set below `place`.
    __device__ u32 rank(u32 place) const {
        return before[place / 32] + __popc(words[place / 32] & ((1u << place % 32) - 1u));
    }
};
