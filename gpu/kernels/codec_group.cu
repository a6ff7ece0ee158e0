// Entry point that finds the grouped order of the rows of segments.
#include "codec_group.cuh"

// Sorts the rows of a segment by key, stably, and marks heads. One block a segment.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) codec_group(Grouping grouping) {
    u32 low = 0, high = grouping.length;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (grouping.keys[middle].first_segment <= blockIdx.x) low = middle;
        else high = middle;
    }
    const CodecKeys column = grouping.keys[low];
    u64 first = (u64)(blockIdx.x - column.first_segment) * SEGMENT_ROWS;
    Segment segment;
    const u8* base = column.is_decoded != 0 ? grouping.output : grouping.input;
    segment.keys = base + column.keys + first * column.key_bytes;
    segment.key_bytes = column.key_bytes;
    u64 left = column.rows - first;
    segment.rows = left < SEGMENT_ROWS ? (u32)left : SEGMENT_ROWS;
    u32 share = (segment.rows + GROUP_THREADS - 1) / GROUP_THREADS * 32;
    u32 start = threadIdx.x / 32 * share;
    segment.first = start < segment.rows ? start : segment.rows;
    segment.end = start + share < segment.rows ? start + share : segment.rows;
    u16* order = (u16*)(grouping.output + column.order) + first;
    u16* work = (u16*)(grouping.output + column.work) + first;
    u64 least, most;
    key_range(segment, &least, &most);
    u32 bits = 64 - __clzll((i64)(most - least));
    u32 passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    if (passes == 0) passes = 1;
    const u16* from = nullptr;
    for (u32 pass = 0; pass < passes; pass++) {
        u16* to = (passes - pass) % 2 == 1 ? order : work;
        group_pass(segment, least, pass * DIGIT_BITS, from, to);
        from = to;
    }
    u32* heads = (u32*)(grouping.output + column.heads) + first / 32;
    u32 whole = (segment.rows + TILE_VALUES - 1) / TILE_VALUES * TILE_VALUES;
    for (u32 at = threadIdx.x; at < whole; at += GROUP_THREADS) {
        bool is_head = at < segment.rows
            && (at % TILE_VALUES == 0 || segment.key(order[at]) != segment.key(order[at - 1]));
        u32 votes = __ballot_sync(WHOLE_WARP, is_head);
        if (lane() == 0) heads[at / 32] = votes;
    }
}
