// Ranks the matches of nearest queries by distance and takes the first k of each query. The
// matches of a query include its k nearest objects; they are ordered by query, then by object.
#include "geometry/space.cuh"
#include "records/record.cuh"
#include "warp/search.cuh"

// The query whose range contains a place: the last that begins at or before it.
__device__ inline u32 query_at(const u64* bounds, u32 queries, u64 place) {
    return last_not_above(queries, place, [&](u32 at) { return bounds[at]; });
}

// Writes the rank of every match, its squared distance from its query's centre, and its place.
// One thread a match.
extern "C" __global__ void nearest_rank(const Shape* centres, const u64* bounds, u32 queries,
                                        const AnswerRecord* matches, u32 length, u64* ranks,
                                        u32* places) {
    u32 place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= length) return;
    const Shape& centre = centres[query_at(bounds, queries, place)];
    i32 x = matches[place].x, y = matches[place].y;
    ranks[place] = centre.kind == SHAPE_CIRCLE_GEOGRAPHIC
        ? (u64)__double_as_longlong(chord_squared(centre, x, y))
        : squared_quanta(centre.x, centre.y, x, y);
    places[place] = place;
}

// Writes the query of each match; `places` lists the matches in order of rank. One thread a
// match.
extern "C" __global__ void nearest_owners(const u64* bounds, u32 queries, const u32* places,
                                          u32 length, u32* owners) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) owners[at] = query_at(bounds, queries, places[at]);
}

// Writes the first matches of every query. `takes[query]` is the place of the query's first
// neighbour in the output. One thread a neighbour.
extern "C" __global__ void nearest_take(const u64* bounds, const u64* takes, u32 queries,
                                        const u32* places, const AnswerRecord* matches,
                                        const u64* ranks, u32 length, AnswerRecord* neighbours,
                                        u64* neighbour_ranks) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 query = query_at(takes, queries, at);
    u32 place = places[bounds[query] + (at - takes[query])];
    neighbours[at] = matches[place];
    neighbour_ranks[at] = ranks[place];
}
