// Stage query: parts of queries, lists of long answers, work.
#pragma once
#include "query/candidate_set.cuh"

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
