// Decodes the tile of a common keyed tree, divisor?(keyed(patch?(afl), scale?(afl))) (FORMAT.md,
// sections 6.13 to 6.15).
//
// Steps have a fixed order, with code 0 for missing nodes, and values are in shared memory between
// them. The generic kernel has 23,000 instructions; it executes three times as many instructions as
// this one, and its warps wait for instruction fetches.
#pragma once
#include "codec/tree.cuh"

// Numbers of the steps, in their fixed order.
enum { RUNS_COUNT, RUNS_HEADS, RUNS_SCALE, RUNS_RESIDUALS, RUNS_PATCH, RUNS_KEYED, RUNS_DIVISOR };
static_assert(RUNS_DIVISOR + 1 == CODEC_RUN_STEPS, "as the host has them");

// Maximum words of packed residuals: 8 for the widths, 1,024 for values of 32 bits, and 32 that may
// be read after them.
static const u32 WORDS_MAX = 8 + TILE_VALUES + 32;

// Shared memory of one warp.
struct RunsMemory {
    alignas(16) CodecStep steps[CODEC_RUN_STEPS];
    // Values in the order of `put_four`.
    alignas(16) u32 tile[TILE_VALUES];
    union {
        // Packed residuals.
        u32 words[WORDS_MAX];
        // Places of the heads.
        u16 places[TILE_VALUES];
    };
};

// The word of `RunsMemory::tile` that has the value of a place.
__device__ __forceinline__ u32 word_of(u32 place) {
    u32 unit = place / 4;
    return (unit ^ (unit / 8 & 7)) * 4 + place % 4;
}

// Returns the `TileWords` of lane `from` to all lanes. Lane 0 has the words of residuals, lane 1 of
// heads, lane 2 of exceptions.
__device__ __forceinline__ TileWords warp_words_of_lane(const TileWords& at, u32 from) {
    TileWords shown;
    shown.fields = __shfl_sync(WHOLE_WARP, at.fields, from);
    shown.words = (const u32*)__shfl_sync(WHOLE_WARP, (u64)at.words, from);
    shown.length = __shfl_sync(WHOLE_WARP, at.length, from);
    shown.is_right = __shfl_sync(WHOLE_WARP, (u32)at.is_right, from) != 0;
    return shown;
}

// Copies packed residuals to shared memory, many loads in flight at once.
__device__ __forceinline__ void stage_words(const TileWords& at, u32* words) {
#pragma unroll 1
    for (u32 start = lane(); start < at.length; start += 8 * 32) {
        u32 found[8];
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            u32 index = start + 32 * j;
            found[j] = at.words[index < at.length ? index : start];
        }
#pragma unroll
        for (u32 j = 0; j < 8; j++)
            if (start + 32 * j < at.length) words[start + 32 * j] = found[j];
    }
}

// Unpacks residuals into `tile`; values beyond the tile's count are undefined.
__device__ __forceinline__ void warp_unpack_residuals(const u32* words, u32 group, u32* tile) {
#pragma unroll 2
    for (u32 k = 0; k < RUNS; k++) {
        u32 mine = __shfl_sync(WHOLE_WARP, group, 4 * k + lane() / 8);
        u32 bits = mine & 0xff, bit = (mine >> 8) * 32 + lane() % 8 * 4 * bits, v[4];
        u32 mask = bits > 0 ? low_mask<u32>(bits) : 0, reach = bits > 0 ? bits - 1 : 0;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            v[j] = unpack_near(words, bit, bit + reach, 0u) & mask;
            bit += bits;
        }
        put_four(tile, k, v);
    }
}

// Replaces the residuals of heads, which are not used, by the heads' values in the stored form of a
// residual, so that `unstore` restores them.
__device__ __forceinline__ void warp_put_heads(const u32* words, u32 group, u32 base, u32 count,
                                          const u16* places, u32* tile) {
#pragma unroll 1
    for (u32 start = 0; start < count; start += 32) {
        u32 mine = __shfl_sync(WHOLE_WARP, group, start / 32), bits = mine & 0xff;
        if (start + lane() >= count) continue;
        u32 value = base;
        if (bits > 0) value += unpack(words + (mine >> 8), lane() * bits, bits, 0u);
        tile[word_of(places[start + lane()])] = value << 1 ^ (u32)((i32)value >> 31);
    }
}

// Replaces the values of each run by their running sums, which restart at heads; if IS_SECOND, by
// sums of sums. The tile is in the order of `warp_to_ranges`.
template <bool IS_SECOND>
__device__ __forceinline__ void warp_sum_ranges(const LaneRange& range, Tile<u32>& tile) {
    u32 heads = range.heads, slope = 0, sum = 0;
#pragma unroll
    for (u32 at = 0; at < LANE_VALUES; at++) {
        u32& value = tile.v[at / 4][at % 4];
        bool is_head = (heads >> at & 1) != 0;
        if (IS_SECOND) {
            slope = is_head ? 0 : slope + value;
            sum = is_head ? value : sum + slope;
        } else {
            sum = (is_head ? 0 : sum) + value;
        }
        value = sum;
    }
#pragma unroll
    for (u32 step = 1; step < 32; step *= 2) {
        u32 below = __shfl_up_sync(WHOLE_WARP, sum, step);
        u32 slope_below = IS_SECOND ? __shfl_up_sync(WHOLE_WARP, slope, step) : 0;
        if (range.reach < step) continue;
        // `sum` includes only lanes without heads.
        sum += below + slope_below * LANE_VALUES * step;
        slope += slope_below;
    }
    u32 before = __shfl_up_sync(WHOLE_WARP, sum, 1);
    u32 slope_before = IS_SECOND ? __shfl_up_sync(WHOLE_WARP, slope, 1) : 0;
    u32 first = heads != 0 ? __ffs((int)heads) - 1 : LANE_VALUES;
#pragma unroll
    for (u32 at = 0; at < LANE_VALUES; at++) {
        before += slope_before;
        if (at < first) tile.v[at / 4][at % 4] += before;
    }
}

// Decodes a tile into `memory.tile`; false if the format or a limit refuses it.
__device__ __forceinline__ bool warp_decode_runs(const Codec& codec, const CodecColumn& column,
                                            u32 number, u32 count, RunsMemory& memory) {
    const u8* input = codec.input;
    const CodecStep* steps = memory.steps;
    const uint4* loads = (const uint4*)(codec.steps + column.first_step);
    if (lane() < 3 * CODEC_RUN_STEPS) ((uint4*)memory.steps)[lane()] = loads[lane()];
    __syncwarp();
    // Three lanes load the directory entries of three sections at once.
    u32 which = lane() == 0 ? RUNS_RESIDUALS : lane() == 1 ? RUNS_HEADS : RUNS_PATCH;
    TileWords mine = {0, (const u32*)input, 0, true};
    if (lane() < 3 && steps[which].code != 0)
        mine = tile_words(input, steps[which], column.tiles, number);
    u32 expected = ((const u16*)(input + steps[RUNS_COUNT].first))[number];
    u32 base = steps[RUNS_SCALE].code != 0
        ? section_value<u32>(input, steps[RUNS_SCALE], number) : 0;
    bool is_right = !__any_sync(WHOLE_WARP, !mine.is_right);
    TileWords residuals = warp_words_of_lane(mine, 0), values = warp_words_of_lane(mine, 1);
    TileWords patch = warp_words_of_lane(mine, 2);
    if (!is_right) return false;
    stage_words(residuals, memory.words);
    u32 group = warp_afl_group(residuals, steps[RUNS_RESIDUALS].bits, count);
    u32 values_group = warp_afl_group(values, steps[RUNS_HEADS].bits, expected);
    Exceptions exceptions;
    is_right = exceptions.read(patch, steps[RUNS_PATCH].bits, count);
    if (!is_right || !residuals.is_right || !values.is_right) return false;
    __syncwarp();
    warp_unpack_residuals(memory.words, group, memory.tile);
    __syncwarp();
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        if (!exceptions.has(half) || exceptions.width == 0) continue;
        u32& value = memory.tile[word_of(exceptions.positions[half])];
        value = (value + exceptions.addition<u32>(half)) & low_mask<u32>(column.bits);
    }
    wait_for_previous();
    const u32* heads = (const u32*)(codec.output + column.heads) + (u64)number * TILE_WORDS;
    u32 word = heads[lane()], first = lane() * LANE_VALUES;
    if (count < first + LANE_VALUES) word = count > first ? word & low_mask<u32>(count - first) : 0;
    LaneRange range(word);
    if ((u32)__reduce_add_sync(WHOLE_WARP, __popc(word)) != expected) return false;
    u32 rank = range.rank;
    for (u32 left = word; left != 0; left &= left - 1)
        memory.places[rank++] = (u16)(first + __ffs((int)left) - 1);
    __syncwarp();
    warp_put_heads(values.words, values_group, base, expected, memory.places, memory.tile);
    __syncwarp();
    Tile<u32> tile;
#pragma unroll
    for (u32 i = 0; i < RUNS; i++) get_range(memory.tile, i, tile.v[i]);
    unstore(tile, 1);
    if (steps[RUNS_KEYED].code == CODEC_KEYED_DELTA2) warp_sum_ranges<true>(range, tile);
    else warp_sum_ranges<false>(range, tile);
    if (steps[RUNS_DIVISOR].code != 0)
        apply_linear((u32)steps[RUNS_DIVISOR].parameter, steps[RUNS_DIVISOR].extra, tile);
    bool is_outside = false;
    if (column.checks != 0) {
#pragma unroll
        for (u32 at = 0; at < LANE_VALUES; at++)
            is_outside |= first + at < count && tile.v[at / 4][at % 4] - column.least > column.span;
    }
#pragma unroll
    for (u32 i = 0; i < RUNS; i++) put_range(memory.tile, i, tile.v[i]);
    return !__any_sync(WHOLE_WARP, is_outside);
}
