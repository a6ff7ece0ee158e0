// Finds the grouped order of the rows of segments with one launch per digit (pass). A block of
// GROUP_THREADS threads handles a part of a segment and counts digits in shared memory.
#include "codec/group.cuh"

static_assert(GROUP_THREADS == CODEC_DIGITS, "a thread a digit");
static_assert(PART_ROWS <= 4096, "counts of a part and of a segment in one word");

// Digits of the widest keys.
static const u32 DIGITS_MAX = 8;

// For columns of wide keys, finds the least key of each segment and the bits of the greatest
// distance from it. One block a part; only the block of a segment's first part does work.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) codec_range(Grouping grouping) {
    __shared__ u64 ranges[2][GROUP_WARPS];
    u32 part;
    Segment segment = warp_segment_of(grouping, blockIdx.x, &part);
    if (segment.column.bits != 0 || part != 0) return;
    u64 least = ~0ull, most = 0;
#pragma unroll 16
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

// Counts the digits of all passes. One block a part; a segment of one part needs no counts.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) codec_count(Grouping grouping) {
    __shared__ u32 counts[DIGITS_MAX * CODEC_DIGITS];
    u32 part;
    Segment segment = warp_segment_of(grouping, blockIdx.x, &part);
    if (segment.rows <= PART_ROWS) return;
    Digits digits = digits_of(grouping, segment);
    u32 all = digits.passes * CODEC_DIGITS, first = part * PART_ROWS, codes[ITEMS];
    u32 rows = segment.rows - first < PART_ROWS ? segment.rows - first : PART_ROWS;
    if (digits.are_codes) {
        // All loads are in flight at once.
#pragma unroll
        for (u32 index = 0; index < ITEMS; index++) {
            u32 row = index * GROUP_THREADS + threadIdx.x;
            codes[index] = ((const u16*)segment.keys)[first + (row < rows ? row : 0)];
        }
    }
    for (u32 at = threadIdx.x; at < all; at += GROUP_THREADS) counts[at] = 0;
    __syncthreads();
    if (digits.are_codes) {
#pragma unroll
        for (u32 index = 0; index < ITEMS; index++) {
            if (index * GROUP_THREADS + threadIdx.x >= rows) continue;
            atomicAdd(&counts[digits.of(codes[index], 0)], 1u);
            if (digits.passes > 1)
                atomicAdd(&counts[CODEC_DIGITS + digits.of(codes[index], 1)], 1u);
        }
    } else {
#pragma unroll 1
        for (u32 start = threadIdx.x; start < rows; start += GROUP_KEYS * GROUP_THREADS) {
            u32 at[GROUP_KEYS];
            u64 keys[GROUP_KEYS];
#pragma unroll
            for (u32 index = 0; index < GROUP_KEYS; index++) {
                u32 row = start + index * GROUP_THREADS;
                at[index] = first + (row < rows ? row : 0);
            }
            load_keys(segment, at, keys);
#pragma unroll 1
            for (u32 pass = 0; pass < digits.passes; pass++) {
#pragma unroll
                for (u32 index = 0; index < GROUP_KEYS; index++) {
                    if (start + index * GROUP_THREADS >= rows) continue;
                    u32 digit = digits.of(digits.window(keys[index], pass & ~1u), pass);
                    atomicAdd(&counts[pass * CODEC_DIGITS + digit], 1u);
                }
            }
        }
    }
    __syncthreads();
    u32* to = counts_of(grouping, segment, part);
    for (u32 at = threadIdx.x; at < all; at += GROUP_THREADS) to[at] = counts[at];
    published_of(grouping, segment, part)[threadIdx.x] = 0;
}

// Shared memory of a block that moves rows.
struct MoveMemory {
    // By warp and digit: first the number of rows, then the place in the part of the first one.
    u32 counts[GROUP_WARPS][CODEC_DIGITS];
    // By digit: first the number of rows of the part, then the number that is added to a place in
    // the part to give the position in the segment.
    u32 starts[CODEC_DIGITS];
    u32 sums[GROUP_WARPS];
    u32 items[PART_ROWS];
};

// Loads the rows of a thread in the order of the previous pass, with 16 bits of their keys in the
// upper half. All loads are in flight at once. In place of a row beyond the last, the last one is
// loaded.
__device__ __forceinline__ void load_items(const Segment& segment, const Digits& digits, u32 pass,
                                           u32 first, const u32* from, u32 (&items)[ITEMS]) {
    u32 last = segment.rows - 1;
    if (pass > 0) {
#pragma unroll
        for (u32 index = 0; index < ITEMS; index++) {
            u32 at = first + index * 32;
            items[index] = from[at < last ? at : last];
        }
    } else {
        const u16* codes = (const u16*)segment.keys;
#pragma unroll
        for (u32 index = 0; index < ITEMS; index++) {
            u32 at = first + index * 32;
            at = at < last ? at : last;
            items[index] = at | (digits.are_codes ? (u32)codes[at] << 16 : 0);
        }
    }
    if (digits.are_codes || pass % 2 == 1) return;
#pragma unroll
    for (u32 start = 0; start < ITEMS; start += GROUP_KEYS) {
        u32 rows[GROUP_KEYS];
        u64 keys[GROUP_KEYS];
#pragma unroll
        for (u32 index = 0; index < GROUP_KEYS; index++)
            rows[index] = items[start + index] & 0xffff;
        load_keys(segment, rows, keys);
#pragma unroll
        for (u32 index = 0; index < GROUP_KEYS; index++)
            items[start + index] = rows[index] | digits.window(keys[index], pass) << 16;
    }
}

// Computes for each row of a thread the number of preceding rows of the same digit within its warp,
// two in a word; leaves the digit counts of the warp in `own`.
__device__ __forceinline__ void warp_rank_items(const Digits& digits, u32 pass, u32 rows_left,
                                           const u32 (&items)[ITEMS], u32* own,
                                           u32 (&ranks)[ITEMS / 2]) {
    bool is_whole = rows_left >= WARP_ROWS;
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++) {
        bool has_row = index * 32 + lane() < rows_left;
        u32 digit = digits.of(items[index] >> 16, pass);
        u32 peers = warp_peers_of(digit, digits.bits, has_row, is_whole);
        u32 below = __popc(peers & lanes_below()), rank = own[digit] + below;
        if (index % 2 == 0) ranks[index / 2] = rank;
        else ranks[index / 2] |= rank << 16;
        __syncwarp();
        if (below == 0 && has_row) own[digit] += __popc(peers);
        __syncwarp();
    }
}

// Moves rows to their places by one digit. Orders them within the part first, so that rows of equal
// digits are written contiguously. One block a part.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS, GROUP_BLOCKS)
    codec_move(Grouping grouping, u32 pass) {
    __shared__ MoveMemory memory;
    u32 part;
    Segment segment = warp_segment_of(grouping, blockIdx.x, &part);
    Digits digits = digits_of(grouping, segment);
    if (pass >= digits.passes) return;
    const CodecKeys& column = segment.column;
    u8* output = grouping.output;
    u32 first = part * PART_ROWS, parts = (segment.rows + PART_ROWS - 1) / PART_ROWS;
    u32 own_first = first + threadIdx.x / 32 * WARP_ROWS, items[ITEMS], ranks[ITEMS / 2];
    u32 rows_left = segment.rows > own_first ? segment.rows - own_first : 0;
    const u32* from = (const u32*)(output + (pass % 2 == 1 ? column.work : column.other));
    load_items(segment, digits, pass, own_first + lane(), from + segment.first, items);
    u32* own = memory.counts[threadIdx.x / 32];
#pragma unroll
    for (u32 warp = 0; warp < GROUP_WARPS; warp++) memory.counts[warp][threadIdx.x] = 0;
    memory.starts[threadIdx.x] = 0;
    __syncthreads();
    u32* published = published_of(grouping, segment, part);
    if (pass > 0 && parts > 1) {
        // Publishes the counts of this part. Later parts wait for them.
#pragma unroll
        for (u32 index = 0; index < ITEMS; index++)
            if (index * 32 + lane() < rows_left)
                atomicAdd(&memory.starts[digits.of(items[index] >> 16, pass)], 1u);
        __syncthreads();
        *(volatile u32*)(published + threadIdx.x) = pass << 16 | memory.starts[threadIdx.x];
    }
    warp_rank_items(digits, pass, rows_left, items, own, ranks);
    // The numbers of rows of the thread's digit in this part, in the segment and in earlier parts.
    u32 count = 0, total = 0, before = 0;
    if (parts > 1) {
        const u32* counts = counts_of(grouping, segment, 0) + pass * CODEC_DIGITS + threadIdx.x;
#pragma unroll
        for (u32 other = 0; other < CODEC_PARTS; other++) {
            u32 from = other < parts ? other : 0;
            u32 found = counts[from * column.passes * CODEC_DIGITS];
            total += other < parts ? found : 0;
            before += other < part ? found : 0;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 warp = 0; warp < GROUP_WARPS; warp++) count += memory.counts[warp][threadIdx.x];
    // Computes the sums of `total` (at most 65,536) and `count` (at most 4,096) at once.
    u32 sums = block_sum_before(total | count << 17, memory.sums);
    u32 place = sums >> 17, start = parts > 1 ? sums & 0x1ffff : place;
    u32 added = start - place;
#pragma unroll
    for (u32 warp = 0; warp < GROUP_WARPS; warp++) {
        u32 mine = memory.counts[warp][threadIdx.x];
        memory.counts[warp][threadIdx.x] = place;
        place += mine;
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++) {
        if (index * 32 + lane() >= rows_left) continue;
        u32 rank = ranks[index / 2] >> index % 2 * 16 & 0xffff;
        memory.items[own[digits.of(items[index] >> 16, pass)] + rank] = items[index];
    }
    if (pass > 0 && parts > 1) before = look_back(published, part, pass);
    memory.starts[threadIdx.x] = added + before;
    __syncthreads();
    bool is_last = pass + 1 == digits.passes;
    u64 to = is_last ? column.order : pass % 2 == 0 ? column.work : column.other;
    u32* order = (u32*)(output + to) + segment.first;
    u16* places = segment.places(grouping);
    u32 rows = segment.rows - first < PART_ROWS ? segment.rows - first : PART_ROWS;
#pragma unroll 4
    for (u32 at = threadIdx.x; at < rows; at += GROUP_THREADS) {
        u32 item = memory.items[at];
        u32 position = memory.starts[digits.of(item >> 16, pass)] + at;
        order[position] = item;
        if (is_last) places[item & 0xffff] = (u16)position;
    }
}

// Marks heads by comparing neighbouring codes in the items or, if the keys are not codes, the keys
// themselves. One block a part.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS) codec_heads(Grouping grouping) {
    u32 part;
    Segment segment = warp_segment_of(grouping, blockIdx.x, &part);
    const u32* order = segment.order(grouping);
    u32* heads = segment.heads(grouping);
    u32 first = part * PART_ROWS;
    for (u32 at = first + threadIdx.x; at < first + PART_ROWS; at += GROUP_THREADS) {
        bool is_head = false;
        if (at < segment.rows) {
            u32 item = order[at], before = order[at > 0 ? at - 1 : 0];
            is_head = at % TILE_VALUES == 0
                || (segment.column.bits != 0
                        ? item >> 16 != before >> 16
                        : segment.key(item & 0xffff) != segment.key(before & 0xffff));
        }
        u32 word = __ballot_sync(WHOLE_WARP, is_head);
        if (lane() == 0 && at < segment.rows) heads[at / 32] = word;
    }
}
