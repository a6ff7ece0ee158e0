// In which order do keyed columns stand, where codes are few enough for a counter each? FORMAT.md,
// section 6.13.
//
// Rows are put where their codes begin as they come, and each then looks which of its code's rows in
// its block are before it: rows of one code are few, or the digits of codec_order.cuh take their
// place. A block sums up counts of its share of the codes over all blocks of the cluster.
#pragma once
#include "codec_order.cuh"

static const u32 COUNTED_BITS = 13;
static const u32 COUNTED_CODES = 1u << COUNTED_BITS;
// Least bits that are counted by: two codes a thread.
static const u32 COUNTED_BITS_MIN = 10;
static_assert(2 * ORDER_THREADS == 1u << COUNTED_BITS_MIN, "two codes a thread at least");
// Rows of a code in a block at most: all of them look at each other.
static const u32 PEERS_MAX = 48;

struct CountMemory {
    // By code, 16 bits each: rows of the block, its first place in the block, and in the segment,
    // from where the codes of the same share begin.
    u32 counts[COUNTED_CODES / 2];
    u32 starts[COUNTED_CODES / 2];
    u32 bases[COUNTED_CODES / 2];
    // Rows within the block by place in the block; then rows within the segment by position.
    u16 rows[ORDER_ROWS];
    u32 heads[ORDER_ROWS / 32];
    u32 sums[ORDER_WARPS];
    // Most rows of a code in the block, and rows of all codes of the block's share.
    u32 most;
    u32 total;
    // Where the codes of each share begin in the segment.
    u32 begins[BLOCKS_MAX];
};
static_assert(sizeof(CountMemory) <= CODEC_ORDER_BYTES, "as it is launched");

__device__ __forceinline__ void sync_share(const Share& share) {
    if (share.blocks > 1) cluster_sync();
    else __syncthreads();
}

// Half `code` of words of two.
__device__ __forceinline__ u32 half_of(const u32* halves, u32 code) {
    return ((const u16*)halves)[code];
}

// Counts rows by code and puts first places beside; an item is a code, and above 16 bits how many
// rows of it came before.
__device__ __forceinline__ void count_rows(const Share& share, u32 words, CountMemory& memory,
                                           u32 (&items)[ORDER_ITEMS]) {
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        if (index * ORDER_THREADS + threadIdx.x >= share.rows) continue;
        u32 code = items[index], shift = code % 2 * 16;
        u32 before = atomicAdd(&memory.counts[code / 2], 1u << shift) >> shift & 0xffff;
        items[index] = code | before << 16;
    }
    __syncthreads();
    u32 each = words / ORDER_THREADS, first = threadIdx.x * each, sum = 0, most = 0;
    for (u32 word = first; word < first + each; word++) {
        u32 two = memory.counts[word], low = two & 0xffff, high = two >> 16;
        sum += low + high;
        most = max(most, max(low, high));
    }
    most = __reduce_max_sync(WHOLE_WARP, most);
    if (lane() == 0) atomicMax(&memory.most, most);
    u32 place = sum_before(sum, memory.sums);
    for (u32 word = first; word < first + each; word++) {
        u32 two = memory.counts[word], next = place + (two & 0xffff);
        memory.starts[word] = place | next << 16;
        place = next + (two >> 16);
    }
    __syncthreads();
}

// Replaces what of its code came before a row by what stands before it.
__device__ __forceinline__ void rank_rows(const Share& share, CountMemory& memory,
                                          u32 (&items)[ORDER_ITEMS]) {
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 at = index * ORDER_THREADS + threadIdx.x;
        if (at >= share.rows) continue;
        u32 code = items[index] & 0xffff;
        memory.rows[half_of(memory.starts, code) + (items[index] >> 16)] = (u16)at;
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 at = index * ORDER_THREADS + threadIdx.x;
        if (at >= share.rows) continue;
        u32 code = items[index] & 0xffff, count = half_of(memory.counts, code), rank = 0;
        const u16* peers = memory.rows + half_of(memory.starts, code);
        if (count > 1) {
#pragma unroll 1
            for (u32 peer = 0; peer < count; peer++) rank += peers[peer] < at ? 1 : 0;
        }
        items[index] = code | rank << 16;
    }
}

// Where the codes of this block's share begin: tells every block of the N where its own rows go, and
// in whose rows of heads they are first.
template <u32 N>
__device__ __forceinline__ void share_counts(const Share& share, u32 words, CountMemory& memory) {
    // Words of a thread, at most.
    const u32 ALL = COUNTED_CODES / 2 / ORDER_THREADS, EACH = ALL > N ? ALL / N : 1;
    u32 own = words / N, each = (own + ORDER_THREADS - 1) / ORDER_THREADS, found[EACH][N], sum = 0;
    u32 first = threadIdx.x * each;
    bool works = first < own;
    first += share.block * own;
#pragma unroll
    for (u32 word = 0; word < EACH; word++) {
        bool has_word = works && word < each;
#pragma unroll
        for (u32 block = 0; block < N; block++) {
            found[word][block] = has_word ? *in_block(&memory.counts[first + word], block) : 0;
            sum += (found[word][block] & 0xffff) + (found[word][block] >> 16);
        }
    }
    u32 place = sum_before(sum, memory.sums), firsts[EACH][2];
    if (threadIdx.x == ORDER_THREADS - 1) memory.total = place + sum;
#pragma unroll
    for (u32 word = 0; word < EACH; word++) {
        u32 low = 0, high = 0;
#pragma unroll
        for (u32 block = 0; block < N; block++) low += found[word][block] & 0xffff;
        firsts[word][0] = low > 0 ? place : NO_SLOT;
        u32 next = place + low;
#pragma unroll
        for (u32 block = 0; block < N; block++) {
            if (works && word < each)
                *in_block(&memory.bases[first + word], block) = (place & 0xffff) | next << 16;
            place += found[word][block] & 0xffff;
            next += found[word][block] >> 16;
            high += found[word][block] >> 16;
        }
        firsts[word][1] = high > 0 ? place : NO_SLOT;
        place = next;
    }
    sync_share(share);
    if (threadIdx.x < N) {
        u32 begin = 0;
        for (u32 block = 0; block < threadIdx.x; block++) begin += *in_block(&memory.total, block);
        memory.begins[threadIdx.x] = begin;
    }
    __syncthreads();
    u32 begin = memory.begins[share.block];
#pragma unroll
    for (u32 word = 0; word < EACH; word++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            if (firsts[word][half] == NO_SLOT) continue;
            u32 position = begin + firsts[word][half];
            u32* heads = in_block(&memory.heads[position % ORDER_ROWS / 32], position / ORDER_ROWS);
            atomicOr(heads, 1u << position % 32);
        }
}

// Orders by codes of `bits`, of which the items have those of the thread's rows. False if one has so
// many rows that nothing was done.
__device__ __forceinline__ bool order_by_counts(const Grouping& grouping, const Share& share,
                                                u32 bits, CountMemory& memory,
                                                u32 (&items)[ORDER_ITEMS]) {
    bits = bits > COUNTED_BITS_MIN ? bits : COUNTED_BITS_MIN;
    u32 words = 1u << bits >> 1, mask = 2 * words - 1;
    for (u32 word = threadIdx.x; word < words; word += ORDER_THREADS) memory.counts[word] = 0;
    if (threadIdx.x < ORDER_ROWS / 32) memory.heads[threadIdx.x] = 0;
    if (threadIdx.x == 0) memory.most = 0;
    __syncthreads();
    // Codes of a column that is refused may be anything.
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) items[index] &= mask;
    count_rows(share, words, memory, items);
    sync_share(share);
    u32 most = lane() < share.blocks ? *in_block(&memory.most, lane()) : 0;
    if (__reduce_max_sync(WHOLE_WARP, most) > PEERS_MAX) {
        sync_share(share);
        return false;
    }
    rank_rows(share, memory, items);
    if (share.blocks == 8) share_counts<8>(share, words, memory);
    else if (share.blocks == 4) share_counts<4>(share, words, memory);
    else if (share.blocks == 2) share_counts<2>(share, words, memory);
    else share_counts<1>(share, words, memory);
    u32 shift = bits - (31 - __clz((int)share.blocks));
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 at = index * ORDER_THREADS + threadIdx.x;
        if (at >= share.rows) continue;
        u32 code = items[index] & 0xffff;
        u32 position = memory.begins[code >> shift] + half_of(memory.bases, code)
            + (items[index] >> 16);
        *in_block(&memory.rows[position % ORDER_ROWS], position / ORDER_ROWS)
            = (u16)(share.first + at);
    }
    sync_share(share);
    // Lists are as long as whole tiles.
    u16* list = (u16*)(grouping.output + share.segment.column.list) + share.segment.first
        + share.first;
    for (u32 at = threadIdx.x * 8; at < share.rows; at += ORDER_THREADS * 8)
        *(uint4*)(list + at) = *(const uint4*)(memory.rows + at);
    u32* heads = share.segment.heads(grouping) + share.first / 32;
    u32 at = threadIdx.x;
    if (at * 32 < share.rows) heads[at] = memory.heads[at] | (at % TILE_WORDS == 0 ? 1u : 0u);
    return true;
}
