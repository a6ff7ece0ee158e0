// Decoding leaves of a tree (FORMAT.md, sections 6.1, 6.2, 6.11, 6.12).
//
// Each function reads only within its section, whatever the tile's directory entry and words
// contain, and returns false if the format refuses the tile.
#pragma once
#include "codec/tile.cuh"

// The words of one tile of a section with a directory.
struct TileWords {
    // The entry's upper half.
    u32 fields;
    const u32* words;
    u32 length;
    bool is_right;
};

__device__ __forceinline__ TileWords tile_words(const u8* input, const CodecStep& step, u32 tiles,
                                                u32 tile) {
    const uint2* directory = (const uint2*)(input + step.first);
    uint2 entry = directory[tile];
    u32 end = tile + 1 < tiles ? directory[tile + 1].x : step.words;
    TileWords found;
    found.fields = entry.y;
    found.words = (const u32*)(input + step.second) + entry.x;
    found.length = end - entry.x;
    found.is_right = entry.x <= end && end <= step.words && (tile != 0 || entry.x == 0);
    return found;
}

// Unpacks all groups of a full tile. `group` of lane g is the result of `warp_afl_group` for group
// g. Without branches, so that all loads are issued together; a group of width 0 reads the first
// word.
template <class T>
__device__ __forceinline__ void warp_unpack_groups(const u32* words, u32 group, Tile<T>& out) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 mine = __shfl_sync(WHOLE_WARP, group, 4 * k + lane() / 8);
        u32 bits = mine & 0xff, bit = lane() % 8 * 4 * bits;
        const u32* from = bits > 0 ? words + (mine >> 8) : words;
        T mask = bits > 0 ? low_mask<T>(bits) : 0;
        u32 reach = bits > 0 ? bits - 1 : 0;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            out.v[k][j] = unpack_near(from, bit, bit + reach, (T)0) & mask;
            bit += bits;
        }
    }
}

// As `warp_unpack_groups`, for only the first `count` values; sparse nodes have few. Values
// after them in the same run of 128 become 0; later runs are not written.
template <class T>
__device__ __forceinline__ void warp_unpack_some(const u32* words, u32 group, u32 count,
                                                 Tile<T>& out) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        if (k * RUN_VALUES >= count) break;
        u32 mine = __shfl_sync(WHOLE_WARP, group, 4 * k + lane() / 8);
        const u32* from = words + (mine >> 8);
        u32 bits = mine & 0xff, place = place_of(k), bit = lane() % 8 * 4 * bits;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            out.v[k][j] = 0;
            if (bits > 0 && place + j < count) out.v[k][j] = unpack(from, bit, bits, (T)0);
            bit += bits;
        }
    }
}

// Returns to lane g the width of group g in the lower 8 bits, and the number of its first word
// above them. Sets `is_right` to false if the format refuses the tile.
__device__ __forceinline__ u32 warp_afl_group(TileWords& at, u32 bits, u32 count) {
    u32 least = at.fields >> 16 & 0xff, width_bits = at.fields >> 24;
    u32 groups = (count + 31) / 32, width_words = (groups * width_bits + 31) / 32;
    at.is_right = at.is_right && (at.fields & 0xffff) == count && width_bits <= 7
        && width_words <= at.length;
    bool is_group = lane() < groups && at.is_right;
    u32 width = is_group ? least : 0;
    if (is_group && width_bits > 0) width += unpack(at.words, lane() * width_bits, width_bits, 0u);
    u32 values = is_group ? (count - lane() * 32 < 32 ? count - lane() * 32 : 32) : 0;
    u32 words = (values * width + 31) / 32, to = warp_sum_to(words);
    u32 total = width_words + __shfl_sync(WHOLE_WARP, to, 31);
    at.is_right = at.is_right && !__any_sync(WHOLE_WARP, width > bits) && total == at.length;
    return (width_words + to - words) << 8 | width;
}

template <class T>
__device__ __forceinline__ bool warp_read_afl(const u8* input, const CodecStep& step, u32 tiles,
                                         u32 tile, u32 count, Tile<T>& out) {
    TileWords at = tile_words(input, step, tiles, tile);
    u32 group = warp_afl_group(at, step.bits, count);
    if (!at.is_right) return false;
    // The first group's words follow the widths; without words, all values are 0.
    bool has_words = at.length > __shfl_sync(WHOLE_WARP, group, 0) >> 8;
    if (count == TILE_VALUES && has_words) warp_unpack_groups(at.words, group, out);
    else warp_unpack_some(at.words, group, count, out);
    return true;
}

// Loads the values of a raw tile. Sections are padded to multiples of 64 bytes, so four values can
// be loaded even if only one exists.
template <class T>
__device__ __forceinline__ void read_raw(const u8* input, const CodecStep& step, u32 tile,
                                         u32 count, Tile<T>& out) {
    const u8* from = input + step.first + (u64)tile * TILE_VALUES * (step.bits / 8);
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k);
        if (place < count) {
            load_four(from, place, step.bits, out.v[k]);
        } else {
            for (u32 j = 0; j < 4; j++) out.v[k][j] = 0;
        }
    }
}

template <class T>
__device__ __forceinline__ void read_const(T value, Tile<T>& out) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) out.v[k][j] = value;
}

// The number of bytes of width code `code` for values of `bits` bits; more than 8 if it is invalid.
__device__ __forceinline__ u32 gfc_bytes(u32 code, u32 bits) {
    if (bits == 64) return code + (code > 3 ? 1 : 0);
    return code > 4 ? 9 : code;
}

// Adds to each value the values that are 32, 64, 96 and so on places before it. Values 32 places
// apart are in lanes that are eight apart.
template <class T>
__device__ __forceinline__ void warp_gfc_sum(Tile<T>& out) {
    T carry[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            T value = out.v[k][j];
            for (u32 step = 8; step < 32; step *= 2) {
                T below = __shfl_up_sync(WHOLE_WARP, value, step);
                if (lane() >= step) value += below;
            }
            value += carry[j];
            carry[j] = __shfl_sync(WHOLE_WARP, value, 24 + lane() % 8);
            out.v[k][j] = value;
        }
    }
}

template <class T>
__device__ __forceinline__ bool warp_read_gfc(const u8* input, const CodecStep& step, u32 tiles,
                                         u32 tile, u32 count, Tile<T>& out) {
    TileWords at = tile_words(input, step, tiles, tile);
    u32 nibble_words = (count + 7) / 8;
    if (!at.is_right || at.fields != count || nibble_words > at.length) return false;
    u32 start = nibble_words * 4, most = 0, sums[RUNS];
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k), four = 0, sum = 0;
        if (place < count) four = at.words[place / 8] >> place % 8 * 4 & 0xffff;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            if (place + j >= count) continue;
            u32 bytes = gfc_bytes(four >> 4 * j & 7, step.bits);
            most = bytes > most ? bytes : most;
            sum += bytes;
        }
        u32 to = warp_sum_to(sum);
        sums[k] = start + to - sum;
        start += __shfl_sync(WHOLE_WARP, to, 31);
    }
    if (__any_sync(WHOLE_WARP, most > 8) || (start + 3) / 4 != at.length) return false;
    const u8* bytes = (const u8*)at.words;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k), four = 0, from = sums[k];
        if (place < count) four = at.words[place / 8] >> place % 8 * 4 & 0xffff;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            T magnitude = 0;
            u32 code = place + j < count ? four >> 4 * j & 15 : 0;
            u32 length = gfc_bytes(code & 7, step.bits);
            for (u32 byte = 0; byte < length; byte++)
                magnitude |= (T)bytes[from + byte] << 8 * byte;
            from += length;
            out.v[k][j] = (code & 8) != 0 ? 0 - magnitude : magnitude;
        }
    }
    warp_gfc_sum(out);
    return true;
}
