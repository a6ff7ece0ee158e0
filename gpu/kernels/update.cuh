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

static const u32 NO_KEY = 0xffffffffu;
static const u32 HOLE = NO_SLOT;

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

