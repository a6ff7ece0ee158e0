// A run of past fixes on the device. Every column of a tile is stored as its least value and the
// differences from it, in as many bits as the greatest difference needs, so that any value can be
// read without decoding others.
#pragma once
#include "warp/warp.cuh"

// The columns that every run has; attributes follow.
static const u32 RUN_TIME = 0;
static const u32 RUN_X = 1;
static const u32 RUN_Y = 2;
static const u32 RUN_ATTRIBUTES = 3;

__device__ __forceinline__ u32 low_mask(u32 bits) {
    return bits == 0 ? 0 : 0xffffffffu >> (32 - bits);
}

// A column of a tile.
__device__ __forceinline__ const RunColumn& column_of(const Run& run, u32 tile, u32 kind) {
    return run.columns[(u64)tile * run.kinds + kind];
}

// The value of a row. Reads two words. Two more words follow the last column, so reading the second
// word is valid.
__device__ __forceinline__ u32 value_at(const RunColumn& column, u32 row) {
    u32 bit = row * column.bits;
    const u32* words = (const u32*)column.words + bit / 32;
    return column.least + (__funnelshift_r(words[0], words[1], bit % 32) & low_mask(column.bits));
}

__device__ __forceinline__ u32 rows_of(const Run& run, u32 tile) {
    u32 left = run.rows - tile * RUN_TILE_ROWS;
    return left < RUN_TILE_ROWS ? left : RUN_TILE_ROWS;
}
