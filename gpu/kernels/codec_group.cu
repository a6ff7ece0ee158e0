// Entry points that find the grouped order of the rows of segments; blocks of GROUP_THREADS.
#include "codec_group.cuh"

static_assert(GROUP_THREADS == CODEC_DIGITS, "a thread a digit");

// Least key and bits of wide keys. One block a part, of which one a segment works.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) codec_range(Grouping grouping) {
    __shared__ u64 ranges[2][GROUP_WARPS];
    u32 part;
    Segment segment = segment_of(grouping, blockIdx.x, &part);
    if (segment.column.bits != 0 || part != 0) return;
    u64 least = ~0ull, most = 0;
    for (u32 row = threadIdx.x; row < segment.rows; row += GROUP_THREADS) {
        u64 key = segment.key(row);
        least = key < least ? key : least;
        most = key > most ? key : most;
    }
    least = warp_min(least);
    most = warp_max(most);
    if (lane() == 0) ranges[0][threadIdx.x / 32] = least, ranges[1][threadIdx.x / 32] = most;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 warp = 0; warp < GROUP_WARPS; warp++) {
        least = ranges[0][warp] < least ? ranges[0][warp] : least;
        most = ranges[1][warp] > most ? ranges[1][warp] : most;
    }
    CodecRange range = {least, (u64)(64 - __clzll((i64)(most - least)))};
    ((CodecRange*)(grouping.output + segment.column.ranges))[segment.number] = range;
}

// Counts digits. One block a part.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    codec_count(Grouping grouping, u32 number) {
    __shared__ u32 counts[CODEC_DIGITS];
    u32 part;
    Segment segment = segment_of(grouping, blockIdx.x, &part);
    Pass pass = pass_of(grouping, segment, number);
    if (!pass.is_due) return;
    counts[threadIdx.x] = 0;
    Items mine;
    load_items(segment, pass, part, mine);
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++)
        if (mine.digits[index] < CODEC_DIGITS) atomicAdd(&counts[mine.digits[index]], 1u);
    __syncthreads();
    pass.counts[part * CODEC_DIGITS + threadIdx.x] = counts[threadIdx.x];
}

// Moves rows to their places by one digit: first within the part, so that rows of equal digits are
// written side by side. One block a part.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    codec_move(Grouping grouping, u32 number) {
    // Digits of each warp: counts, then places within the part. The last is for threads without
    // rows.
    __shared__ u32 counts[GROUP_WARPS][CODEC_DIGITS + 1];
    __shared__ u32 sums[2][GROUP_WARPS];
    // What is added to a place within the part.
    __shared__ u32 starts[CODEC_DIGITS];
    __shared__ u32 items[PART_ROWS];
    __shared__ u8 digits[PART_ROWS];
    u32 part;
    Segment segment = segment_of(grouping, blockIdx.x, &part);
    Pass pass = pass_of(grouping, segment, number);
    if (!pass.is_due) return;
    u32* own = counts[threadIdx.x / 32];
    Items mine;
    load_items(segment, pass, part, mine);
    for (u32 digit = lane(); digit <= CODEC_DIGITS; digit += 32) own[digit] = 0;
    u32 start = start_of_digit(segment, pass, part, sums[0]);
    u32 ranks[ITEMS];
    __syncwarp();
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++) {
        u32 digit = mine.digits[index], peers = peers_of(digit, pass.digit_bits);
        u32 below = __popc(peers & ((1u << lane()) - 1u));
        ranks[index] = own[digit] + below;
        __syncwarp();
        if (below == 0) own[digit] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();
    u32 total = 0;
    for (u32 warp = 0; warp < GROUP_WARPS; warp++) total += counts[warp][threadIdx.x];
    u32 place = sum_before(total, sums[1]);
    starts[threadIdx.x] = start - place;
    for (u32 warp = 0; warp < GROUP_WARPS; warp++) {
        u32 count = counts[warp][threadIdx.x];
        counts[warp][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++) {
        u32 digit = mine.digits[index];
        if (digit >= CODEC_DIGITS) continue;
        u32 place = own[digit] + ranks[index];
        items[place] = mine.items[index];
        digits[place] = (u8)digit;
    }
    __syncthreads();
    u32 left = segment.rows - part * PART_ROWS, rows = left < PART_ROWS ? left : PART_ROWS;
    for (u32 at = threadIdx.x; at < rows; at += GROUP_THREADS)
        pass.to[starts[digits[at]] + at] = items[at];
}

// Marks heads of wide keys, by looking keys up. One block a part.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) codec_heads(Grouping grouping) {
    u32 part;
    Segment segment = segment_of(grouping, blockIdx.x, &part);
    if (segment.column.bits != 0) return;
    u32* order = segment.order(grouping);
    u32 first = part * PART_ROWS;
    for (u32 at = first + threadIdx.x; at < first + PART_ROWS; at += GROUP_THREADS) {
        if (at >= segment.rows) break;
        u32 row = order[at] & 0xffff;
        // The mark of the one before may be there already.
        bool is_head = at % TILE_VALUES == 0
            || segment.key(row) != segment.key(order[at - 1] & 0xffff);
        order[at] = row | (is_head ? 0x10000u : 0u);
    }
}
