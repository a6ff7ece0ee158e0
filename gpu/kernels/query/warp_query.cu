// Queries answered by a warp each, for cycles whose queries all request ids and have short answers.
//
// Queries are not cut into candidate rows: a warp finds a query's matches, sorts their ids and
// stores them; a second kernel copies them to their final places. The slots of a medium answer are
// stored, and a warp sorts its ids while it writes them. Queries with more matches are listed, and
// a block finds and writes the answer of each. Counting blocks have WARP_QUERY_WARPS warps, with
// matches in shared memory.
#include "query/query.cuh"
#include "warp/rank.cuh"

// Counts the matches of every query. Up to WARP_QUERY_MATCHES ids are stored in `kept`, in their
// order. Queries with more are listed as by `warp_list_long`; the slots of medium answers are
// stored in `kept_slots` while its `length` suffices, and their place in `kept`, otherwise the
// query is listed as long. One warp a query, and one for the 0 after the last count.
extern "C" __global__ void __launch_bounds__(32 * WARP_QUERY_WARPS, QUERY_BLOCKS)
    warp_query_count(View view, Queries batch, u32 parts, u32 queries, u32* counts, u64* kept,
                     u32* kept_slots, u32 length, AnswerLists lists) {
    __shared__ u32 found[WARP_QUERY_WARPS][WARP_SORT_MATCHES];
    u32 query = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (query > queries) return;
    u32* slots = found[threadIdx.x / 32];
    u32 count = 0;
    u32 at = query < queries ? first_part_of(batch.parts, parts, query) : parts;
    for (; at < parts; at++) {
        Part part = batch.parts[at];
        if (part.query != query) break;
        warp_visit_part(view, batch, part, [&](const Entry& entry, bool matches) {
            u32 votes = __ballot_sync(WHOLE_WARP, matches);
            u32 place = count + __popc(votes & lanes_below());
            if (matches && place < WARP_SORT_MATCHES) slots[place] = entry.slot;
            count += __popc(votes);
        });
    }
    if (lane() == 0) counts[query] = count;
    __syncwarp();
    if (count > WARP_QUERY_MATCHES) {
        Lengths* lengths = lists.lengths;
        if (count <= WARP_SORT_MATCHES) {
            u32 first = lane() == 0 ? atomicAdd(&lengths->medium_matches, count) : 0;
            first = __shfl_sync(WHOLE_WARP, first, 0);
            if (first + count <= length) {
                for (u32 at = lane(); at < count; at += 32) kept_slots[first + at] = slots[at];
                if (lane() != 0) return;
                kept[(u64)query * WARP_QUERY_MATCHES] = first;
                lists.medium_queries[atomicAdd(&lengths->medium_queries, 1u)] = query;
                return;
            }
        }
        if (lane() != 0) return;
        bool is_longer = count > SORT_TILE;
        u32 place = atomicAdd(is_longer ? &lengths->longer_queries : &lengths->long_queries, 1u);
        lists.long_queries[is_longer ? queries - 1 - place : place] = query;
        atomicMax((u64*)&lengths->longest, (u64)count);
        return;
    }
    u64 object = lane() < count ? view.records.objects[slots[lane()]] : 0;
    // Ids are distinct, so the place of an id is the number of smaller ids.
    u32 rank = 0;
    for (u32 other = 0; other < count; other++)
        rank += __shfl_sync(WHOLE_WARP, object, other) < object ? 1u : 0u;
    if (lane() < count) kept[(u64)query * WARP_QUERY_MATCHES + rank] = object;
}

// Copies the stored ids of each query to its answer if all answers have at most `room` ids.
// WARP_QUERY_MATCHES / 2 threads a query.
extern "C" __global__ void warp_query_write(const u64* bounds, u32 queries, const u64* kept,
                                            u64* objects, u64 room) {
    const u32 threads = WARP_QUERY_MATCHES / 2;
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 query = thread / threads;
    if (query >= queries || bounds[queries] > room) return;
    u64 first = bounds[query], count = bounds[query + 1] - first;
    if (count > WARP_QUERY_MATCHES) return;
    for (u32 at = thread % threads; at < count; at += threads)
        objects[first + at] = kept[(u64)query * WARP_QUERY_MATCHES + at];
}

// Sorts the ids of the stored slots of each medium answer into the answer, if all answers have at
// most `room` ids. Blocks have WARP_QUERY_WARPS warps at most; a warp writes an answer at a time.
extern "C" __global__ void __launch_bounds__(32 * WARP_QUERY_WARPS)
    warp_query_write_medium(Records records, const u64* bounds, u32 queries, const u64* kept,
                            const u32* kept_slots, AnswerLists lists, u64* objects, u64 room) {
    __shared__ u64 ids[WARP_QUERY_WARPS][WARP_SORT_MATCHES];
    if (bounds[queries] > room) return;
    u64* mine = ids[threadIdx.x / 32];
    u32 warps = gridDim.x * blockDim.x / 32, length = lists.lengths->medium_queries;
    for (u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < length; at += warps) {
        u32 query = lists.medium_queries[at];
        u64 first = bounds[query];
        u32 count = (u32)(bounds[query + 1] - first);
        const u32* slots = kept_slots + kept[(u64)query * WARP_QUERY_MATCHES];
        for (u32 match = lane(); match < count; match += 32)
            mine[match] = records.objects[slots[match]];
        __syncwarp();
        warp_rank(mine, count, [&](u32 match, u32 rank) { objects[first + rank] = mine[match]; });
        __syncwarp();
    }
}

// Finds the matches of listed queries again and writes them in no particular order. One block a
// query, one warp a row of cells at a time.
extern "C" __global__ void warp_query_write_many(View view, Queries batch, u32 parts,
                                                 const u64* bounds, const u32* listed, u32 length,
                                                 u64* objects, u32* slots) {
    __shared__ u32 written;
    if (blockIdx.x >= length) return;
    if (threadIdx.x == 0) written = 0;
    __syncthreads();
    u32 query = listed[blockIdx.x];
    u64 first = bounds[query];
    for (u32 at = first_part_of(batch.parts, parts, query); at < parts; at++) {
        Part part = batch.parts[at];
        if (part.query != query) break;
        u32 row = row_of(view.grid, part.y_min) + threadIdx.x / 32;
        u32 last = row_of(view.grid, part.y_max);
        for (; row <= last; row += blockDim.x / 32) {
            CandidateRow mine = {at, row};
            warp_visit_row(view, batch, mine, [&](const Entry& entry, bool matches) {
                u64 place = first + warp_append(matches, &written);
                if (!matches) return;
                objects[place] = view.records.objects[entry.slot];
                slots[place] = entry.slot;
            });
        }
    }
}
