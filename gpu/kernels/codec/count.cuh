// Grouped order by counting (FORMAT.md, section 6.13). A cluster of blocks orders a segment; every
// two or four warps of a block share one set of counters, one per code, in shared memory.
//
// Warps count rows in order, so a counter gives the number of preceding rows of its code. Blocks
// exchange their sums through device memory, which is faster than reading each other's shared
// memory (19 GB/s a block, measured). From the sums, each block computes the position of the first
// row of each code, and of its own first row of each code.
// Counters are bytes if a dictionary has many codes. If a byte overflows, the sums are too small;
// this is detected, and the segment is ordered by digits instead (order.cuh).
#pragma once
#include "codec/order.cuh"
#include "codec/rank.cuh"

// Maximum bits of codes for each form of `CountMemory`. Counters of two bytes do not overflow.
static const u32 COUNTED_BITS = CODEC_COUNTED_BITS;
static const u32 COUNTED_BITS_FEW = CODEC_COUNTED_BITS - 1;
static const u32 COUNTED_BITS_LEAST = CODEC_COUNTED_BITS - 2;

// COUNT sets of counters of type COUNTER for codes of BITS bits.
template <class COUNTER, u32 BITS, u32 COUNT>
struct CountMemory {
    typedef COUNTER C;
    static const u32 CODES = 1u << BITS;
    static const u32 COUNTERS = COUNT;
    // Warps that share a set of counters, and the rows of these warps.
    static const u32 TURNS = ORDER_WARPS / COUNTERS;
    static const u32 COUNTER_ROWS = TURNS * ORDER_WARP_ROWS;
    // Counters in a word, bits of a counter, and words of a set that one thread sums up.
    static const u32 OF_WORD = sizeof(u32) / sizeof(C);
    static const u32 WIDTH = 8 * sizeof(C);
    static const u32 EACH = CODES / OF_WORD / ORDER_THREADS;
    static const u32 THREAD_CODES = EACH * OF_WORD;
    static const bool IS_IN_PLACE = sizeof(C) == sizeof(u16);

    // By set and code: the number of rows, later the number of rows of the block's preceding sets.
    u32 counters[COUNTERS][CODES / OF_WORD];
    // By code: the number of rows of the block. If IS_IN_PLACE, the memory of `starts` is used
    // instead. This is safe because each thread reads its words before it overwrites them.
    u32 totals_apart[IS_IN_PLACE ? 1 : CODES / OF_WORD];
    // By code: the position in the segment of the block's first row.
    alignas(16) u16 starts[CODES];
    u32 heads[ORDER_ROWS / 32];
    u32 sums[ORDER_WARPS];
    // Whether a counter overflowed.
    u32 is_crowded;

    __device__ __forceinline__ u32* totals() { return IS_IN_PLACE ? (u32*)starts : totals_apart; }
};

// Loads the EACH words of a thread, with all loads in flight at once.
template <u32 EACH>
__device__ __forceinline__ void load_words(const u32* from, u32 (&words)[EACH]) {
    static_assert(EACH == 2 || EACH % 4 == 0, "whole loads");
    if (EACH == 2) {
        uint2 two = *(const uint2*)from;
        words[0] = two.x, words[1] = two.y;
    } else {
#pragma unroll
        for (u32 at = 3; at < EACH; at += 4) {
            uint4 four = ((const uint4*)from)[at / 4];
            words[at - 3] = four.x, words[at - 2] = four.y, words[at - 1] = four.z;
            words[at] = four.w;
        }
    }
}
template <u32 EACH>
__device__ __forceinline__ void store_words(u32* to, const u32 (&words)[EACH]) {
    if (EACH == 2) *(uint2*)to = make_uint2(words[0], words[1]);
#pragma unroll
    for (u32 at = 3; at < EACH; at += 4)
        ((uint4*)to)[at / 4] = make_uint4(words[at - 3], words[at - 2], words[at - 1], words[at]);
}

// Counts of a thread's codes in 16 bits each, two in a word. For byte counters, a word has the
// counts of every other code, so that a mask separates them. If all 65,536 rows of a segment have
// one code, its count overflows to 0; this is harmless, because no other code has rows.
template <class C, u32 EACH>
struct CodeCounts {
    static const u32 OF_WORD = sizeof(u32) / sizeof(C);
    u32 halves[EACH * OF_WORD / 2];

    __device__ __forceinline__ void add(const u32 (&words)[EACH], bool counts) {
#pragma unroll
        for (u32 word = 0; word < EACH; word++) {
            u32 found = counts ? words[word] : 0;
            if (OF_WORD == 2) {
                halves[word] += found;
            } else {
                halves[word * OF_WORD / 2] += found & 0x00ff00ff;
                halves[word * OF_WORD / 2 + 1] += found >> 8 & 0x00ff00ff;
            }
        }
    }
    __device__ __forceinline__ u32 of(u32 code) const {
        u32 word = code / OF_WORD, at = code % OF_WORD;
        u32 half = OF_WORD == 2 ? halves[word] : halves[word * OF_WORD / 2 + at % 2];
        return (OF_WORD == 2 ? at : at / 2) == 0 ? half & 0xffff : half >> 16;
    }
    __device__ __forceinline__ u32 sum() const {
        u32 both = 0;
#pragma unroll
        for (u32 at = 0; at < EACH * OF_WORD / 2; at++)
            both += (halves[at] & 0xffff) + (halves[at] >> 16);
        return both;
    }
};

// Counts a warp's rows by code in the set of counters `own`. Stores in the upper 16 bits of each
// item how many preceding rows of its code `own` has counted. Items without a row have code
// Memory::CODES.
template <class Memory>
__device__ __forceinline__ void warp_count_rows(u32* own, u32 (&items)[ORDER_ITEMS]) {
    const u32 mask = (1ull << Memory::WIDTH) - 1;
    volatile u32* words = own;
#pragma unroll
    for (u32 first = 0; first < ORDER_ITEMS; first += COUNT_ROWS) {
        u32 codes[COUNT_ROWS], ranks[COUNT_ROWS], now[COUNT_ROWS], shared[COUNT_ROWS], sharing = 0;
#pragma unroll
        for (u32 index = 0; index < COUNT_ROWS; index++) {
            codes[index] = items[first + index];
            u32 code = codes[index] % Memory::CODES, shift = code % Memory::OF_WORD * Memory::WIDTH;
            u32* counter = own + code / Memory::OF_WORD;
            ranks[index] = atomicAdd(counter, codes[index] < Memory::CODES ? 1u << shift : 0);
            __syncwarp();
            now[index] = words[code / Memory::OF_WORD];
            __syncwarp();
        }
#pragma unroll
        for (u32 index = 0; index < COUNT_ROWS; index++) {
            u32 shift = codes[index] % Memory::OF_WORD * Memory::WIDTH;
            ranks[index] = ranks[index] >> shift & mask;
            now[index] = now[index] >> shift & mask;
            bool is_shared = now[index] != (ranks[index] + 1 & mask);
            shared[index] = __ballot_sync(WHOLE_WARP, is_shared && codes[index] < Memory::CODES);
            sharing += __popc(shared[index]);
        }
        if (sharing > COUNT_SHARED) {
            warp_compare_all(codes, 2 * Memory::CODES, shared);
#pragma unroll
            for (u32 index = 0; index < COUNT_ROWS; index++)
                ranks[index] = now[index] - __popc(shared[index] >> lane());
        } else if (sharing > 0) {
#pragma unroll
            for (u32 index = 0; index < COUNT_ROWS; index++)
                warp_settle(codes[index], now[index], shared[index], ranks[index]);
        }
#pragma unroll
        for (u32 index = 0; index < COUNT_ROWS; index++)
            items[first + index] = codes[index] | ranks[index] << 16;
    }
}

// The number of sets of counters that the block's rows need.
template <class Memory>
__device__ __forceinline__ u32 counters_of(const Share& share) {
    return (share.rows + Memory::COUNTER_ROWS - 1) / Memory::COUNTER_ROWS;
}

// Replaces each counter by the sum of its code's counters in the preceding sets. Writes the sums
// over all sets to `totals`, or to `published` if the cluster has several blocks with rows.
template <class Memory>
__device__ __forceinline__ void sum_warps(const Share& share, u32* published, Memory& memory) {
    const u32 EACH = Memory::EACH;
    u32 first = threadIdx.x * EACH, sums[EACH] = {}, counters = counters_of<Memory>(share);
#pragma unroll 4
    for (u32 counter = 0; counter < counters; counter++) {
        u32 found[EACH];
        load_words(memory.counters[counter] + first, found);
        store_words(memory.counters[counter] + first, sums);
#pragma unroll
        for (u32 word = 0; word < EACH; word++) sums[word] += found[word];
    }
    if (share.blocks == 1) store_words(memory.totals() + first, sums);
    else store_words(published + share.block * EACH * ORDER_THREADS + first, sums);
}

// Adds up the counts of all blocks. Writes the start of the block's rows of each code to `starts`,
// marks the heads at the block's positions in `heads`, and sets `is_crowded`.
template <class Memory>
__device__ __forceinline__ void block_sum_counts(const Share& share, const u32* published,
                                           Memory& memory) {
    typedef typename Memory::C C;
    // Words of a thread, and blocks whose loads are in flight together.
    const u32 EACH = Memory::EACH, TOGETHER = EACH > 4 ? 2 : 4;
    u32 first = threadIdx.x * EACH;
    CodeCounts<C, EACH> counts = {}, before = {};
    const u32* from = share.blocks > 1 ? published : memory.totals();
#pragma unroll
    for (u32 start = 0; start < BLOCKS_MAX; start += TOGETHER) {
        u32 found[TOGETHER][EACH];
#pragma unroll
        for (u32 index = 0; index < TOGETHER; index++)
            if (start + index < share.blocks)
                load_words(from + (start + index) * EACH * ORDER_THREADS + first, found[index]);
#pragma unroll
        for (u32 index = 0; index < TOGETHER; index++) {
            if (start + index >= share.blocks) continue;
            counts.add(found[index], true);
            before.add(found[index], start + index < share.block);
        }
    }
    u32 sum = counts.sum(), position = block_sum_before(sum, memory.sums);
    // An overflow subtracts 256 from a counter and adds at most 1 to the next, so the sum shows it.
    // Two-byte counters do not overflow.
    if (threadIdx.x == ORDER_THREADS - 1)
        memory.is_crowded = sizeof(C) == 1 && position + sum != share.segment.rows ? 1 : 0;
    u16* starts = memory.starts + threadIdx.x * Memory::THREAD_CODES;
#pragma unroll
    for (u32 code = 0; code < Memory::THREAD_CODES; code += 4) {
        u32 four[4];
#pragma unroll
        for (u32 index = 0; index < 4; index++) {
            u32 count = counts.of(code + index);
            four[index] = position + before.of(code + index);
            if (count > 0 && position / ORDER_ROWS == share.block)
                atomicOr(&memory.heads[position % ORDER_ROWS / 32], 1u << position % 32);
            position += count;
        }
        *(uint2*)(starts + code) = make_uint2((four[0] & 0xffff) | four[1] << 16,
                                              (four[2] & 0xffff) | four[3] << 16);
    }
}

// Zeroes the counters and the heads.
template <class Memory>
__device__ __forceinline__ void clear(const Share& share, Memory& memory) {
    u32 all = counters_of<Memory>(share) * sizeof(memory.counters[0]) / sizeof(uint4);
    for (u32 at = threadIdx.x; at < all; at += ORDER_THREADS)
        ((uint4*)memory.counters)[at] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x < ORDER_ROWS / 32) memory.heads[threadIdx.x] = 0;
}

// Replaces the codes in `items`, which are in the order of `Share::place`, by positions in the
// segment's grouped order. `memory` is cleared before. `published` has room for a word per row, and
// is used if there are several blocks. Returns false if a counter overflowed.
template <class Memory>
__device__ __forceinline__ bool block_count_codes(const Share& share, u32* published,
                                                  Memory& memory, u32 (&items)[ORDER_ITEMS]) {
    typedef typename Memory::C C;
    const u32 TURNS = Memory::TURNS;
    u32 warp = threadIdx.x / 32, *own = memory.counters[warp / TURNS];
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++)
        items[index] = share.has_row(index) ? items[index] % Memory::CODES : Memory::CODES;
#pragma unroll 1
    for (u32 turn = 0; turn < TURNS; turn++) {
        __syncthreads();
        if (warp % TURNS == turn && share.warp_rows > 0) warp_count_rows<Memory>(own, items);
    }
    __syncthreads();
    sum_warps(share, published, memory);
    if (share.blocks > 1) cluster_sync();
    else __syncthreads();
    block_sum_counts(share, published, memory);
    __syncthreads();
    if (memory.is_crowded != 0) return false;
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        if (!share.has_row(index)) continue;
        u32 code = items[index] & 0xffff;
        items[index] = memory.starts[code] + ((const C*)own)[code] + (items[index] >> 16);
    }
    return true;
}

// Writes the results of `block_count_codes`: positions by row, and heads by position.
template <class Memory>
__device__ __forceinline__ void write_counted(const Share& share, const Memory& memory,
                                              const u32 (&items)[ORDER_ITEMS], u16* places,
                                              u32* heads) {
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++)
        if (share.has_row(index)) places[share.first + share.place(index)] = (u16)items[index];
    u32 at = threadIdx.x;
    if (at * 32 < share.rows)
        heads[share.first / 32 + at] = memory.heads[at] | (at % TILE_WORDS == 0 ? 1u : 0u);
}
