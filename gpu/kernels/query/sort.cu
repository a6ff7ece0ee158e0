// Sorts the matches of each query by id. A warp sorts a short or medium list; blocks of
// SORT_THREADS threads sort longer ones.
#include "query/sort.cuh"
#include "warp/rank.cuh"

// Sorts lists of at most WARP_QUERY_MATCHES matches (bitonic). One warp a query.
extern "C" __global__ void sort_short(const u64* bounds, u32 queries, Matches from, Matches to) {
    u32 query = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (query >= queries) return;
    List list = list_of(bounds, query);
    if (list.count == 0 || list.count > WARP_QUERY_MATCHES) return;
    u32 count = (u32)list.count;
    bool mine = lane() < count;
    u64 object = mine ? from.objects[list.first + lane()] : ~0ull;
    u32 slot = mine ? from.slots[list.first + lane()] : NO_SLOT;
    for (u32 size = 2; size < 2 * count; size *= 2) {
        for (u32 step = size / 2; step > 0; step /= 2) {
            u64 other_object = __shfl_xor_sync(WHOLE_WARP, object, step);
            u32 other_slot = __shfl_xor_sync(WHOLE_WARP, slot, step);
            bool is_lower = (lane() & step) == 0, ascends = (lane() & size) == 0;
            bool takes = (other_object < object) == (is_lower == ascends)
                && other_object != object;
            if (takes) {
                object = other_object;
                slot = other_slot;
            }
        }
    }
    if (mine) {
        to.objects[list.first + lane()] = object;
        to.slots[list.first + lane()] = slot;
    }
}

// Sorts the lists of the queries with medium answers. One warp a query.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    sort_medium(const u64* bounds, AnswerLists lists, Matches from, Matches to) {
    u32 at = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (at >= lists.lengths->medium_queries) return;
    List list = list_of(bounds, lists.medium_queries[at]);
    const u64* objects = from.objects + list.first;
    warp_rank(objects, (u32)list.count, [&](u32 match, u32 rank) {
        to.objects[list.first + rank] = objects[match];
        to.slots[list.first + rank] = from.slots[list.first + match];
    });
}

// Sorts the first `length` listed queries, of at most SORT_TILE matches each. One block a query.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    sort_long(const u64* bounds, const u32* queries, u32 length, Matches from, Matches to) {
    __shared__ SortMemory memory;
    if (blockIdx.x >= length) return;
    List list = list_of(bounds, queries[blockIdx.x]);
    block_sort(memory, from, to, list.first, (u32)list.count);
}

// Sorts each tile of the lists longer than SORT_TILE. Each list has `tiles` blocks, as many as the
// longest list has tiles; the surplus blocks return.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    sort_tiles(const u64* bounds, const u32* queries, u32 tiles, u32 length, Matches from,
               Matches to) {
    __shared__ SortMemory memory;
    u32 number = blockIdx.x / tiles;
    if (number >= length) return;
    List list = list_of(bounds, queries[number]);
    u64 start = (u64)(blockIdx.x % tiles) * SORT_TILE;
    if (start >= list.count) return;
    u64 rest = list.count - start;
    block_sort(memory, from, to, list.first + start,
                     rest < SORT_TILE ? (u32)rest : SORT_TILE);
}

// Merges pairs of sorted runs of `run` matches in the lists longer than SORT_TILE; copies a run
// without a partner. Each list has `tiles` blocks, as in `sort_tiles`; a block writes one tile of
// the output.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    sort_merge(const u64* bounds, const u32* queries, u32 tiles, u32 length, u64 run, Matches from,
               Matches to) {
    __shared__ u64 objects[SORT_TILE];
    __shared__ u32 splits[2];
    u32 number = blockIdx.x / tiles;
    if (number >= length) return;
    List list = list_of(bounds, queries[number]);
    u64 start = (u64)(blockIdx.x % tiles) * SORT_TILE;
    if (start >= list.count) return;
    u64 base = start / (2 * run) * (2 * run), rest = list.count - base;
    u32 a_count = (u32)(rest < run ? rest : run);
    u32 b_count = (u32)(rest - a_count < run ? rest - a_count : run);
    const u64* a = from.objects + list.first + base;
    const u64* b = a + a_count;
    u32 before = (u32)(start - base), both = a_count + b_count;
    u32 after = before + SORT_TILE < both ? before + SORT_TILE : both;
    if (threadIdx.x < 2)
        splits[threadIdx.x] =
            merge_split(a, a_count, b, b_count, threadIdx.x == 0 ? before : after);
    __syncthreads();
    u32 a_first = splits[0], a_taken = splits[1] - a_first;
    u32 b_first = before - a_first, count = after - before, b_taken = count - a_taken;
    for (u32 at = threadIdx.x; at < count; at += SORT_THREADS)
        objects[at] = at < a_taken ? a[a_first + at] : b[b_first + at - a_taken];
    __syncthreads();
    const u32 each = SORT_TILE / SORT_THREADS;
    u32 first = threadIdx.x * each;
    if (first >= count) return;
    const u32* a_slots = from.slots + list.first + base + a_first;
    const u32* b_slots = from.slots + list.first + base + a_count + b_first;
    u64 place = list.first + start + first;
    u32 at_a = merge_split(objects, a_taken, objects + a_taken, b_taken, first);
    u32 at_b = first - at_a;
    u32 end = first + each < count ? each : count - first;
    for (u32 step = 0; step < end; step++) {
        bool takes_a = at_b >= b_taken
            || (at_a < a_taken && objects[at_a] < objects[a_taken + at_b]);
        to.objects[place + step] = takes_a ? objects[at_a] : objects[a_taken + at_b];
        to.slots[place + step] = takes_a ? a_slots[at_a] : b_slots[at_b];
        if (takes_a) at_a++;
        else at_b++;
    }
}
