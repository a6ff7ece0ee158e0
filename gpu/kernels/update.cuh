// Stage update: brings the cells of one of the two grids up to a cycle.
//
// A grid is brought up every second cycle. Either the objects that moved in the last two are taken
// out and put in, clustered by cell: deletions make holes, insertions fill them or go behind the
// last entry, what holes are left the last entries fill. Or the grid is built anew from the newest
// positions. Every entry has one writer, so nothing is locked.
#pragma once
#include "record.cuh"
#include "space.cuh"
#include "warp.cuh"

// One of the two grids.
struct Cells {
    Grid grid;
    Cell* cells;
    Entry* entries;
    // By slot: place among the entries, NO_SLOT for objects that are not in this grid.
    u32* where;
};

// The operations on one cell among all operations sorted by (cell, kind).
struct Span {
    u32 first;
    // Deletions come first.
    u32 first_insertion;
    u32 end;
    u32 reserved;
};

static const u32 NO_KEY = 0xffffffffu;
static const u32 HOLE = NO_SLOT;

// The slots that moved since the grid was brought up: in the cycle before and in this one.
struct Moved {
    const u32* before;
    const u32* now;
    const u32* stamps;
    u32 before_length;
    u32 length;
    u32 epoch;
    u32 reserved;
};

// Room for a cell: enough that a cell of chance occupancy (Poisson) seldom outgrows it.
__device__ inline u32 room_of(u32 count, float mean) {
    float expected = fmaxf((float)count, mean);
    return (u32)(expected + 8.0f * sqrtf(expected) + 8.0f);
}
