// Scatters decoded values in grouped order to their rows.
//
// A block writes a piece of a column's rows. It copies the values of the whole segment through its
// shared memory, chunk by chunk, and selects the values of its rows. Reading each value directly
// from device memory would transfer a sector of 32 bytes per value.
#include <cuda_pipeline_primitives.h>

#include "codec/tile.cuh"
#include "warp/search.cuh"

static const u32 SCATTER_STEPS = CODEC_SCATTER_EACH / SCATTER_NEIGHBOURS;

// The work of a block.
struct Piece {
    const u16* places;
    u32 rows;
    // The values of the segment, and their size in bytes.
    const uint4* from;
    u32 bytes;
    // Bytes of a chunk, and chunks that are in flight together.
    u32 chunk_bytes;
    u32 buffers;

    // Starts the copy of chunk `number`, if there is one.
    __device__ __forceinline__ void fetch(u32 number, uint4* shared) const {
        u32 each = chunk_bytes / sizeof(uint4), first = number * each;
        u32 all = (bytes + sizeof(uint4) - 1) / sizeof(uint4), left = all > first ? all - first : 0;
        uint4* to = shared + number % buffers * each;
        for (u32 at = threadIdx.x; at < (left < each ? left : each); at += blockDim.x)
            __pipeline_memcpy_async(to + at, from + first + at, sizeof(uint4));
        __pipeline_commit();
    }
};

// Writes the values, of type U, of a piece's rows to `to`.
template <class U>
__device__ __forceinline__ void block_scatter(const Piece& piece, uint4* shared, U* to) {
    struct alignas(SCATTER_NEIGHBOURS * sizeof(U) < 16 ? SCATTER_NEIGHBOURS * sizeof(U) : 16) Four {
        U v[SCATTER_NEIGHBOURS];
    } values[SCATTER_STEPS] = {};
    uint2 places[SCATTER_STEPS];
    for (u32 number = 0; number < piece.buffers; number++) piece.fetch(number, shared);
#pragma unroll
    for (u32 step = 0; step < SCATTER_STEPS; step++) {
        u32 row = (step * blockDim.x + threadIdx.x) * SCATTER_NEIGHBOURS;
        // The places are padded to whole tiles.
        places[step] = row < piece.rows ? *(const uint2*)(piece.places + row) : make_uint2(0, 0);
    }
    u32 chunk_bytes = piece.chunk_bytes, each = chunk_bytes / sizeof(U);
    u32 chunks = (piece.bytes + chunk_bytes - 1) / chunk_bytes;
#pragma unroll 1
    for (u32 number = 0; number < chunks; number++) {
        __pipeline_wait_prior(piece.buffers - 1);
        __syncthreads();
        const U* chunk = (const U*)shared + number % piece.buffers * each;
#pragma unroll
        for (u32 step = 0; step < SCATTER_STEPS; step++)
#pragma unroll
            for (u32 j = 0; j < SCATTER_NEIGHBOURS; j++) {
                u32 place = (j < 2 ? places[step].x : places[step].y) >> j % 2 * 16 & 0xffff;
                u32 at = place - number * each;
                if (at < each) values[step].v[j] = chunk[at];
            }
        if (number + 1 == chunks) break;
        __syncthreads();
        piece.fetch(number + piece.buffers, shared);
    }
#pragma unroll
    for (u32 step = 0; step < SCATTER_STEPS; step++) {
        u32 row = (step * blockDim.x + threadIdx.x) * SCATTER_NEIGHBOURS;
        if (row + SCATTER_NEIGHBOURS <= piece.rows) {
            *(Four*)(to + row) = values[step];
        } else {
#pragma unroll
            for (u32 j = 0; j < SCATTER_NEIGHBOURS; j++)
                if (row + j < piece.rows) to[row + j] = values[step].v[j];
        }
    }
}

// Scatters columns in grouped order. A thread writes CODEC_SCATTER_EACH rows of one column.
extern "C" __global__ void __launch_bounds__(CODEC_SCATTER_THREADS)
    codec_scatter(u8* output, const CodecScatter* columns, u32 length, u32 chunk_bytes,
                  u32 buffers) {
    const u32 ROWS = CODEC_SCATTER_EACH * CODEC_SCATTER_THREADS;
    static_assert(SEGMENT_ROWS % ROWS == 0, "of one segment");
    extern __shared__ uint4 shared[];
    auto first_piece = [&](u32 at) { return columns[at].first_piece; };
    const CodecScatter column = columns[warp_last_not_above(length, blockIdx.x, first_piece)];
    u64 begin = (u64)(blockIdx.x - column.first_piece) * ROWS, left = column.rows - begin;
    u64 segment = begin / SEGMENT_ROWS * SEGMENT_ROWS, all = column.rows - segment;
    Piece piece;
    piece.places = (const u16*)(output + column.places) + begin;
    piece.rows = left < ROWS ? (u32)left : ROWS;
    piece.from = (const uint4*)(output + column.grouped + segment * column.bytes);
    piece.bytes = (all < SEGMENT_ROWS ? (u32)all : SEGMENT_ROWS) * column.bytes;
    piece.chunk_bytes = chunk_bytes;
    piece.buffers = buffers;
    u8* to = output + column.output + begin * column.bytes;
    wait_for_previous();
    if (column.bytes == 8) block_scatter(piece, shared, (u64*)to);
    else if (column.bytes == 4) block_scatter(piece, shared, (u32*)to);
    else if (column.bytes == 2) block_scatter(piece, shared, (u16*)to);
    else block_scatter(piece, shared, to);
}
