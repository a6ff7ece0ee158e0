// Stage subscription: the events of written records, by the regions of continuous queries.
//
// Every region is filed in the cells that it meets, on the level whose cells are a sixth to a twelfth
// of its width; cells that lie in the region whole are marked. The cells of all levels are bins of
// one hash table, each with references to its regions. There are two tables: a large one, and a
// small one with recent additions. A thread, or OBJECT_THREADS of them where bins are long, takes an
// object through the bins of its position before and after the cycle. While both are one bin, only
// regions that it meets in part are tested; whole ones matter where moves are reported.
#pragma once
#include "dispatch/index.cuh"
#include "dispatch/record.cuh"
#include "primitives/space.cuh"
#include "subscription/policy.cuh"
#include "primitives/warp.cuh"

// Finaliser of MurmurHash3. Not keyed: cells are those of regions, whose number is limited.
__device__ inline u32 home_of_cell(u64 cell) {
    cell ^= cell >> 33;
    cell *= 0xff51afd7ed558ccdull;
    cell ^= cell >> 33;
    cell *= 0xc4ceb9fe1a85ec53ull;
    cell ^= cell >> 33;
    return (u32)cell;
}

// The cell of a level that a point lies in; the twin of cells.rs.
__device__ inline u64 cell_at(u32 level, i32 x, i32 y) {
    u64 column = ((u32)x ^ 0x80000000u) >> level, row = ((u32)y ^ 0x80000000u) >> level;
    return (u64)level << 2 * CELL_BITS | row << CELL_BITS | column;
}

__device__ inline Bin find_bin(const Bin* bins, u32 mask, u64 cell) {
    for (u32 at = home_of_cell(cell) & mask;; at = (at + 1) & mask) {
        int4 words = *(const int4*)(bins + at);
        Bin bin = *(Bin*)&words;
        if (bin.cell == cell) return bin;
        if (bin.cell == NO_CELL) return {cell, 0, 0};
    }
}

__device__ inline Standing load(const Standing* standing) {
    const int4* words = (const int4*)standing;
    int4 both[2] = {words[0], words[1]};
    return *(Standing*)both;
}

// Whether a point lies in a shape. A rectangle whose west is beyond its east wraps around. Not
// inlined: most regions are plain circles, and their path stays short.
__device__ __noinline__ bool standing_shape_holds(const Shape* of, Polygons polygons, i32 x,
                                                  i32 y) {
    const Shape& shape = *of;
    if (shape.kind != SHAPE_RECTANGLE) return shape_holds(shape, polygons, x, y);
    bool east = x >= shape.x, west = x <= shape.x_max;
    return y >= shape.y && y <= shape.y_max
        && (shape.x <= shape.x_max ? east && west : east || west);
}

// The twin of `Region::contains`.
__device__ inline bool region_holds(const Regions& regions, const Standing& standing, i32 x,
                                    i32 y) {
    if (standing.shape == STANDING_CIRCLE)
        return squared_quanta(standing.x, standing.y, x, y) <= standing.rank_max;
    return standing_shape_holds(regions.shapes + standing.shape, regions.polygons, x, y);
}

// Whether a shape's filter, which has no age, lets a record pass.
__device__ __noinline__ bool standing_filter_passes(const Shape* of, Records records, u32 slot,
                                                    u32 place, u32 state) {
    const Shape& shape = *of;
    if (shape.filter == 0) return true;
    if ((shape.filter & FILTER_STATE) && (state & shape.state_mask) != shape.state_value)
        return false;
    if ((shape.filter & ~FILTER_STATE) == 0) return true;
    return attributes_pass(shape, optional_of(records, slot, place));
}

__device__ inline bool region_passes(const Regions& regions, const Standing& standing,
                                     const Records& records, u32 slot, u32 place, u32 state) {
    return standing.shape == STANDING_CIRCLE
        || standing_filter_passes(regions.shapes + standing.shape, records, slot, place, state);
}

// One object of a scene: its record before the cycle and after it.
struct Subject {
    u32 slot;
    // Place of the version after the cycle.
    u32 place;
    Version was;
    Version now;
};

// What the object's stay in one region came to, 0 for nothing. `whole` means that it was and is in
// a cell that lies in the region.
__device__ inline u32 judge_region(const Scene& scene, const Subject& subject,
                                   const Standing& standing, bool whole, bool is_one,
                                   bool from_before) {
    const Version &was = subject.was, &now = subject.now;
    bool lived = was.alive != 0, lives = now.alive != 0;
    bool was_in = lived && (whole || region_holds(scene.regions, standing, was.x, was.y));
    bool is_in = lives && (whole || region_holds(scene.regions, standing, now.x, now.y));
    bool before = was_in
        && region_passes(scene.regions, standing, scene.records, subject.slot, 1 - subject.place,
                         was.state);
    bool after = is_in
        && region_passes(scene.regions, standing, scene.records, subject.slot, subject.place,
                         now.state);
    // A region that meets both cells is reported once: for members where the object was.
    if (!is_one && before != from_before) return 0;
    if (after) return before ? EVENT_MOVE : EVENT_ENTER;
    if (!before) return 0;
    if (!lives) return event_of(now);
    return is_in ? EVENT_FILTERED : EVENT_LEFT;
}

// Calls `each(kind, number, flags)` for the regions of one bin, all threads of a group together;
// kind 0 is nothing.
template <u32 GROUP, class Each>
__device__ inline void judge_bin(const Scene& scene, const Subject& subject,
                                 const u32* references, u32 count, bool is_one, bool from_before,
                                 Each each) {
    u32 member = threadIdx.x % GROUP;
    for (u32 base = 0; base < count; base += GROUP) {
        u32 kind = 0, number = 0, flags = 0;
        if (base + member < count) {
            u32 reference = references[base + member];
            bool whole = is_one && (reference & REFERENCE_WHOLE) != 0;
            if (!whole || (reference & REFERENCE_QUIET) == 0) {
                number = reference >> REFERENCE_BITS;
                Standing standing = load(scene.regions.standing + number);
                flags = standing.flags;
                bool reports = (flags & STANDING_ALIVE) != 0 && standing.silent != (u32)scene.epoch;
                if (reports)
                    kind = judge_region(scene, subject, standing, whole, is_one, from_before);
                if ((flags >> kind & 1u) == 0) kind = 0;
            }
        }
        each(kind, number, flags);
    }
}

// The bin of an object on a level, one of four: of both tables, before and after the cycle. Where
// it stayed in its cell, the one before is that of both.
__device__ inline Bin bin_of(const Scene& scene, const Subject& subject, u32 level, u32 lookup,
                             bool is_one) {
    bool is_recent = (lookup & 1) != 0, is_after = (lookup & 2) != 0;
    bool exists = (is_after ? subject.now.alive : subject.was.alive) != 0;
    i32 x = is_after ? subject.now.x : subject.was.x, y = is_after ? subject.now.y : subject.was.y;
    u32 used = is_recent ? scene.recent.levels : scene.base.levels;
    if ((used >> level & 1u) == 0 || !exists || (is_after && is_one)) return {};
    const Bin* bins = is_recent ? scene.recent.bins : scene.base.bins;
    u32 mask = is_recent ? scene.recent.mask : scene.base.mask;
    return find_bin(bins, mask, cell_at(level, x, y));
}

// Calls `each(kind, number, flags)` for all that the object at `entry` may have come to, all
// threads of a group together; how many references there were.
template <u32 GROUP, class Each>
__device__ inline u32 judge_object(const Scene& scene, u32 entry, Each each) {
    Subject subject;
    subject.slot = scene.slots[entry];
    if (entry > 0 && scene.slots[entry - 1] == subject.slot) return 0;
    subject.place = newest(scene.records, subject.slot);
    const Version* both = scene.records.versions + 2ull * subject.slot;
    subject.now = load(both + subject.place);
    if (subject.now.epoch != scene.epoch) return 0;
    subject.was = load(both + 1 - subject.place);
    u32 member = threadIdx.x % GROUP, visited = 0;
    for (u32 levels = scene.base.levels | scene.recent.levels; levels != 0; levels &= levels - 1) {
        u32 level = (u32)__ffs((i32)levels) - 1;
        bool is_one = subject.was.alive != 0 && subject.now.alive != 0
            && cell_at(level, subject.was.x, subject.was.y)
                == cell_at(level, subject.now.x, subject.now.y);
        Bin bin = {};
        // The first four threads of a group look up a bin each.
        if (GROUP > 1 && member < 4) bin = bin_of(scene, subject, level, member, is_one);
#pragma unroll 1
        for (u32 lookup = 0; lookup < 4; lookup++) {
            u32 start, count;
            if (GROUP > 1) {
                u32 group = ((1ull << GROUP) - 1) << (lane() & ~(GROUP - 1));
                start = __shfl_sync(group, bin.start, lookup, GROUP);
                count = __shfl_sync(group, bin.count, lookup, GROUP);
            } else {
                bin = bin_of(scene, subject, level, lookup, is_one);
                start = bin.start;
                count = bin.count;
            }
            const u32* references =
                (lookup & 1) != 0 ? scene.recent.references : scene.base.references;
            visited += count;
            judge_bin<GROUP>(scene, subject, references + start, count, is_one, (lookup & 2) == 0,
                             each);
        }
    }
    return visited;
}

__device__ inline bool bin_is_stepped(const Scene& scene, const Bins& bins, u32 level, u64 cell) {
    if ((bins.levels >> level & 1u) == 0) return false;
    Bin bin = find_bin(bins.bins, bins.mask, cell);
    for (u32 at = 0; at < bin.count; at++) {
        u32 number = bins.references[bin.start + at] >> REFERENCE_BITS;
        u32 flags = scene.regions.standing[number].flags;
        if ((flags & STANDING_ALIVE) != 0 && (flags & STANDING_STEPPED) != 0) return true;
    }
    return false;
}

// Whether an object's way through the cycle, from where it was before to where it is, may have led
// through a cell of a region that judges every fix: this thread's share of the cells.
template <u32 GROUP>
__device__ inline bool way_touches(const Scene& scene, const Trajectories& trajectories, u32 slot) {
    uint4 box = *(const uint4*)(trajectories.boxes + 4ull * slot);
    u32 west = box.x, south = box.y, east = ~box.z, north = ~box.w;
    u32 place = newest(scene.records, slot);
    const Version* both = scene.records.versions + 2ull * slot;
    bool is_written = both[place].epoch == scene.epoch;
    for (u32 step = 0; step < (is_written ? 2u : 1u); step++) {
        Version version = load(both + (step == 0 ? place : 1 - place));
        if (version.alive == 0) continue;
        u32 column = (u32)version.x ^ 0x80000000u, row = (u32)version.y ^ 0x80000000u;
        west = min(west, column);
        east = max(east, column);
        south = min(south, row);
        north = max(north, row);
    }
    if (west > east) return false;
    if (east - west > trajectories.turn) return true;
    u32 member = threadIdx.x % GROUP;
    for (u32 levels = scene.base.levels | scene.recent.levels; levels != 0; levels &= levels - 1) {
        u32 level = (u32)__ffs((i32)levels) - 1;
        u32 first = west >> level, columns = (east >> level) - first + 1;
        u32 low = south >> level;
        u64 cells = (u64)columns * ((north >> level) - low + 1);
        if (cells > TRAJECTORY_CELLS) return true;
        for (u32 at = member; at < cells; at += GROUP) {
            u64 column = first + at % columns, row = low + at / columns;
            u64 cell = (u64)level << 2 * CELL_BITS | row << CELL_BITS | column;
            if (bin_is_stepped(scene, scene.base, level, cell)
                || bin_is_stepped(scene, scene.recent, level, cell))
                return true;
        }
    }
    return false;
}

// Which of the group's threads have `yes`, from the lowest bit.
template <u32 GROUP>
__device__ inline u32 group_votes(bool yes) {
    if (GROUP == 1) return yes ? 1u : 0u;
    u32 first = lane() & ~(GROUP - 1), all = (u32)((1ull << GROUP) - 1);
    return __ballot_sync(all << first, yes) >> first & all;
}

// The object of this thread's group.
template <u32 GROUP>
__device__ inline u32 group_entry() {
    return (u32)(((u64)blockIdx.x * blockDim.x + threadIdx.x) / GROUP);
}

// The bin of a cell, claimed if it is not there yet; counts one reference more. Counts begin below
// 0, as bins are filled with ones. A table that is too full is given up: `claimed` says so.
__device__ inline void claim_bin(const NewBins& table, u64 cell, u32* claimed) {
    u32 home = home_of_cell(cell);
    for (u32 step = 0; step <= table.mask; step++) {
        u32 at = (home + step) & table.mask;
        u64* place = (u64*)&table.bins[at].cell;
        u64 seen = *(volatile u64*)place;
        if (seen == NO_CELL) {
            if (*(volatile u32*)claimed > table.most) return;
            seen = atomicCAS(place, NO_CELL, cell);
            if (seen == NO_CELL) {
                atomicAdd(claimed, 1u);
                seen = cell;
            }
        }
        if (seen == cell) {
            atomicAdd(&table.bins[at].count, 1u);
            return;
        }
    }
    atomicOr(claimed, 0x80000000u);
}

// Puts a reference behind its bin, which is there.
__device__ inline void file_reference(const NewBins& table, u64 cell, u32 reference) {
    for (u32 at = home_of_cell(cell) & table.mask;; at = (at + 1) & table.mask) {
        if (table.bins[at].cell != cell) continue;
        u32 place = atomicAdd(&table.bins[at].count, 1u);
        table.references[table.bins[at].start + place] = reference;
        return;
    }
}

// A reference under the new number of its region, ~0 when it has none.
__device__ inline u32 renumbered(const u32* numbers, u32 reference) {
    if (numbers == nullptr) return reference;
    u32 number = numbers[reference >> REFERENCE_BITS];
    u32 flags = reference & ((1u << REFERENCE_BITS) - 1u);
    return number == 0xffffffffu ? number : number << REFERENCE_BITS | flags;
}

// Not in the piece.
static const u32 NO_PLACE = 0xffffffffu;

// The place of what is marked within a piece of `length` that are, from the `first` on; `places` are
// the sums of the marks.
__device__ inline u32 place_in_piece(const u32* places, u32 number, u32 first, u32 length) {
    u32 before = places[number];
    bool is_in = places[number + 1] != before && before >= first && before - first < length;
    return is_in ? before - first : NO_PLACE;
}
