// Decoding the leaf `stateless` (FORMAT.md, section 6.18): the number of flags before a value is the
// place of its index, so all values of a tile are found together.
#pragma once
#include "codec/leaf.cuh"

template <class T>
__device__ __forceinline__ bool read_stateless(const u8* input, const CodecStep& step, u32 tiles,
                                               u32 tile, u32 count, Tile<T>& out) {
    TileWords at = tile_words(input, step, tiles, tile);
    u32 entries = step.extra & 0xffff, chunk_tiles = step.extra >> 16;
    u32 index_bits = 32 - (u32)__clz((int)(entries - 1)), indexed = at.fields >> 16;
    if (!at.is_right || (at.fields & 0xffff) != count || indexed > count) return false;
    u32 flag_words = (count + 31) / 32, index_words = (indexed * index_bits + 31) / 32;
    if (flag_words + index_words + (count - indexed + 3) / 4 != at.length) return false;
    u32 flags = lane() < flag_words ? at.words[lane()] : 0;
    // Bits behind the last flag may be anything.
    if (lane() == count / 32) flags &= (1u << count % 32) - 1;
    u32 mine = (u32)__popc(flags), to = warp_sum_to(mine);
    if (__shfl_sync(WHOLE_WARP, to, 31) != indexed) return false;
    const u8* table = input + step.parameter + (u64)(tile / chunk_tiles) * entries;
    const u32* indexes = at.words + flag_words;
    const u8* others = (const u8*)(indexes + index_words);
    u32 mask = (1u << index_bits) - 1;
    bool is_wrong = false;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k), group = 4 * k + lane() / 8, shift = lane() % 8 * 4;
        u32 word = __shfl_sync(WHOLE_WARP, flags, group);
        u32 before = __shfl_sync(WHOLE_WARP, to - mine, group);
        u32 rank = before + (u32)__popc(word & ((1u << shift) - 1)), four = word >> shift;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 value = 0;
            if ((four >> j & 1) != 0) {
                u32 bit = rank * index_bits, index = 0;
                if (index_bits > 0)
                    index = unpack_near(indexes, bit, bit + index_bits - 1, 0u) & mask;
                is_wrong |= index >= entries;
                value = table[index < entries ? index : 0];
                rank++;
            } else if (place + j < count) {
                value = others[place + j - rank];
            }
            out.v[k][j] = (T)value;
        }
    }
    return !__any_sync(WHOLE_WARP, is_wrong);
}
