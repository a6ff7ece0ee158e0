// Stage update: brings the cells of one of the two grids up to a cycle.
//
// A cell is one run of entries with room to grow, in place of the paper's chained buckets. A grid is
// brought up every second cycle. Either the moves of both cycles are applied, clustered by
// (cell, kind): deletions make holes at known places, insertions fill them or append, the last
// entries fill what holes are left, and a cell that outgrows its room moves behind all others first.
// Or the grid is built anew from the newest positions. Every entry has one writer, so there are no
// locks, and one thread takes one operation, however crowded the cell.
#pragma once
#include "dispatch/record.cuh"
#include "primitives/space.cuh"
#include "primitives/warp.cuh"
#include "update/policy.cuh"

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
    return (u32)(expected + ROOM_DEVIATIONS * sqrtf(expected) + ROOM_MORE);
}

