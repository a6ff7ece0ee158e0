// A run of past fixes whose blocks stay encoded on the device: a warp decodes the columns of a tile
// one after the other, and nothing decoded is written but what the caller takes.
#pragma once
#include "codec/tree.cuh"

// The columns of a block that every run has; attributes follow.
static const u32 RUN_TIME = 0;
static const u32 RUN_X = 1;
static const u32 RUN_Y = 2;
static const u32 RUN_ATTRIBUTES = 3;

// A tile of a run.
struct RunTile {
    const CodecColumn* columns;
    // What its times count from, from the start of the partition.
    u32 base;
    // Within its block.
    u32 number;
    u32 rows;

    __device__ __forceinline__ RunTile(const Run& run, u32 tile) {
        u32 block = tile / RUN_BLOCK_TILES;
        columns = run.columns + (u64)block * run.kinds;
        base = run.bases[block];
        number = tile % RUN_BLOCK_TILES;
        u32 left = columns[RUN_TIME].rows - number * TILE_VALUES;
        rows = left < TILE_VALUES ? left : TILE_VALUES;
    }
};

// Decodes a column; false, and the run is marked, if the format refuses it.
template <int SLOTS>
__device__ __forceinline__ bool decode_column(const Run& run, const RunTile& tile, u32 kind,
                                              TileMemory<u32, SLOTS>& memory, Tile<u32>& values) {
    const CodecColumn& column = tile.columns[kind];
    u32 count;
    bool is_right = decode_tile(run.codec, column, tile.number, memory, count, values);
    if (is_right && column.checks != 0) is_right = !is_outside(column, count, values);
    if (!is_right && lane() == 0) run.codec.failed[0] = 1;
    return is_right;
}

// The same to shared memory, where every lane may read every value.
template <int SLOTS>
__device__ __forceinline__ bool store_column(const Run& run, const RunTile& tile, u32 kind,
                                             TileMemory<u32, SLOTS>& memory) {
    Tile<u32> values;
    if (!decode_column(run, tile, kind, memory, values)) return false;
    store_slot(memory.tile, tile.rows, values);
    return true;
}
