// Decoding inner nodes of a tree (FORMAT.md, sections 6.3 to 6.10).
//
// A node transforms its child's values in place, in registers. Values beyond `count` are undefined;
// no memory is read or written for them. Functions return false if the format refuses the tile.
#pragma once
#include "codec/leaf.cuh"

// Restores differences from their stored form. The caller truncates them to the node's width.
template <class T>
__device__ __forceinline__ void unstore(Tile<T>& tile, u32 mode) {
    if (mode == 0) return;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            tile.v[k][j] = tile.v[k][j] >> 1 ^ (0 - (tile.v[k][j] & 1));
}

// Value `index` of the step's section, whose values have the node's width.
template <class T>
__device__ __forceinline__ T section_value(const u8* input, const CodecStep& step, u32 index) {
    const u8* from = input + step.first;
    if (step.bits == 64) return (T)((const u64*)from)[index];
    if (step.bits == 32) return (T)((const u32*)from)[index];
    if (step.bits == 16) return (T)((const u16*)from)[index];
    return (T)from[index];
}

template <class T>
__device__ __forceinline__ void warp_apply_delta(const u8* input, const CodecStep& step,
                                                 u32 tile_number, Tile<T>& tile) {
    unstore(tile, step.extra);
    warp_scan(tile, section_value<T>(input, step, tile_number));
}

template <class T>
__device__ __forceinline__ void warp_apply_delta2(const u8* input, const CodecStep& step,
                                             u32 tile_number, Tile<T>& tile) {
    T base = section_value<T>(input, step, 2 * tile_number);
    T slope = section_value<T>(input, step, 2 * tile_number + 1);
    unstore(tile, step.extra);
    warp_scan(tile, slope);
    warp_scan(tile, base);
}

template <class T>
__device__ __forceinline__ void apply_linear(T factor, T more, Tile<T>& tile) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) tile.v[k][j] = tile.v[k][j] * factor + more;
}

template <class T>
__device__ __forceinline__ void apply_plus(T more, Tile<T>& tile) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) tile.v[k][j] += more;
}

// The bit pattern of an integer divided by a power of ten, rounded to the float's width.
__device__ __forceinline__ u32 to_float(u32 value, double power) {
    return __float_as_uint(__double2float_rn(__ddiv_rn((double)(i32)value, power)));
}

__device__ __forceinline__ u64 to_float(u64 value, double power) {
    return (u64)__double_as_longlong(__ddiv_rn(__ll2double_rn((i64)value), power));
}

template <class T>
__device__ __forceinline__ void apply_float(double power, Tile<T>& tile) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) tile.v[k][j] = to_float(tile.v[k][j], power);
}

// The exceptions of a tile: two a lane.
struct Exceptions {
    u32 count;
    u32 shift;
    u32 width;
    u32 positions[2];
    const u32* additions;

    // Reads the exceptions of a tile of `values` values; false if the format refuses the tile.
    __device__ __forceinline__ bool read(const TileWords& at, u32 bits, u32 values) {
        count = at.fields & 0xff, shift = at.fields >> 8 & 0xff, width = at.fields >> 16 & 0xff;
        u32 position_words = (count * 10 + 31) / 32;
        additions = at.words + position_words;
        if (!at.is_right || count > 64 || count > values || shift + width > bits
            || at.fields >> 24 != 0 || position_words + (count * width + 31) / 32 != at.length)
            return false;
        if (count == 0) return true;
        u32 before = ~0u;
        bool is_wrong = false;
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 index = half * 32 + lane();
            bool is_one = index < count;
            positions[half] = is_one ? unpack(at.words, index * 10, 10, 0u) : 0;
            u32 below = __shfl_up_sync(WHOLE_WARP, positions[half], 1);
            if (lane() == 0) below = before;
            if (is_one)
                is_wrong |= positions[half] >= values || (index > 0 && positions[half] <= below);
            before = __shfl_sync(WHOLE_WARP, positions[half], 31);
        }
        return !__any_sync(WHOLE_WARP, is_wrong);
    }

    __device__ __forceinline__ bool has(u32 half) const { return half * 32 + lane() < count; }

    template <class T>
    __device__ __forceinline__ T addition(u32 half) const {
        return unpack(additions, (half * 32 + lane()) * width, width, (T)0) << shift;
    }
};

// Adds the exceptions of a tile to its values, `AT_ONCE` places at a time; `memory` has for each of
// these places its exception, or 0. More shared memory would reduce the first-level cache, which
// dictionary lookups need.
template <class T, u32 AT_ONCE>
__device__ __forceinline__ bool warp_apply_patch(const u8* input, const CodecStep& step, u32 tiles,
                                   u32 tile_number, u32 count, T (&memory)[AT_ONCE],
                                   Tile<T>& tile) {
    Exceptions exceptions;
    if (!exceptions.read(tile_words(input, step, tiles, tile_number), step.bits, count))
        return false;
    if (exceptions.count == 0 || exceptions.width == 0) return true;
    u32 positions[2];
    T added[2];
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        bool is_one = exceptions.has(half);
        positions[half] = is_one ? exceptions.positions[half] : ~0u;
        added[half] = 0;
        if (is_one) added[half] = exceptions.addition<T>(half);
    }
    const T nothing[4] = {0, 0, 0, 0};
    const u32 RUNS_AT_ONCE = AT_ONCE / RUN_VALUES;
#pragma unroll
    for (u32 run = 0; run < RUNS; run += RUNS_AT_ONCE) {
        __syncwarp();
#pragma unroll
        for (u32 k = 0; k < RUNS_AT_ONCE; k++)
            store_four((u8*)memory, place_of(k), 8 * sizeof(T), nothing);
        __syncwarp();
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 place = positions[half] - run * RUN_VALUES;
            if (place < AT_ONCE) memory[place] = added[half];
        }
        __syncwarp();
#pragma unroll
        for (u32 k = 0; k < RUNS_AT_ONCE; k++) {
            T four[4];
            load_four((const u8*)memory, place_of(k), 8 * sizeof(T), four);
#pragma unroll
            for (u32 j = 0; j < 4; j++) tile.v[run + k][j] += four[j];
        }
    }
    return true;
}

// Replaces codes by their entries in `table`. Returns false if a code is not below `entries`.
template <class T>
__device__ __forceinline__ bool warp_apply_dict(const T* table, u32 entries, u32 count,
                                                Tile<T>& tile) {
    T most = 0;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if (place_of(k) + j < count && tile.v[k][j] > most) most = tile.v[k][j];
    if (__any_sync(WHOLE_WARP, most >= entries && count > 0)) return false;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if (place_of(k) + j < count) tile.v[k][j] = table[tile.v[k][j]];
    return true;
}

// As `warp_apply_dict`, but code `entries` stands for the next of the `exceptions` values in
// `others`. Returns false if a code is greater or the number of exceptions differs.
template <class T>
__device__ __forceinline__ bool warp_apply_dict_or(const T* table, u32 entries, const T* others,
                                              u32 exceptions, u32 count, Places& places,
                                              Tile<T>& tile) {
    bool is_wrong = false;
    places.clear();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 place = place_of(k) + j;
            if (place >= count) continue;
            is_wrong |= tile.v[k][j] > entries;
            if (tile.v[k][j] == entries) places.add(place);
        }
    u32 found = places.count();
    if (__any_sync(WHOLE_WARP, is_wrong) || found != exceptions) return false;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 place = place_of(k) + j;
            if (place >= count) continue;
            bool is_other = tile.v[k][j] == entries;
            tile.v[k][j] = is_other ? others[places.rank(place)] : table[tile.v[k][j]];
        }
    return true;
}

// Expands `runs` runs to `count` values. `tile` has the length of each run minus 1, `values` its
// value. Returns false if the sum of the lengths is not `count`.
template <class T>
__device__ __forceinline__ bool warp_apply_rle(const T* values, u32 runs, u32 count, Places& places,
                                          Tile<T>& tile) {
    // Sums are below 2^26: lengths have 16 bits.
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            tile.v[k][j] = place_of(k) + j < runs ? tile.v[k][j] + 1 : 0;
    u32 sum = (u32)warp_scan(tile, (T)0);
    if (sum != count) return false;
    places.clear();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            // The end of a run is where the next begins.
            if (place_of(k) + j + 1 < runs) places.add((u32)tile.v[k][j]);
    places.count();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k), four = places.four(place), rank = places.rank(place);
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            rank += four >> j & 1;
            tile.v[k][j] = place + j < count ? values[rank] : 0;
        }
    }
    return true;
}
