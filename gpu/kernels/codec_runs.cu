// Entry point that decodes keyed columns of the common trees: one warp a tile.
#include "codec_runs.cuh"

// Warps of a block, and blocks that must fit a multiprocessor.
static const u32 RUNS_WARPS = 4;
static const u32 RUNS_BLOCKS = 6;

extern "C" __global__ void __launch_bounds__(32 * RUNS_WARPS, RUNS_BLOCKS)
    codec_runs_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    __shared__ RunsMemory memories[RUNS_WARPS];
    let_next_begin();
    RunsMemory& memory = memories[threadIdx.x / 32];
    u32 tile = blockIdx.x * RUNS_WARPS + threadIdx.x / 32;
    if (tile >= tiles) return;
    const CodecColumn& column = columns[column_of(columns, length, tile)];
    u32 number = tile - column.first_tile, left = column.rows - number * TILE_VALUES;
    u32 count = left < TILE_VALUES ? left : TILE_VALUES;
    if (!decode_runs(codec, column, number, count, memory)) {
        // It may not have come to its wait.
        wait_for_previous();
        if (lane() == 0) codec.failed[(u64)column.request * codec.stride] = 1;
        return;
    }
    if (column.output == NO_COLUMN) return;
    __syncwarp();
    // Grouped values are as long as whole tiles.
    u8* to = codec.output + column.output + (u64)number * TILE_VALUES * (column.bits / 8);
#pragma unroll 2
    for (u32 k = 0; k < RUNS; k++) {
        u32 v[4];
        get_four(memory.tile, k, v);
        store_four(to, place_of(k), column.bits, v);
    }
}
