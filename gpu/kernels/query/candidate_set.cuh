// The candidate set of a query: the objects of the cells that its parts intersect. Threads map to
// candidates, not to queries, so the cost of a cell is proportional to its number of objects.
//
// A part is cut into rows of cells (candidate rows), unless answers are expected to be short. A
// warp visits a candidate row or a whole part. It takes up to 32 ranges of entries at a time,
// usually cells, computes prefix sums of their lengths (the paper's bound table), and finds the
// range of each candidate by a search in the sums. This search replaces the paper's candidate-set
// mapping table, which lists the cell and the ordinal of every candidate in memory.
#pragma once
#include "geometry/space.cuh"
#include "query/policy.cuh"
#include "records/index.cuh"
#include "records/record.cuh"
#include "warp/search.cuh"
#include "warp/warp.cuh"

// Up to 32 ranges of entries and the numbers of their candidates, in lane order. Each lane has
// `before` and `shift` of its range: the number of candidates of the ranges before it, and the
// difference of the place of its first entry to this number. Lanes without a range have the
// greatest `before`.
struct CandidateMapping {
    u32 before;
    u32 shift;
    // Number of candidates of all ranges.
    u32 total;
    // There are at most 2 * `widest` ranges.
    u32 widest;
};

// The mapping of `length` ranges, one in each of the first lanes: its first entry and its number of
// entries. Called by all threads of a warp.
__device__ __forceinline__ CandidateMapping warp_candidate_mapping(u32 length, u32 start,
                                                                   u32 count) {
    // Inclusive sums over the lanes, with no more steps than `length` needs.
    u32 sum = count;
    for (u32 step = 1; step < length; step *= 2) {
        u32 below = __shfl_up_sync(WHOLE_WARP, sum, step);
        if (lane() >= step) sum += below;
    }
    u32 before = lane() < length ? sum - count : 0xffffffffu;
    u32 widest = length > 1 ? 1u << (31 - __clz(length - 1)) : 0;
    return {before, start - before, __shfl_sync(WHOLE_WARP, sum, length - 1), widest};
}

// The place of the entry of candidate `number`; meaningless from the total on. Called by all
// threads of a warp, each with its own number.
__device__ __forceinline__ u32 warp_candidate_place(const CandidateMapping& mapping, u32 number) {
    u32 owner = warp_last_lane_not_above(mapping.before, number, mapping.widest);
    return __shfl_sync(WHOLE_WARP, mapping.shift, owner) + number;
}

__device__ inline bool filter_passes(const View& view, const Shape& shape, const Entry& entry) {
    if (shape.filter == 0) return true;
    if ((shape.filter & FILTER_STATE) && (entry.state & shape.state_mask) != shape.state_value)
        return false;
    if ((shape.filter & FILTER_OBJECT) && view.records.objects[entry.slot] <= shape.object_after)
        return false;
    if ((shape.filter & ~(FILTER_STATE | FILTER_OBJECT)) == 0) return true;
    u32 held = held_at(view.records, entry.slot, view.epoch);
    if (shape.filter & FILTER_AGE) {
        i64 time = view.records.versions[2ull * entry.slot + held].time_ms;
        if (view.clock_ms - time > shape.age_max_ms) return false;
    }
    return attributes_pass(shape, optional_of(view.records, entry.slot, held));
}

// Whether an entry matches a part.
__device__ inline bool tests(const View& view, const Queries& batch, const Part& part,
                             const Entry& entry) {
    bool matches = part.x_min <= entry.x && entry.x <= part.x_max && part.y_min <= entry.y
        && entry.y <= part.y_max;
    u32 number = part.shape & ~PART_COUNT;
    if (matches && number != 0) {
        const Shape& shape = batch.shapes[number];
        matches = shape_holds(shape, batch.polygons, entry.x, entry.y)
            && filter_passes(view, shape, entry);
    }
    return matches;
}

__device__ inline Entry entry_at(const View& view, u32 place) {
    int4 words = *(const int4*)(view.entries + place);
    return *(Entry*)&words;
}

// Calls `each(entry, matches)` for the candidates of a mapping, in all lanes together; `matches` is
// false in lanes without a candidate. A thread loads EACH candidates at a time, so that the loads
// overlap.
template <u32 EACH, class Each>
__device__ __forceinline__ void warp_visit_mapped(const View& view, const Queries& batch,
                                                  const Part& part,
                                                  const CandidateMapping& mapping, Each each) {
    for (u32 base = 0; base < mapping.total; base += 32 * EACH) {
        Entry entries[EACH];
#pragma unroll
        for (u32 at = 0; at < EACH; at++) {
            u32 number = base + 32 * at + lane(), place = warp_candidate_place(mapping, number);
            entries[at] = {};
            if (number < mapping.total) entries[at] = entry_at(view, place);
        }
#pragma unroll
        for (u32 at = 0; at < EACH; at++) {
            if (base + 32 * at >= mapping.total) break;
            bool matches = base + 32 * at + lane() < mapping.total
                && tests(view, batch, part, entries[at]);
            each(entries[at], matches);
        }
    }
}

// As `warp_visit_mapped`, for the candidates of columns `first` to `last` of row `number`.
template <class Each>
__device__ inline void warp_visit_columns(const View& view, const Queries& batch, const Part& part,
                                          u32 number, u32 first, u32 last, Each each) {
    const Cell* row = view.cells + number * view.grid.columns;
    if (view.is_tight != 0) {
        u32 end = row[last].start + row[last].count;
        for (u32 base = row[first].start; base < end; base += 32) {
            Entry entry = {};
            bool matches = base + lane() < end;
            if (matches) {
                entry = entry_at(view, base + lane());
                matches = tests(view, batch, part, entry);
            }
            each(entry, matches);
        }
        return;
    }
    for (u32 column = first; column <= last; column += 32) {
        Cell cell = {};
        if (column + lane() <= last) cell = row[column + lane()];
        u32 length = min(last - column + 1, 32u);
        CandidateMapping mapping = warp_candidate_mapping(length, cell.start, cell.count);
        warp_visit_mapped<1>(view, batch, part, mapping, each);
    }
}

// As `warp_visit_columns`, for all columns of a candidate row.
template <class Each>
__device__ inline void warp_visit_row(const View& view, const Queries& batch,
                                      const CandidateRow& row, Each each) {
    Part part = batch.parts[row.part];
    u32 first = column_of(view.grid, part.x_min), last = column_of(view.grid, part.x_max);
    warp_visit_columns(view, batch, part, row.row, first, last, each);
}

// As `warp_visit_row`, for all rows of a part. Most parts have few candidates, so the search is
// short.
template <class Each>
__device__ inline void warp_visit_part(const View& view, const Queries& batch, const Part& part,
                                       Each each) {
    u32 row = row_of(view.grid, part.y_min), rows = row_of(view.grid, part.y_max) - row + 1;
    u32 first = column_of(view.grid, part.x_min), last = column_of(view.grid, part.x_max);
    // A range is a contiguous list of entries: a cell, or a whole row if no cell has spare
    // capacity.
    bool is_tight = view.is_tight != 0;
    u32 columns = is_tight ? 1 : last - first + 1, ranges = rows * columns;
    for (u32 range = 0; range < ranges; range += 32) {
        u32 length = min(ranges - range, 32u), start = 0, count = 0;
        if (lane() < length) {
            u32 mine = range + lane(), down = is_tight ? mine : mine / columns;
            const Cell* cells = view.cells + (row + down) * view.grid.columns + first;
            Cell cell = cells[mine - down * columns];
            start = cell.start;
            count = cell.count;
            if (is_tight) {
                cell = cells[last - first];
                count = cell.start + cell.count - start;
            }
        }
        CandidateMapping mapping = warp_candidate_mapping(length, start, count);
        warp_visit_mapped<CANDIDATES_EACH>(view, batch, part, mapping, each);
    }
}
