// Encoding the leaf `stateless` (FORMAT.md, section 6.18). The votes of a warp are the flags of a
// group. The number of set flags before a value is the place of its index; the number of unset
// flags before it is its place among the other bytes.
#pragma once
#include "codec/encode_huffman.cuh"

// `step.second` has the ranks of all bytes by frequency for each chunk of `step.mode` tiles. Bytes
// whose rank is below `step.remainder` are in the chunk's table.
template <class T>
__device__ inline void block_encode_stateless(Tile<T>& tile, const EncodeStep& step) {
    TileMemory<T>& memory = tile.memory;
    const unsigned char* ranks =
        (const unsigned char*)step.second + (u64)(tile.number / step.mode) * CODE_SYMBOLS_MAX;
    u32 count = tile.count(), width = bits_of(step.remainder - 1);
    u32 rank[TILE_EACH], before[TILE_EACH];
    bool is_indexed[TILE_EACH];
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        rank[item] = at < count ? ranks[(u32)tile.values()[at] % CODE_SYMBOLS_MAX] : ~0u;
        is_indexed[item] = rank[item] < step.remainder;
        u32 votes = __ballot_sync(WHOLE_WARP, is_indexed[item]);
        if (lane() == 0 && at < count) tile.scratch()[group_of(item)] = votes;
    }
    u32 indexed = block_number_flags(memory, is_indexed, before);
    u32 flag_words = words_of(count, 1), index_words = words_of(indexed, width);
    u32 coded = index_words + words_of(count - indexed, 8);
    for (u32 word = threadIdx.x; word < coded; word += TILE_THREADS) memory.coded[word] = 0;
    __syncthreads();
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        if (at >= count) continue;
        if (is_indexed[item]) merge_bits(memory.coded, before[item] * width, rank[item], width);
        else merge_bits(memory.coded + index_words, 8 * (at - before[item]),
                        (u32)tile.values()[at], 8);
    }
    __syncthreads();
    u32* scratch = tile.scratch() + flag_words;
    for (u32 word = threadIdx.x; word < coded; word += TILE_THREADS)
        scratch[word] = memory.coded[word];
    tile.close(step, flag_words + coded, count | indexed << 16);
}
