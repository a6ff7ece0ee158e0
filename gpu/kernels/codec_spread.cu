// Entry point that moves decoded values in grouped order to their rows.
#include "codec_tile.cuh"
#include "search.cuh"

// Steps whose loads are on their way together.
static const u32 SPREAD_STEPS = 4;

// The rows of one piece.
struct Piece {
    const u16* list;
    const u8* from;
    // Positions of the segment.
    u32 positions;
    // First row within the segment, and number of rows.
    u32 first;
    u32 rows;
};

// Puts the values of a piece's rows into `piece`; U holds one value, T computes with it.
template <class U, class T>
__device__ __forceinline__ void spread(const Piece& of, U* piece) {
    const u32 step = CODEC_SPREAD_THREADS * 4;
    for (u32 start = threadIdx.x * 4; start < of.positions; start += step * SPREAD_STEPS) {
        uint2 list[SPREAD_STEPS];
        T values[SPREAD_STEPS][4];
#pragma unroll
        for (u32 index = 0; index < SPREAD_STEPS; index++) {
            u32 at = start + index * step;
            if (at >= of.positions) continue;
            // Lists and grouped values are as long as whole tiles.
            list[index] = ((const uint2*)of.list)[at / 4];
            load_four(of.from, at, 8 * sizeof(U), values[index]);
        }
#pragma unroll
        for (u32 index = 0; index < SPREAD_STEPS; index++) {
            u32 at = start + index * step;
            u32 rows[4] = {list[index].x & 0xffff, list[index].x >> 16, list[index].y & 0xffff,
                           list[index].y >> 16};
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 place = rows[j] - of.first;
                if (at + j < of.positions && place < of.rows) piece[place] = (U)values[index][j];
            }
        }
    }
}

// One keyed column, in pieces of rows that a block holds in its shared memory: writing each value
// to its row in the device's memory takes longer than reading all values for each piece. One block
// a piece.
extern "C" __global__ void __launch_bounds__(CODEC_SPREAD_THREADS)
    codec_spread(u8* output, const CodecSpread* columns, u32 length) {
    extern __shared__ uint4 memory[];
    u8* piece = (u8*)memory;
    auto first_piece = [&](u32 at) { return columns[at].first_piece; };
    const CodecSpread column = columns[last_not_above(length, blockIdx.x, first_piece)];
    wait_for_previous();
    u32 rows = CODEC_SPREAD_BYTES / column.bytes;
    if (rows > SEGMENT_ROWS) rows = SEGMENT_ROWS;
    u64 begin = (u64)(blockIdx.x - column.first_piece) * rows;
    u64 segment = begin / SEGMENT_ROWS * SEGMENT_ROWS;
    u32 first = (u32)(begin - segment);
    u64 all = column.rows - segment, left = column.rows - begin;
    u32 positions = all < SEGMENT_ROWS ? (u32)all : SEGMENT_ROWS;
    u32 mine = left < rows ? (u32)left : rows;
    Piece of;
    of.list = (const u16*)(output + column.list) + segment;
    of.from = output + column.grouped + segment * column.bytes;
    of.positions = positions;
    of.first = first;
    of.rows = mine;
    if (column.bytes == 8) spread<u64, u64>(of, (u64*)piece);
    else if (column.bytes == 4) spread<u32, u32>(of, (u32*)piece);
    else if (column.bytes == 2) spread<u16, u32>(of, (u16*)piece);
    else spread<u8, u32>(of, piece);
    __syncthreads();
    u8* to = output + column.output + begin * column.bytes;
    u32 bytes = mine * column.bytes, wide = bytes / 16;
    for (u32 at = threadIdx.x; at < wide; at += CODEC_SPREAD_THREADS) ((uint4*)to)[at] = memory[at];
    for (u32 at = wide * 16 + threadIdx.x; at < bytes; at += CODEC_SPREAD_THREADS) to[at] = piece[at];
}
