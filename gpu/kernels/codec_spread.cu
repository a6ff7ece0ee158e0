// Entry point that moves decoded values in grouped order to their rows.
#include "codec_group.cuh"

// One keyed column, in pieces of rows that a block holds in its shared memory: writing each value
// to its row in the device's memory takes longer than reading all values for each piece. One block
// a piece.
extern "C" __global__ void __launch_bounds__(CODEC_SPREAD_THREADS)
    codec_spread(u8* output, const CodecSpread* columns, u32 length) {
    extern __shared__ uint4 memory[];
    u8* piece = (u8*)memory;
    u32 low = 0, high = length;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (columns[middle].first_piece <= blockIdx.x) low = middle;
        else high = middle;
    }
    const CodecSpread column = columns[low];
    u32 rows = CODEC_SPREAD_BYTES / column.bytes;
    if (rows > SEGMENT_ROWS) rows = SEGMENT_ROWS;
    u64 begin = (u64)(blockIdx.x - column.first_piece) * rows;
    u64 segment = begin / SEGMENT_ROWS * SEGMENT_ROWS;
    u32 first = (u32)(begin - segment);
    u64 all = column.rows - segment, left = column.rows - begin;
    u32 positions = all < SEGMENT_ROWS ? (u32)all : SEGMENT_ROWS;
    u32 mine = left < rows ? (u32)left : rows;
    const u32* order = (const u32*)(output + column.order) + segment;
    const u8* from = output + column.grouped + segment * column.bytes;
    for (u32 at = threadIdx.x * 4; at < positions; at += CODEC_SPREAD_THREADS * 4) {
        // Orders and grouped values are as long as whole tiles.
        uint4 four = ((const uint4*)order)[at / 4];
        u32 places[4] = {four.x & 0xffff, four.y & 0xffff, four.z & 0xffff, four.w & 0xffff};
        u64 values[4];
        load_four(from, at, column.bytes * 8, values);
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 place = places[j] - first;
            if (at + j < positions && place < mine)
                store_one(piece, place, column.bytes * 8, values[j]);
        }
    }
    __syncthreads();
    u8* to = output + column.output + begin * column.bytes;
    u32 bytes = mine * column.bytes, wide = bytes / 16;
    for (u32 at = threadIdx.x; at < wide; at += CODEC_SPREAD_THREADS) ((uint4*)to)[at] = memory[at];
    for (u32 at = wide * 16 + threadIdx.x; at < bytes; at += CODEC_SPREAD_THREADS) to[at] = piece[at];
}
