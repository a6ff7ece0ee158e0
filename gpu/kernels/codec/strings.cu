// Decodes chunks of `lzw` from their codes (FORMAT.md, section 6.19). One block of threads a chunk.
//
// A block decodes a chunk tile by tile. The entry of a code gives the length and the first byte of
// its string, the sum of the preceding lengths gives its place, and a thread writes the string from
// the last byte to the first, following the entries. If the format refuses a tile, none of its
// strings is written.
#include "codec/tile.cuh"
#include "warp/search.cuh"

static const u32 STRING_EACH = TILE_VALUES / CODEC_STRING_THREADS;
static const u32 STRING_WARPS = CODEC_STRING_THREADS / 32;
// The code of the first entry; smaller codes are bytes.
static const u32 ENTRY_FIRST = 256;
// Added to a packed string (length << 8 | first byte) to increase its length by 1.
static const u32 LONGER = 1u << 8;

// The codes of a tile.
struct StringMemory {
    u16 codes[TILE_VALUES];
    // Length << 8 | first byte of each string; 0 until it is known.
    u32 strings[TILE_VALUES];
    u32 warps[STRING_WARPS];
};

struct Chunk {
    // Each tile has 1,024 places for codes. When a tile is decoded, its codes are moved to the
    // place after the last code of the previous tile.
    u16* codes;
    // The number of codes of each tile.
    const u16* counts;
    // The strings of all codes of decoded tiles, as in `StringMemory`.
    u32* strings;
    u8* output;
    u32 bytes;
    // The numbers of codes and of bytes of the decoded tiles.
    u32 number;
    u32 end;
};

// Finds the strings of a tile's codes; false if a code refers to an entry that does not precede it.
__device__ __forceinline__ bool block_find_strings(const Chunk& chunk, u32 tile, u32 count,
                                             StringMemory& memory) {
    bool is_wrong = false;
#pragma unroll
    for (u32 item = 0; item < STRING_EACH; item++) {
        u32 at = item * CODEC_STRING_THREADS + threadIdx.x;
        if (at >= count) continue;
        u32 code = chunk.codes[tile * TILE_VALUES + at], entry = code - ENTRY_FIRST, string = 0;
        if (code < ENTRY_FIRST) string = LONGER | code;
        else if (entry < chunk.number) string = chunk.strings[entry] + LONGER;
        else is_wrong |= entry >= chunk.number + at;
        memory.codes[at] = (u16)code;
        memory.strings[at] = string;
    }
    if (__syncthreads_or(is_wrong)) return false;
    // Each round finds at least the first unknown string. The string that it extends precedes it
    // and is known.
    bool is_left = true;
    while (is_left) {
        u32 found[STRING_EACH];
        is_left = false;
#pragma unroll
        for (u32 item = 0; item < STRING_EACH; item++) {
            u32 at = item * CODEC_STRING_THREADS + threadIdx.x;
            found[item] = 0;
            if (at >= count || memory.strings[at] != 0) continue;
            found[item] = memory.strings[memory.codes[at] - ENTRY_FIRST - chunk.number];
            is_left |= found[item] == 0;
        }
        is_left = __syncthreads_or(is_left) != 0;
#pragma unroll
        for (u32 item = 0; item < STRING_EACH; item++)
            if (found[item] != 0)
                memory.strings[item * CODEC_STRING_THREADS + threadIdx.x] = found[item] + LONGER;
        __syncthreads();
    }
    return true;
}

// Decodes the next tile of a chunk; false if the format refuses it.
__device__ __forceinline__ bool block_decode_strings(Chunk& chunk, u32 tile, StringMemory& memory) {
    u32 count = chunk.counts[tile], first = tile * TILE_VALUES;
    u32 tile_end = first + TILE_VALUES < chunk.bytes ? first + TILE_VALUES : chunk.bytes;
    if (count > tile_end - first || !block_find_strings(chunk, tile, count, memory)) return false;
    u32 mine = threadIdx.x * STRING_EACH, ends[STRING_EACH], sum = 0;
#pragma unroll
    for (u32 item = 0; item < STRING_EACH; item++) {
        u32 at = mine + item, string = at < count ? memory.strings[at] : 0;
        sum += string >> 8;
        ends[item] = sum;
        if (at >= count) continue;
        // These places belong to tiles whose codes have been read.
        chunk.codes[chunk.number + at] = memory.codes[at];
        chunk.strings[chunk.number + at] = string;
    }
    u32 before = warp_sum_before(sum), warp = threadIdx.x / 32;
    if (lane() == 31) memory.warps[warp] = before + sum;
    __syncthreads();
    u32 of_warp = lane() < STRING_WARPS ? memory.warps[lane()] : 0;
    u32 to_warp = warp_sum_to(of_warp);
    before += chunk.end + __shfl_sync(WHOLE_WARP, to_warp - of_warp, warp);
    u32 end = chunk.end + __shfl_sync(WHOLE_WARP, to_warp, 31);
    bool is_wrong = end < tile_end;
#pragma unroll
    for (u32 item = 0; item < STRING_EACH; item++) {
        u32 start = before + (item > 0 ? ends[item - 1] : 0);
        is_wrong |= mine + item < count
            && (start >= tile_end || before + ends[item] > chunk.bytes);
    }
    if (__syncthreads_or(is_wrong)) return false;
#pragma unroll
    for (u32 item = 0; item < STRING_EACH; item++) {
        if (mine + item >= count) continue;
        u32 to = before + ends[item] - 1, code = memory.codes[mine + item];
        while (code >= ENTRY_FIRST) {
            u32 entry = code - ENTRY_FIRST;
            // The last byte of an entry is the first of the next string.
            chunk.output[to--] = (u8)chunk.strings[entry + 1];
            code = chunk.codes[entry];
        }
        chunk.output[to] = (u8)code;
    }
    chunk.number += count;
    chunk.end = end;
    __syncthreads();
    return true;
}

extern "C" __global__ void __launch_bounds__(CODEC_STRING_THREADS)
    codec_strings(Codec codec, const CodecStrings* columns, u32 length) {
    __shared__ StringMemory memory;
    let_next_begin();
    wait_for_previous();
    const CodecStrings column = columns[warp_last_not_above(
        length, blockIdx.x, [&](u32 at) { return columns[at].first_chunk; })];
    u32* failed = codec.failed + (u64)column.request * codec.stride;
    // After a failure the codes may not have been decoded. The block votes, because another block
    // may set the flag meanwhile.
    if (__syncthreads_or(*(volatile u32*)failed != 0)) return;
    u32 first_tile = (blockIdx.x - column.first_chunk) * column.chunk_tiles;
    u32 first = first_tile * TILE_VALUES, left = column.rows - first;
    u32 most = column.chunk_tiles * TILE_VALUES;
    Chunk chunk;
    chunk.codes = (u16*)(codec.output + column.codes) + first;
    chunk.counts = (const u16*)(codec.input + column.counts) + first_tile;
    chunk.strings = (u32*)(codec.output + column.strings) + first;
    chunk.output = codec.output + column.output + first;
    chunk.bytes = left < most ? left : most;
    chunk.number = chunk.end = 0;
    for (u32 tile = 0; tile * TILE_VALUES < chunk.bytes; tile++) {
        if (block_decode_strings(chunk, tile, memory)) continue;
        if (threadIdx.x == 0) *failed = 1;
        return;
    }
}
