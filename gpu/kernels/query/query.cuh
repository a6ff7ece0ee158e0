// Stage query. Threads map to candidate objects, not to queries.
//
// A query's rectangles are cut into rows of cells (items), unless answers are expected to be short.
// A warp takes an item or a short query, computes prefix sums of the counts of its cells (the
// paper's bound table) and finds each lane's candidate by a search in these sums (which replaces
// the paper's mapping table). The cost of a cell is thus proportional to its number of objects.
#pragma once
#include "geometry/space.cuh"
#include "query/policy.cuh"
#include "records/index.cuh"
#include "records/record.cuh"
#include "warp/search.cuh"
#include "warp/warp.cuh"

// The number of the first part of `query`, or of the next query with a part; `length` if there is
// none. Parts are ordered by query.
__device__ inline u32 first_part_of(const Part* parts, u32 length, u32 query) {
    // In most batches every query has one part.
    if (query < length && parts[query].query == query
        && (query == 0 || parts[query - 1].query < query))
        return query;
    return partition_point(0, length, [&](u32 at) { return parts[at].query < query; });
}

// Updates the length of the longest answer and lists the queries with more than WARP_QUERY_MATCHES
// matches in no particular order: those with at most WARP_SORT_MATCHES in the list of medium
// answers, those with at most SORT_TILE, which a block sorts, from the front of the list of long
// answers, longer ones from the back. Called by all threads of a warp, each with its own query.
__device__ inline void warp_list_long(u64 found, u32 query, u32 queries,
                                      const AnswerLists& lists) {
    Lengths* lengths = lists.lengths;
    bool is_longer = found > SORT_TILE, is_long = found > WARP_SORT_MATCHES && !is_longer;
    bool is_medium = found > WARP_QUERY_MATCHES && found <= WARP_SORT_MATCHES;
    u32 matches = (u32)warp_sum(is_medium ? found : 0);
    if (matches != 0) {
        u32 place = warp_append(is_medium, &lengths->medium_queries);
        if (is_medium) lists.medium_queries[place] = query;
        if (lane() == 0) atomicAdd(&lengths->medium_matches, matches);
    }
    u32 place = warp_append(is_long, &lengths->long_queries);
    if (is_long) lists.long_queries[place] = query;
    place = warp_append(is_longer, &lengths->longer_queries);
    if (is_longer) lists.long_queries[queries - 1 - place] = query;
    u64 longest = warp_max(found);
    if (lane() == 0 && longest != 0) atomicMax((u64*)&lengths->longest, longest);
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

// Calls `each(entry, matches)` for the candidates of columns `first` to `last` of row `number`, in
// all lanes together; `matches` is false in lanes without a candidate.
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
        u32 before = warp_sum_before(cell.count);
        u32 total = __shfl_sync(WHOLE_WARP, before + cell.count, 31);
        for (u32 base = 0; base < total; base += 32) {
            u32 candidate = base + lane();
            u32 owner = warp_last_lane_not_above(before, candidate);
            u32 start = __shfl_sync(WHOLE_WARP, cell.start, owner);
            u32 lower = __shfl_sync(WHOLE_WARP, before, owner);
            Entry entry = {};
            bool matches = candidate < total;
            if (matches) {
                entry = entry_at(view, start + (candidate - lower));
                matches = tests(view, batch, part, entry);
            }
            each(entry, matches);
        }
    }
}

// As `warp_visit_columns`, for all columns of an item.
template <class Each>
__device__ inline void warp_visit(const View& view, const Queries& batch, const Item& item,
                             Each each) {
    Part part = batch.parts[item.part];
    u32 first = column_of(view.grid, part.x_min), last = column_of(view.grid, part.x_max);
    warp_visit_columns(view, batch, part, item.row, first, last, each);
}

// The number of objects in columns [first, end) of row `number`. Called by all threads of a warp.
__device__ inline u32 warp_objects_between(const View& view, u32 number, u32 first, u32 end) {
    const Cell* row = view.cells + number * view.grid.columns;
    if (first >= end) return 0;
    if (view.is_tight != 0) return row[end - 1].start + row[end - 1].count - row[first].start;
    u32 sum = 0;
    for (u32 column = first + lane(); column < end; column += 32) sum += row[column].count;
    return (u32)warp_sum(sum);
}

// The work of testing a position against a shape, in units of one rectangle test. For a polygon, it
// grows with the number of edges of the fullest slab. Called by all threads of a warp.
__device__ inline u64 warp_test_work(const Shape& shape, const Polygons& polygons) {
    u64 filter = shape.filter == 0 ? 0 : 2;
    if (shape.kind == SHAPE_RECTANGLE) return filter + 1;
    if (shape.kind == SHAPE_CIRCLE_PLANAR) return filter + 1;
    if (shape.kind == SHAPE_CIRCLE_GEOGRAPHIC) return filter + 4;
    u32 slabs = (apart(shape.y_max, shape.y) >> shape.slab_shift) + 1, most = 0;
    for (u32 slab = lane(); slab < slabs; slab += 32) {
        const u32* starts = polygons.slabs + shape.slabs_at + slab;
        most = max(most, starts[1] - starts[0]);
    }
    return filter + 2 + warp_max((u64)most);
}
