// Stage subscription: finds the events that written records cause in the regions of continuous
// queries.
//
// A region is filed in the cells that it intersects, on the level whose cells are a sixth to a
// twelfth of its width; its references to cells that lie within it are marked. The cells of all
// levels are bins of one hash table; each bin has references to its regions. There are two tables:
// a large one, and a small one with recent additions. A thread, or OBJECT_THREADS threads if bins
// are long, looks up the bins of an object's positions before and after the cycle. If both
// positions are in one cell, they are not tested against a region that contains the cell. Such a
// region is skipped if an object that stays inside it causes no events.
#pragma once
#include "geometry/space.cuh"
#include "records/index.cuh"
#include "records/record.cuh"
#include "subscription/policy.cuh"
#include "warp/warp.cuh"

// Marks the absence of a reference or of a region's number.
static const u32 NO_REFERENCE = 0xffffffffu;
// Set in the count of claimed bins when the table is too full.
static const u32 TABLE_FULL = 0x80000000u;

// A coordinate as unsigned, in the same order.
__device__ inline u32 biased(i32 value) { return (u32)value ^ 0x80000000u; }

// The cell of a level that contains a point; equals subscription/cells.rs.
__device__ inline u64 cell_at(u32 level, i32 x, i32 y) {
    u64 column = biased(x) >> level, row = biased(y) >> level;
    return (u64)level << 2 * CELL_BITS | row << CELL_BITS | column;
}

// The bin of a cell, an empty one if the table has none. Uses a keyed hash, because clients choose
// the cells of regions and the positions of objects.
__device__ inline Bin find_bin(const Bins& table, u64 cell) {
    for (u32 at = (u32)siphash(table.key, cell) & table.mask;; at = (at + 1) & table.mask) {
        int4 words = *(const int4*)(table.bins + at);
        Bin bin = *(Bin*)&words;
        if (bin.cell == cell) return bin;
        if (bin.cell == NO_CELL) return {cell, 0, 0};
    }
}

__device__ inline DeviceQuery load(const DeviceQuery* query) {
    const int4* words = (const int4*)query;
    int4 both[2] = {words[0], words[1]};
    return *(DeviceQuery*)both;
}

// Whether a point lies in a shape. A rectangle whose west is beyond its east wraps around. Not
// inlined: most regions are plain circles, whose path is short.
__device__ __noinline__ bool query_shape_holds(const Shape* of, Polygons polygons, i32 x, i32 y) {
    const Shape& shape = *of;
    if (shape.kind != SHAPE_RECTANGLE) return shape_holds(shape, polygons, x, y);
    bool east = x >= shape.x, west = x <= shape.x_max;
    return y >= shape.y && y <= shape.y_max
        && (shape.x <= shape.x_max ? east && west : east || west);
}

// Equals `Region::contains`.
__device__ inline bool region_holds(const Regions& regions, const DeviceQuery& query, i32 x,
                                    i32 y) {
    if (query.shape == QUERY_CIRCLE)
        return squared_quanta(query.x, query.y, x, y) <= query.rank_max;
    return query_shape_holds(regions.shapes + query.shape, regions.polygons, x, y);
}

// Whether a record passes a shape's filter. Filters with an age condition are not evaluated here.
__device__ __noinline__ bool query_filter_passes(const Shape* of, Records records, u32 slot,
                                                 u32 place, u32 state) {
    const Shape& shape = *of;
    if (shape.filter == 0) return true;
    if ((shape.filter & FILTER_STATE) && (state & shape.state_mask) != shape.state_value)
        return false;
    if ((shape.filter & ~FILTER_STATE) == 0) return true;
    return attributes_pass(shape, optional_of(records, slot, place));
}

__device__ inline bool region_passes(const Regions& regions, const DeviceQuery& query,
                                     const Records& records, u32 slot, u32 place, u32 state) {
    return query.shape == QUERY_CIRCLE
        || query_filter_passes(regions.shapes + query.shape, records, slot, place, state);
}

// One object of a scene, with its record before and after the cycle.
struct Subject {
    u32 slot;
    // Number (0 or 1) of the version after the cycle.
    u32 place;
    Version was;
    Version now;
};

// The event of the object in one region, 0 for none. `is_one` is true if both positions are in one
// cell, `whole` if this cell also lies within the region. `from_before` is true if the reference is
// from the bin of the position before the cycle.
__device__ inline u32 evaluate_region(const Scene& scene, const Subject& subject,
                                      const DeviceQuery& query, bool whole, bool is_one,
                                      bool from_before) {
    const Version &was = subject.was, &now = subject.now;
    bool lived = was.alive != 0, lives = now.alive != 0;
    bool was_in = lived && (whole || region_holds(scene.regions, query, was.x, was.y));
    bool is_in = lives && (whole || region_holds(scene.regions, query, now.x, now.y));
    bool before = was_in
        && region_passes(scene.regions, query, scene.records, subject.slot, 1 - subject.place,
                         was.state);
    bool after = is_in
        && region_passes(scene.regions, query, scene.records, subject.slot, subject.place,
                         now.state);
    // If both cells refer to a region, only one of them reports the event. This is the cell of the
    // position before the cycle if the object was a member, else the cell of the position after it.
    if (!is_one && before != from_before) return 0;
    if (after) return before ? EVENT_MOVE : EVENT_ENTER;
    if (!before) return 0;
    if (!lives) return event_of(now);
    return is_in ? EVENT_FILTERED : EVENT_LEFT;
}

// Calls `each(kind, number, flags)` for the regions of one bin. The threads of a group call it
// together, each for its own region; kind 0 means no event.
template <u32 GROUP, class Each>
__device__ inline void evaluate_bin(const Scene& scene, const Subject& subject,
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
                DeviceQuery query = load(scene.regions.queries + number);
                flags = query.flags;
                bool reports = (flags & QUERY_ACTIVE) != 0
                    && query.suppressed_epoch != (u32)scene.epoch;
                if (reports)
                    kind = evaluate_region(scene, subject, query, whole, is_one, from_before);
                if ((flags >> kind & 1u) == 0) kind = 0;
            }
        }
        each(kind, number, flags);
    }
}

// One of the four bins of an object on a level. Bit 0 of `lookup` selects the recent table, bit 1
// the position after the cycle. If both positions are in one cell (`is_one`), the bin after the
// cycle is empty.
__device__ inline Bin bin_of(const Scene& scene, const Subject& subject, u32 level, u32 lookup,
                             bool is_one) {
    bool is_recent = (lookup & 1) != 0, is_after = (lookup & 2) != 0;
    bool exists = (is_after ? subject.now.alive : subject.was.alive) != 0;
    i32 x = is_after ? subject.now.x : subject.was.x, y = is_after ? subject.now.y : subject.was.y;
    u32 used = is_recent ? scene.recent.levels : scene.base.levels;
    if ((used >> level & 1u) == 0 || !exists || (is_after && is_one)) return {};
    return find_bin(is_recent ? scene.recent : scene.base, cell_at(level, x, y));
}

// Calls `each(kind, number, flags)` as `evaluate_bin` for all bins of the object at `entry`;
// returns the number of references visited. Returns 0 for a repeated slot or an unwritten record.
template <u32 GROUP, class Each>
__device__ inline u32 warp_evaluate_object(const Scene& scene, u32 entry, Each each) {
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
            evaluate_bin<GROUP>(scene, subject, references + start, count, is_one,
                                (lookup & 2) == 0, each);
        }
    }
    return visited;
}

__device__ inline bool bin_is_stepped(const Scene& scene, const Bins& bins, u32 level, u64 cell) {
    if ((bins.levels >> level & 1u) == 0) return false;
    Bin bin = find_bin(bins, cell);
    for (u32 at = 0; at < bin.count; at++) {
        u32 number = bins.references[bin.start + at] >> REFERENCE_BITS;
        u32 flags = scene.regions.queries[number].flags;
        if ((flags & QUERY_ACTIVE) != 0 && (flags & QUERY_STEPPED) != 0) return true;
    }
    return false;
}

// Whether the box of an object's positions before, in and after the cycle meets a cell of a region
// that evaluates every fix. Each thread of a group tests a part of the cells; the result of the
// group is true if any thread returns true.
template <u32 GROUP>
__device__ inline bool trajectory_meets(const Scene& scene, const Trajectories& trajectories,
                                        u32 slot) {
    uint4 box = *(const uint4*)(trajectories.boxes + 4ull * slot);
    u32 west = box.x, south = box.y, east = ~box.z, north = ~box.w;
    u32 place = newest(scene.records, slot);
    const Version* both = scene.records.versions + 2ull * slot;
    bool is_written = both[place].epoch == scene.epoch;
    for (u32 step = 0; step < (is_written ? 2u : 1u); step++) {
        Version version = load(both + (step == 0 ? place : 1 - place));
        if (version.alive == 0) continue;
        u32 column = biased(version.x), row = biased(version.y);
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

// One bit for each thread of the group, set if its `yes` is true; bit 0 is the group's first
// thread.
template <u32 GROUP>
__device__ inline u32 warp_group_votes(bool yes) {
    if (GROUP == 1) return yes ? 1u : 0u;
    u32 first = lane() & ~(GROUP - 1), all = (u32)((1ull << GROUP) - 1);
    return __ballot_sync(all << first, yes) >> first & all;
}

// The object of this thread's group.
template <u32 GROUP>
__device__ inline u32 group_entry() {
    return (u32)(((u64)blockIdx.x * blockDim.x + threadIdx.x) / GROUP);
}

// Claims a bin for a cell that has none, and counts one reference. Counts begin at -1, because all
// bits of new bins are set. If the table becomes too full, sets TABLE_FULL or lets `claimed` exceed
// `most`.
__device__ inline void claim_bin(const NewBins& table, u64 cell, u32* claimed) {
    u32 home = (u32)siphash(table.key, cell);
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
    atomicOr(claimed, TABLE_FULL);
}

// Appends a reference to its bin, which exists.
__device__ inline void file_reference(const NewBins& table, u64 cell, u32 reference) {
    for (u32 at = (u32)siphash(table.key, cell) & table.mask;; at = (at + 1) & table.mask) {
        if (table.bins[at].cell != cell) continue;
        u32 place = atomicAdd(&table.bins[at].count, 1u);
        table.references[table.bins[at].start + place] = reference;
        return;
    }
}

// A reference with the new number of its region, NO_REFERENCE if it has none.
__device__ inline u32 renumbered(const u32* numbers, u32 reference) {
    if (numbers == nullptr) return reference;
    u32 number = numbers[reference >> REFERENCE_BITS];
    u32 flags = reference & ((1u << REFERENCE_BITS) - 1u);
    return number == NO_REFERENCE ? number : number << REFERENCE_BITS | flags;
}

// Returned by `place_in_piece` for an item outside the piece.
static const u32 NO_PLACE = 0xffffffffu;

// A piece is the `length` marked items from marked item `first` on. Returns the place of item
// `number` in the piece, or NO_PLACE if the item is not marked or not in the piece. `places` has
// the exclusive sums of the marks.
__device__ inline u32 place_in_piece(const u32* places, u32 number, u32 first, u32 length) {
    u32 before = places[number];
    bool is_in = places[number + 1] != before && before >= first && before - first < length;
    return is_in ? before - first : NO_PLACE;
}
