// Decodes a tile of repeated codes, dict(rle(afl, afl), scale?(afl)?) (FORMAT.md, sections 6.9 and
// 6.10).
//
// Entries are looked up once per run and listed after the exceptions. To find the value of a row,
// only two bit sets are needed: rows that are exceptions, and first rows of runs of entries. The
// generic kernel looks up each row, ranks it twice and waits for each packed word separately.
#pragma once
#include <cuda_pipeline_primitives.h>

#include "codec/tree.cuh"

// Numbers of the steps, in their fixed order.
enum {
    REPEATS_OTHER_COUNT, REPEATS_OTHERS, REPEATS_SCALE, REPEATS_COUNT, REPEATS_VALUES,
    REPEATS_LENGTHS, REPEATS_DICT,
};
static_assert(REPEATS_DICT + 1 == CODEC_RUN_STEPS, "as the host has them");

// Words of a leaf's widths, at most 7, and one word that may be read after the last group.
static const u32 WIDTH_WORDS = 8;
// The lower ROWS_BITS bits of a sum count rows, the bits above them count runs of entries.
static const u32 ROWS_BITS = 21;
static_assert(TILE_VALUES * (TILE_VALUES + 1) < 1u << ROWS_BITS, "lengths are cut to a tile's");
static_assert(TILE_VALUES < 1u << (32 - ROWS_BITS), "a run has an entry at most");

// Shared memory of one warp.
struct RepeatsMemory {
    alignas(16) CodecStep steps[CODEC_RUN_STEPS];
    // First the packed exceptions, from the start; then, after WIDTH_WORDS, the exceptions and the
    // entry of each run of entries.
    alignas(16) u32 list[WIDTH_WORDS + TILE_VALUES];
    u32 packed[PACKED_WORDS];
    // For each 32 places of the tile: [0] the set of exceptions (before `warp_fill_sets`, of the
    // first rows of runs of exceptions); [1] the set of first rows of runs of entries; [2] how many
    // places of each set precede these 32 places: of [0] in the lower half, of [1] in the upper.
    alignas(16) u32 sets[TILE_WORDS][4];
};

// Prefetches packed words to shared memory.
__device__ __forceinline__ void stage(TileWords& at, u32* to) {
    for (u32 index = lane(); index < at.length; index += 32)
        __pipeline_memcpy_async(to + index, at.words + index, sizeof(u32));
    at.words = to;
}

// Unpacks the four values of a lane in run `k`. `count` is at least 1; in place of a value beyond
// the last, the last one is read. If STAGED, one word after the last may be read.
template <bool STAGED>
__device__ __forceinline__ void warp_unpack_four(const u32* words, u32 group, u32 k, u32 count,
                                            u32 (&v)[4]) {
    u32 last = count - 1, place = place_of(k) < last ? place_of(k) : last & ~3u;
    u32 mine = __shfl_sync(WHOLE_WARP, group, place / 32), bits = mine & 0xff;
    u32 mask = bits > 0 ? low_mask<u32>(bits) : 0;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        u32 bit = (mine >> 8) * 32 + (place + j < last ? place + j : last) % 32 * bits;
        if (STAGED) {
            v[j] = __funnelshift_r(words[bit / 32], words[bit / 32 + 1], bit) & mask;
        } else {
            v[j] = 0;
            if (bits > 0) v[j] = unpack(words, bit, bits, 0u);
        }
    }
}

// Unpacks the exceptions within `list`, from the last to the first. The place of a value is never
// before its packed bits, so no packed bits are overwritten before they are read.
__device__ __forceinline__ void warp_unpack_others(u32 group, u32 base, u32 mask, u32 count,
                                              u32* list) {
#pragma unroll 1
    for (u32 k = (count + RUN_VALUES - 1) / RUN_VALUES; k-- > 0;) {
        u32 v[4];
        warp_unpack_four<true>(list, group, k, count, v);
#pragma unroll
        for (u32 j = 0; j < 4; j++) v[j] = (v[j] + base) & mask;
        __syncwarp();
        store_four((u8*)(list + WIDTH_WORDS), place_of(k), 32, v);
    }
}

// The runs of a tile.
struct Repeats {
    TileWords lengths;
    TileWords values;
    u32 lengths_group;
    u32 values_group;
    u32 count;
    const u32* table;
    // Number of entries of the table, which is also the code of exceptions.
    u32 entries;
    // The greatest code.
    u32 most;

    // Lists the entries of runs after `others` exceptions, marks where runs begin, and writes the
    // number of rows of all runs to `rows`. Returns false if a code is greater than `most` or a run
    // is longer than a tile. If STAGED, the packed words are in shared memory, first the words of
    // lengths, then the words of codes.
    template <bool STAGED>
    __device__ __forceinline__ bool find(u32 others, RepeatsMemory& memory, u32& rows) const {
        const u32* codes = STAGED ? memory.packed + lengths.length : values.words;
        const u32* repeats = STAGED ? memory.packed : lengths.words;
        u32* list = memory.list + WIDTH_WORDS;
        u32 total = 0, greatest = 0, longest = 0;
#pragma unroll 1
        for (u32 k = 0; k * RUN_VALUES < count; k++) {
            u32 length[4], code[4], value[4], before[4], sum = 0;
            warp_unpack_four<STAGED>(codes, values_group, k, count, code);
            warp_unpack_four<STAGED>(repeats, lengths_group, k, count, length);
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                greatest = code[j] > greatest ? code[j] : greatest;
                longest = length[j] > longest ? length[j] : longest;
                value[j] = table[code[j] < entries ? code[j] : 0];
            }
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 is_entry = code[j] != entries;
                before[j] = sum;
                sum += place_of(k) + j < count ? length[j] + 1 + (is_entry << ROWS_BITS) : 0;
            }
            u32 to = warp_sum_to(sum), start = total + to - sum;
            total += __shfl_sync(WHOLE_WARP, to, 31);
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                if (place_of(k) + j >= count) continue;
                bool is_entry = code[j] != entries;
                // Truncated, because excess rows are refused later.
                u32 place = (start + before[j]) % TILE_VALUES;
                u32 at = (others + ((start + before[j]) >> ROWS_BITS)) % TILE_VALUES;
                atomicOr(&memory.sets[place / 32][is_entry], 1u << place % 32);
                if (is_entry) list[at] = value[j];
            }
        }
        rows = total & low_mask<u32>(ROWS_BITS);
        return !__any_sync(WHOLE_WARP, greatest > most || longest >= TILE_VALUES);
    }
};

// Extends the first rows of runs of exceptions to the set of all exceptions, and writes the counts
// of `sets`. Returns false if the number of exceptions is not `others`.
__device__ __forceinline__ bool warp_fill_sets(u32 count, u32 others, u32 (&sets)[TILE_WORDS][4]) {
    u32 others_begin = sets[lane()][0], entries_begin = sets[lane()][1];
    // Exceptions extend until a run of entries begins, as a carry of an addition propagates until
    // both bits are 0.
    u32 known = __ballot_sync(WHOLE_WARP, (others_begin | entries_begin) != 0) & lanes_below();
    u32 ends_with_others = __ballot_sync(WHOLE_WARP, others_begin > entries_begin);
    u64 carry = known != 0 ? ends_with_others >> (31 - __clz(known)) & 1 : 0;
    u32 open = others_begin | ~entries_begin;
    u32 filled = (u32)((((u64)open + others_begin + carry) ^ open ^ others_begin) >> 1);
    u32 first = lane() * 32;
    if (count < first + 32) filled = count > first ? filled & low_mask<u32>(count - first) : 0;
    u32 mine = __popc(filled) | __popc(entries_begin) << 16, to = warp_sum_to(mine);
    *(uint4*)sets[lane()] = make_uint4(filled, entries_begin, to - mine, 0);
    return (__shfl_sync(WHOLE_WARP, to, 31) & 0xffff) == others;
}

// Writes the four values of a lane in run `k` to `v`.
__device__ __forceinline__ void take_four(const RepeatsMemory& memory, u32 others, u32 k,
                                          u32 (&v)[4]) {
    u32 place = place_of(k), shift = place % 32, below = (1u << shift) - 1;
    uint4 set = *(const uint4*)memory.sets[place / 32];
    const u32* list = memory.list + WIDTH_WORDS;
    u32 other = (set.z & 0xffff) + __popc(set.x & below);
    u32 entry = others + (set.z >> 16) + __popc(set.y & below);
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
        bool is_other = (set.x >> shift >> j & 1) != 0;
        entry += set.y >> shift >> j & 1;
        v[j] = list[is_other ? other : entry - 1];
        other += is_other;
    }
}

// Decodes a tile, whose values `take_four` then returns, and writes its number of exceptions to
// `others`. Returns false if the format refuses the tile.
__device__ __forceinline__ bool warp_decode_repeats(const Codec& codec, const CodecColumn& column,
                                               u32 number, u32 count, RepeatsMemory& memory,
                                               u32& others) {
    const u8* input = codec.input;
    const CodecStep* steps = memory.steps;
    const uint4* loads = (const uint4*)(codec.steps + column.first_step);
    if (lane() < 3 * CODEC_RUN_STEPS) ((uint4*)memory.steps)[lane()] = loads[lane()];
    *(uint4*)memory.sets[lane()] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    Repeats runs;
    runs.lengths = tile_words(input, steps[REPEATS_LENGTHS], column.tiles, number);
    runs.values = tile_words(input, steps[REPEATS_VALUES], column.tiles, number);
    runs.count = ((const u16*)(input + steps[REPEATS_COUNT].first))[number];
    TileWords packed = {0, (const u32*)input, 0, true};
    u32 base = 0;
    others = 0;
    if (steps[REPEATS_OTHERS].code != 0) {
        packed = tile_words(input, steps[REPEATS_OTHERS], column.tiles, number);
        others = ((const u16*)(input + steps[REPEATS_OTHER_COUNT].first))[number];
        if (steps[REPEATS_SCALE].code != 0)
            base = section_value<u32>(input, steps[REPEATS_SCALE], number);
    }
    if (!runs.lengths.is_right || !runs.values.is_right || !packed.is_right || runs.count == 0
        || runs.count > count || others > count || packed.length > WIDTH_WORDS + others)
        return false;
    stage(packed, memory.list);
    bool is_staged = runs.lengths.length <= PACKED_WORDS
        && runs.values.length <= PACKED_WORDS - runs.lengths.length;
    if (is_staged) {
        stage(runs.lengths, memory.packed);
        stage(runs.values, memory.packed + runs.lengths.length);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    u32 bits = steps[REPEATS_OTHERS].bits, group = warp_afl_group(packed, bits, others);
    runs.lengths_group = warp_afl_group(runs.lengths, steps[REPEATS_LENGTHS].bits, runs.count);
    runs.values_group = warp_afl_group(runs.values, steps[REPEATS_VALUES].bits, runs.count);
    if (!packed.is_right || !runs.lengths.is_right || !runs.values.is_right) return false;
    if (others > 0) warp_unpack_others(group, base, low_mask<u32>(bits), others, memory.list);
    const CodecStep& dictionary = steps[REPEATS_DICT];
    runs.table = (const u32*)(codec.output + dictionary.first);
    runs.entries = dictionary.extra;
    runs.most = dictionary.extra - (dictionary.code == CODEC_DICT_OR ? 0 : 1);
    wait_for_previous();
    __syncwarp();
    u32 rows;
    bool is_right = is_staged ? runs.find<true>(others, memory, rows)
                              : runs.find<false>(others, memory, rows);
    if (!is_right || rows != count) return false;
    __syncwarp();
    is_right = warp_fill_sets(count, others, memory.sets);
    __syncwarp();
    return is_right;
}
