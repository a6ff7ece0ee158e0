// Grouped order by a stable radix sort of each segment's rows (FORMAT.md, section 6.13), for devices
// without clusters and for encoding; order.cuh has the other algorithm.
//
// Each pass sorts by one digit. Blocks first count the digits of their parts for all passes. In a
// pass, a row moves to the place after all rows of lesser digits and all preceding rows of its
// digit; blocks publish the counts of their parts to the blocks of later parts (Adinolfi, Merrill
// 2022: "Onesweep"). An item has its row and 16 bits of its key; a code has at most 16 bits.
#pragma once
#include "codec/tile.cuh"
#include "warp/search.cuh"

static const u32 PART_ROWS = SEGMENT_ROWS / CODEC_PARTS;
static const u32 GROUP_WARPS = GROUP_THREADS / 32;
static const u32 WARP_ROWS = PART_ROWS / GROUP_WARPS;
// Rows of a thread.
static const u32 ITEMS = WARP_ROWS / 32;
static const u32 WIDE_DIGIT_BITS = 8;

// The rows of one segment.
struct Segment {
    CodecKeys column;
    u32 number;
    u32 rows;
    const u8* keys;
    u64 first;

    __device__ u32 parts() const { return (rows + PART_ROWS - 1) / PART_ROWS; }
    __device__ u64 key(u32 row) const {
        if (column.key_bytes == 2) return ((const u16*)keys)[row];
        if (column.key_bytes == 4) return ((const u32*)keys)[row];
        if (column.key_bytes == 8) return ((const u64*)keys)[row];
        return keys[row];
    }
    __device__ u32* order(const Grouping& grouping) const {
        return (u32*)(grouping.output + column.order) + first;
    }
    __device__ u16* places(const Grouping& grouping) const {
        return (u16*)(grouping.output + column.places) + first;
    }
    __device__ u32* heads(const Grouping& grouping) const {
        return (u32*)(grouping.output + column.heads) + first / 32;
    }
};

// Segment `number` of a column.
__device__ __forceinline__ Segment segment_in(const Grouping& grouping, u32 column, u32 number) {
    Segment segment;
    segment.column = grouping.keys[column];
    segment.number = number;
    segment.first = (u64)number * SEGMENT_ROWS;
    u64 left = segment.column.rows - segment.first;
    segment.rows = left < SEGMENT_ROWS ? (u32)left : SEGMENT_ROWS;
    const u8* base = segment.column.is_decoded != 0 ? grouping.output : grouping.input;
    segment.keys = base + segment.column.keys + segment.first * segment.column.key_bytes;
    return segment;
}

// The segment that contains part `part` of a launch; writes the number of the part in it to
// `number`.
__device__ __forceinline__ Segment warp_segment_of(const Grouping& grouping, u32 part,
                                                   u32* number) {
    auto first_part = [&](u32 at) { return grouping.keys[at].first_part; };
    u32 column = warp_last_not_above(grouping.length, part, first_part);
    part -= grouping.keys[column].first_part;
    *number = part % CODEC_PARTS;
    return segment_in(grouping, column, part / CODEC_PARTS);
}

// Loads the keys of a thread's rows, with all loads in flight at once.
template <class K, u32 COUNT>
__device__ __forceinline__ void load_keys(const u8* keys, const u32 (&rows)[COUNT],
                                          u64 (&loaded)[COUNT]) {
#pragma unroll
    for (u32 index = 0; index < COUNT; index++) loaded[index] = ((const K*)keys)[rows[index]];
}

template <u32 COUNT>
__device__ __forceinline__ void load_keys(const Segment& segment, const u32 (&rows)[COUNT],
                                          u64 (&loaded)[COUNT]) {
    u32 bytes = segment.column.key_bytes;
    if (bytes == 8) load_keys<u64>(segment.keys, rows, loaded);
    else if (bytes == 4) load_keys<u32>(segment.keys, rows, loaded);
    else if (bytes == 2) load_keys<u16>(segment.keys, rows, loaded);
    else load_keys<u8>(segment.keys, rows, loaded);
}

// How the keys of a segment are split into digits.
struct Digits {
    u64 least;
    u32 bits;
    u32 passes;
    bool are_codes;

    // The 16 bits of a key that items have in even pass `pass` and the pass after it.
    __device__ u32 window(u64 key, u32 pass) const {
        return (u32)((key - least) >> pass * WIDE_DIGIT_BITS) & 0xffff;
    }
    __device__ u32 of(u32 window, u32 pass) const {
        return window >> (pass & 1) * bits & ((1u << bits) - 1);
    }
};

__device__ __forceinline__ Digits digits_of(const Grouping& grouping, const Segment& segment) {
    const CodecKeys& column = segment.column;
    Digits digits = {0, WIDE_DIGIT_BITS, 0, column.bits != 0};
    if (digits.are_codes) {
        digits.passes = (column.bits + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS;
        digits.bits = (column.bits + digits.passes - 1) / digits.passes;
    } else {
        CodecRange range = ((const CodecRange*)(grouping.output + column.ranges))[segment.number];
        digits.passes = ((u32)range.bits + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS;
        if (digits.passes == 0) digits.passes = 1;
        digits.least = range.least;
    }
    return digits;
}

// The digit counts of one part for all passes, as counted before the first pass.
__device__ __forceinline__ u32* counts_of(const Grouping& grouping, const Segment& segment,
                                          u32 part) {
    const CodecKeys& column = segment.column;
    u64 number = (u64)segment.number * CODEC_PARTS + part;
    return (u32*)(grouping.output + column.counts) + number * column.passes * CODEC_DIGITS;
}

// The digit counts of one part in the running pass, with the number of the pass in the upper 16
// bits. Later parts wait until it is the number of their pass.
__device__ __forceinline__ u32* published_of(const Grouping& grouping, const Segment& segment,
                                             u32 part) {
    const CodecKeys& column = segment.column;
    u64 number = (u64)segment.number * CODEC_PARTS + part;
    return (u32*)(grouping.output + column.published) + number * CODEC_DIGITS;
}

// The lanes with the same digit as this one, without lanes that have no row. `is_whole`: all lanes
// have a row.
__device__ __forceinline__ u32 warp_peers_of(u32 digit, u32 bits, bool has_row, bool is_whole) {
    u32 peers = WHOLE_WARP;
#pragma unroll
    for (u32 bit = 0; bit + 1 < WIDE_DIGIT_BITS; bit++) {
        u32 votes = __ballot_sync(WHOLE_WARP, digit >> bit & 1);
        peers &= (digit >> bit & 1) != 0 ? votes : ~votes;
    }
    if (bits == WIDE_DIGIT_BITS) {
        u32 votes = __ballot_sync(WHOLE_WARP, digit >> (WIDE_DIGIT_BITS - 1));
        peers &= digit >> (WIDE_DIGIT_BITS - 1) != 0 ? votes : ~votes;
    }
    if (!is_whole) {
        u32 votes = __ballot_sync(WHOLE_WARP, has_row);
        peers &= has_row ? votes : ~votes;
    }
    return peers;
}

// The sum of `value` over the threads of the block before this one. Called by all threads of the
// block.
template <u32 WARPS>
__device__ __forceinline__ u32 block_sum_before(u32 value, u32 (&sums)[WARPS]) {
    u32 to = warp_sum_to(value);
    if (lane() == 31) sums[threadIdx.x / 32] = to;
    __syncthreads();
    u32 earlier = lane() < threadIdx.x / 32 ? sums[lane()] : 0;
    static_assert(WARPS <= 32, "a lane a warp");
    u32 before = to - value + __reduce_add_sync(WHOLE_WARP, earlier);
    return before;
}

// The number of rows of the thread's digit in the parts before this one. Waits until all of them
// have published their counts. `published` is `published_of` this part.
__device__ __forceinline__ u32 look_back(const u32* published, u32 part, u32 pass) {
    while (true) {
        u32 sum = 0;
        bool are_published = true;
#pragma unroll
        for (u32 back = 1; back < CODEC_PARTS; back++) {
            // Reads this part's own counts again, without adding them, if no earlier part is left.
            u32 found = *(volatile const u32*)(published - (back <= part ? back : 0) * CODEC_DIGITS
                                               + threadIdx.x);
            are_published = are_published && found >> 16 == pass;
            sum += back <= part ? found & 0xffff : 0;
        }
        if (are_published) return sum;
        __nanosleep(50);
    }
}
