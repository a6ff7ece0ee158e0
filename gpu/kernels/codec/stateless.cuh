// Decoding the leaf `stateless` (FORMAT.md, section 6.18). The number of set flags before a value
// is the place of its index, so all values of a tile are decoded in parallel.
#pragma once
#include "codec/leaf.cuh"

// Returns 32 bits of `words` from bit `bit` on. In place of a word after word `last`, word `last`
// is read.
__device__ __forceinline__ u32 bits_from(const u32* words, u32 bit, u32 last) {
    u32 first = bit / 32, next = first + 1;
    return __funnelshift_r(words[first < last ? first : last], words[next < last ? next : last],
                           bit);
}

// Runs whose loads are in flight together; more runs need more registers.
static const u32 STATELESS_RUNS = 4;

// A lane decodes four consecutive values of a run. Their indexes are consecutive, and so are their
// other bytes. The indexes take at most 32 bits, and so do the bytes; one call of `bits_from` loads
// each. The chunk's table is copied to `memory`.
template <class T>
__device__ __forceinline__ bool warp_read_stateless(const u8* input, const CodecStep& step,
                                                    u32 tiles, u32 tile, u32 count,
                                                    T (&memory)[TILE_VALUES], Tile<T>& out) {
    TileWords at = tile_words(input, step, tiles, tile);
    u32 entries = step.extra & 0xffff, chunk_tiles = step.extra >> 16;
    u32 index_bits = 32 - (u32)__clz((int)(entries - 1)), indexed = at.fields >> 16;
    if (!at.is_right || (at.fields & 0xffff) != count || indexed > count) return false;
    u32 flag_words = (count + 31) / 32, index_words = (indexed * index_bits + 31) / 32;
    if (flag_words + index_words + (count - indexed + 3) / 4 != at.length || count == 0)
        return false;
    const u8* table = input + step.parameter + (u64)(tile / chunk_tiles) * entries;
    u32 flags = lane() < flag_words ? at.words[lane()] : 0;
    __syncwarp();
    for (u32 entry = lane(); entry < entries; entry += 32) memory[entry] = table[entry];
    // Clears the bits after the last flag, which are undefined.
    if (lane() == count / 32) flags &= (1u << count % 32) - 1;
    u32 mine = (u32)__popc(flags), to = warp_sum_to(mine);
    if (__shfl_sync(WHOLE_WARP, to, 31) != indexed) return false;
    __syncwarp();
    u32 mask = (1u << index_bits) - 1, most = 0;
#pragma unroll
    for (u32 first = 0; first < RUNS; first += STATELESS_RUNS) {
        u32 fours[STATELESS_RUNS], indexes[STATELESS_RUNS], others[STATELESS_RUNS];
#pragma unroll
        for (u32 run = 0; run < STATELESS_RUNS; run++) {
            u32 k = first + run, group = 4 * k + lane() / 8, shift = lane() % 8 * 4;
            u32 word = __shfl_sync(WHOLE_WARP, flags, group);
            u32 rank = __shfl_sync(WHOLE_WARP, to - mine, group);
            rank += (u32)__popc(word & ((1u << shift) - 1));
            fours[run] = word >> shift;
            u32 other = place_of(k) < count ? place_of(k) - rank : 0, last = at.length - 1;
            indexes[run] = bits_from(at.words, 32 * flag_words + rank * index_bits, last);
            others[run] = bits_from(at.words, 32 * (flag_words + index_words) + 8 * other, last);
        }
#pragma unroll
        for (u32 run = 0; run < STATELESS_RUNS; run++)
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                bool is_index = (fours[run] >> j & 1) != 0;
                u32 index = is_index ? indexes[run] & mask : 0;
                most = index > most ? index : most;
                out.v[first + run][j] = is_index ? memory[index] : (T)(others[run] & 0xff);
                indexes[run] >>= is_index ? index_bits : 0;
                others[run] >>= is_index ? 0 : 8;
            }
    }
    return !__any_sync(WHOLE_WARP, most >= entries);
}
