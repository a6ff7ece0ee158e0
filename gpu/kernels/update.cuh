// Stage update: brings the cells of one of the two grids up to a cycle.
//
// A grid is brought up every second cycle. Either the objects that moved in the last two are taken
// out and put in, clustered by cell: deletions make holes, insertions fill them or go behind the
// last entry, what holes are left the last entries fill; a cell that outgrows its room moves behind
// all others first. Or the grid is built anew from the newest positions. Every entry has one
// writer, so nothing is locked.
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
    // By slot: the lower bits of the last epoch of this one's parity in which it moved.
    const u32* stamps;
    u64 epoch;
    u32 before_length;
    u32 length;
};

// Takes the position of a slot that moved in this cycle into the newest positions, its `slot`
// NO_SLOT when the object is no more. Dispatch of the next cycle may be running: it writes the
// other version.
__device__ inline Entry publish(const Records& records, Entry* current, u32 slot, u64 epoch) {
    Version version = load(records.versions + 2ull * slot + held_at(records, slot, epoch));
    Entry entry = {version.x, version.y, version.alive != 0 ? slot : NO_SLOT, version.state};
    *(int4*)(current + slot) = *(int4*)&entry;
    return entry;
}

// Room for a cell: enough that a cell of chance occupancy (Poisson) seldom outgrows it.
__device__ inline u32 room_of(u32 count, float mean) {
    float expected = fmaxf((float)count, mean);
    return (u32)(expected + 4.0f * sqrtf(expected) + 4.0f);
}

// Room behind all cells, for those that outgrow theirs.
struct Spare {
    // The first entry that no cell has.
    u64* first;
    u64 end;
    // Room of a cell that is as full as the mean.
    float mean;
    u32 reserved;
};

// What came of cells that outgrew their room.
struct Outgrown {
    u32 count;
    // There was no room left for one of them: the grid must be built anew.
    u32 failed;
};
