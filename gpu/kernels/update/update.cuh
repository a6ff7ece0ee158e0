// Stage update: updates the cells of one of the two grids to a cycle.
//
// A cell is one contiguous run of entries with spare capacity, in place of the paper's chained
// buckets. A grid is updated every second cycle: either the moves of both cycles are applied, or
// the grid is rebuilt from the newest positions. Moves are sorted by (cell, kind). Deletions leave
// holes at recorded places, insertions fill the holes or append, and the last entries fill the
// remaining holes. A cell that outgrows its capacity is first moved after all other cells. Every
// entry has one writer, so there are no locks.
#pragma once
#include "geometry/space.cuh"
#include "records/record.cuh"
#include "update/policy.cuh"
#include "warp/warp.cuh"

static const u32 NO_KEY = 0xffffffffu;
static const u32 HOLE = NO_SLOT;

// Copies the position of a slot that moved in this cycle to `current` and returns the entry, whose
// `slot` is NO_SLOT if the object ended. Dispatch of the next cycle may be running; it writes the
// other version.
__device__ inline Entry publish(const Records& records, Entry* current, u32 slot, u64 epoch) {
    Version version = load(records.versions + 2ull * slot + held_at(records, slot, epoch));
    Entry entry = {version.x, version.y, version.alive != 0 ? slot : NO_SLOT, version.state};
    *(int4*)(current + slot) = *(int4*)&entry;
    return entry;
}

// Capacity of a cell with `count` entries. If the cells are occupied at random (Poisson), few of
// them outgrow it.
__device__ inline u32 capacity_of(u32 count, float mean) {
    float expected = fmaxf((float)count, mean);
    return (u32)(expected + CAPACITY_DEVIATIONS * sqrtf(expected) + CAPACITY_EXTRA);
}

