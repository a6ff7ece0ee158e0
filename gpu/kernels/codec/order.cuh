// Grouped order by a cluster of blocks that holds all rows of a segment in shared memory (FORMAT.md,
// section 6.13).
//
// A stable radix sort as in group.cuh, in one launch. For each digit, a block orders its rows, the
// blocks exchange their counts, and every row moves to the block that holds its new place. Blocks
// of a cluster run at the same time, so they may wait for each other.
#pragma once
#include "block/cluster.cuh"
#include "codec/group.cuh"

static const u32 ORDER_ROWS = CODEC_ORDER_ROWS;
static const u32 ORDER_THREADS = CODEC_ORDER_THREADS;
static const u32 ORDER_WARPS = ORDER_THREADS / 32;
static const u32 BLOCKS_MAX = SEGMENT_ROWS / ORDER_ROWS;
// An item has its row in the lower ROW_BITS bits, and its code above them.
static const u32 ROW_BITS = 16;
static const u32 ORDER_WARP_ROWS = ORDER_ROWS / ORDER_WARPS;
// Rows of a thread.
static const u32 ORDER_ITEMS = ORDER_WARP_ROWS / 32;
static_assert(ORDER_ITEMS % 2 == 0, "two ranks in a word");

struct OrderMemory {
    u32 items[ORDER_ROWS];
    // By warp and digit: first the number of rows, then the place in the block of the first one.
    u16 counts[ORDER_WARPS][CODEC_DIGITS];
    // By digit: the number of rows of the block. Other blocks read it.
    u32 digits[CODEC_DIGITS];
    // By digit: added to a place in the block, gives the place in the segment.
    u32 added[CODEC_DIGITS];
    u32 sums[ORDER_WARPS];
};

// The work of one block of a cluster.
struct Share {
    Segment segment;
    u32 block;
    u32 blocks;
    // The first row of the block in the segment, and its number of rows.
    u32 first;
    u32 rows;
    // The number of rows from the warp's first row to the block's end; may exceed ORDER_WARP_ROWS.
    u32 warp_rows;

    // The place in the block of a thread's row `index`. A warp's rows are contiguous.
    __device__ __forceinline__ u32 place(u32 index) const {
        return threadIdx.x / 32 * ORDER_WARP_ROWS + index * 32 + lane();
    }
    __device__ __forceinline__ bool has_row(u32 index) const {
        return index * 32 + lane() < warp_rows;
    }
    // The thread's rows, in the order of `place`. In place of a row beyond the segment's last row,
    // the last row is returned.
    __device__ __forceinline__ void rows_of(u32 (&rows)[ORDER_ITEMS]) const {
        u32 last = segment.rows - 1;
#pragma unroll
        for (u32 index = 0; index < ORDER_ITEMS; index++) {
            u32 row = first + place(index);
            rows[index] = row < last ? row : last;
        }
    }
};

// The segment of cluster `number`.
__device__ __forceinline__ Share warp_share_of(const Grouping& grouping, u32 number) {
    auto first_segment = [&](u32 at) { return grouping.keys[at].first_segment; };
    u32 column = warp_last_not_above(grouping.length, number, first_segment);
    Share share;
    Segment& segment = share.segment;
    segment = segment_in(grouping, column, number - grouping.keys[column].first_segment);
    share.block = cluster_block();
    // Surplus blocks have no work, and no block waits for them.
    share.blocks = (segment.rows + ORDER_ROWS - 1) / ORDER_ROWS;
    share.first = share.block * ORDER_ROWS;
    u32 left = segment.rows > share.first ? segment.rows - share.first : 0;
    share.rows = left < ORDER_ROWS ? left : ORDER_ROWS;
    u32 own = threadIdx.x / 32 * ORDER_WARP_ROWS;
    share.warp_rows = share.rows > own ? share.rows - own : 0;
    return share;
}

// Computes for each row of a thread the number of preceding rows of the same digit in its warp, two
// in a word. `own` is initially 0 and then has the number of the warp's rows of each digit.
__device__ __forceinline__ void warp_rank_share(const Share& share, u32 shift, u32 bits,
                                           const u32 (&items)[ORDER_ITEMS], u16* own,
                                           u32 (&ranks)[ORDER_ITEMS / 2]) {
    u32 mask = (1u << bits) - 1;
    bool is_whole = share.warp_rows >= ORDER_WARP_ROWS;
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        if (index % 2 == 0 && index * 32 >= share.warp_rows) break;
        bool has_row = share.has_row(index);
        u32 digit = (items[index] >> shift) & mask;
        u32 peers = warp_peers_of(digit, bits, has_row, is_whole);
        u32 below = __popc(peers & ((1u << lane()) - 1u)), rank = own[digit] + below;
        if (index % 2 == 0) ranks[index / 2] = rank;
        else ranks[index / 2] |= rank << 16;
        __syncwarp();
        if (below == 0 && has_row) own[digit] = (u16)(rank + __popc(peers));
        __syncwarp();
    }
}

// Sorts the items of the segment by one digit, across all blocks of the cluster.
__device__ __forceinline__ void block_order_by(const Share& share, u32 shift, u32 bits,
                                         OrderMemory& memory, u32 (&items)[ORDER_ITEMS]) {
    u32 mask = (1u << bits) - 1, ranks[ORDER_ITEMS / 2];
    u16* own = memory.counts[threadIdx.x / 32];
    for (u32 at = lane(); at < CODEC_DIGITS / 2; at += 32) ((u32*)own)[at] = 0;
    __syncwarp();
    warp_rank_share(share, shift, bits, items, own, ranks);
    __syncthreads();
    bool has_digit = threadIdx.x < CODEC_DIGITS;
    u32 count = 0;
    if (has_digit) {
#pragma unroll
        for (u32 warp = 0; warp < ORDER_WARPS; warp++) count += memory.counts[warp][threadIdx.x];
        memory.digits[threadIdx.x] = count;
    }
    u32 start = block_sum_before(count, memory.sums);
    if (has_digit) {
        u32 place = start;
#pragma unroll
        for (u32 warp = 0; warp < ORDER_WARPS; warp++) {
            u32 mine = memory.counts[warp][threadIdx.x];
            memory.counts[warp][threadIdx.x] = (u16)place;
            place += mine;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        if (!share.has_row(index)) continue;
        u32 rank = ranks[index / 2] >> index % 2 * 16 & 0xffff;
        memory.items[own[(items[index] >> shift) & mask] + rank] = items[index];
    }
    __syncthreads();
    if (share.blocks == 1) return;
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++)
        items[index] = memory.items[index * ORDER_THREADS + threadIdx.x];
    // Now all blocks have published their counts and have read `items`, which is overwritten next.
    cluster_sync();
    u32 total = 0, before = 0;
    if (has_digit) {
        // All loads are in flight at once.
#pragma unroll
        for (u32 block = 0; block < BLOCKS_MAX; block++) {
            if (block >= share.blocks) continue;
            u32 found = *in_block(&memory.digits[threadIdx.x], block);
            total += found;
            before += block < share.block ? found : 0;
        }
    }
    u32 all = block_sum_before(total, memory.sums);
    if (has_digit) memory.added[threadIdx.x] = all + before - start;
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 at = index * ORDER_THREADS + threadIdx.x;
        if (at >= share.rows) continue;
        u32 position = memory.added[(items[index] >> shift) & mask] + at;
        *in_block(&memory.items[position % ORDER_ROWS], position / ORDER_ROWS) = items[index];
    }
    cluster_sync();
}

// Positions whose keys are compared together.
static const u32 COMPARED = 4;

// Loads the keys that are compared to find the heads. These are the codes in the items or, if
// IS_WIDE, the keys themselves, because items have only a part of a wide key.
template <bool IS_WIDE>
__device__ __forceinline__ void load_compared(const Segment& segment, const u32 (&items)[COMPARED],
                                           u64 (&keys)[COMPARED]) {
    if (IS_WIDE) {
        u32 rows[COMPARED];
#pragma unroll
        for (u32 index = 0; index < COMPARED; index++) rows[index] = items[index] & 0xffff;
        load_keys(segment, rows, keys);
    } else {
#pragma unroll
        for (u32 index = 0; index < COMPARED; index++) keys[index] = items[index] >> ROW_BITS;
    }
}

// Writes heads by position, and positions by row. To write positions, all blocks write the list of
// rows by position, and each block selects its own rows from this list. Writing each position
// separately would transfer 32 bytes of device memory per position.
template <bool IS_WIDE>
__device__ __forceinline__ void block_write_order(const Grouping& grouping, const Share& share,
                                            OrderMemory& memory) {
    const Segment& segment = share.segment;
    u16* rows = (u16*)segment.order(grouping);
    u32* heads = segment.heads(grouping) + share.first / 32;
#pragma unroll 1
    for (u32 start = 0; start < ORDER_ITEMS; start += COMPARED) {
        u32 items[COMPARED], items_before[COMPARED];
        u64 keys[COMPARED], keys_before[COMPARED] = {};
#pragma unroll
        for (u32 index = 0; index < COMPARED; index++) {
            u32 at = share.has_row(start + index) ? share.place(start + index) : 0;
            items[index] = memory.items[at];
            items_before[index] = memory.items[at > 0 ? at - 1 : 0];
        }
        load_compared<IS_WIDE>(segment, items, keys);
        // Other lanes take the preceding key from the lane below.
        if (lane() == 0) load_compared<IS_WIDE>(segment, items_before, keys_before);
#pragma unroll
        for (u32 index = 0; index < COMPARED; index++) {
            u32 at = share.place(start + index);
            u64 before = __shfl_up_sync(WHOLE_WARP, keys[index], 1);
            if (lane() == 0) before = keys_before[index];
            bool has_row = share.has_row(start + index);
            bool is_head = at % TILE_VALUES == 0 || keys[index] != before;
            u32 word = __ballot_sync(WHOLE_WARP, is_head && has_row);
            if (!has_row) continue;
            rows[share.first + at] = (u16)items[index];
            if (lane() == 0) heads[at / 32] = word;
        }
    }
    if (share.blocks > 1) cluster_sync();
    else __syncthreads();
    u16* mine = (u16*)memory.items;
    // The list is padded to whole tiles, so four rows can be read at once.
    u32 fours = (segment.rows + 3) / 4;
#pragma unroll 4
    for (u32 at = threadIdx.x; at < fours; at += ORDER_THREADS) {
        uint2 four = ((const uint2*)rows)[at];
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 row = ((j < 2 ? four.x : four.y) >> j % 2 * 16 & 0xffff) - share.first;
            if (row < share.rows && at * 4 + j < segment.rows) mine[row] = (u16)(at * 4 + j);
        }
    }
    __syncthreads();
    uint2* places = (uint2*)(segment.places(grouping) + share.first);
    for (u32 at = threadIdx.x; at < (share.rows + 3) / 4; at += ORDER_THREADS)
        places[at] = ((const uint2*)mine)[at];
}
