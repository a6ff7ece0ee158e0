// In which order do keyed columns stand? FORMAT.md, section 6.13.
//
// A stable radix sort of each segment's rows, a digit a pass: blocks count the digits of their parts,
// then move their rows to where lesser digits, earlier parts and earlier warps leave off. Codes of a
// dictionary travel with their rows; wide keys are looked up.
#pragma once
#include "codec_tile.cuh"

// What all key columns of a launch share.
struct Grouping {
    // Where undecoded keys are, and where decoded ones are.
    const u8* input;
    u8* output;
    const CodecKeys* keys;
    u32 length;
    u32 reserved;
};

static const u32 PART_ROWS = SEGMENT_ROWS / CODEC_PARTS;
static const u32 GROUP_THREADS = 256;
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

    __device__ u64 key(u32 row) const {
        if (column.key_bytes == 2) return ((const u16*)keys)[row];
        if (column.key_bytes == 4) return ((const u32*)keys)[row];
        if (column.key_bytes == 8) return ((const u64*)keys)[row];
        return keys[row];
    }
    __device__ u32* order(const Grouping& grouping) const {
        return (u32*)(grouping.output + column.order) + first;
    }
};

// The segment that has part `part` of all; gives which of its parts it is.
__device__ __forceinline__ Segment segment_of(const Grouping& grouping, u32 part, u32* number) {
    u32 low = 0, length = grouping.length;
    while (length > 1) {
        u32 step = (length + 31) / 32, probe = lane() * step;
        bool is_at_or_before = probe < length && grouping.keys[low + probe].first_part <= part;
        u32 found = 31 - __clz(__ballot_sync(WHOLE_WARP, is_at_or_before));
        low += found * step;
        length = length - found * step < step ? length - found * step : step;
    }
    Segment segment;
    segment.column = grouping.keys[low];
    part -= segment.column.first_part;
    *number = part % CODEC_PARTS;
    segment.number = part / CODEC_PARTS;
    segment.first = (u64)segment.number * SEGMENT_ROWS;
    u64 left = segment.column.rows - segment.first;
    segment.rows = left < SEGMENT_ROWS ? (u32)left : SEGMENT_ROWS;
    const u8* base = segment.column.is_decoded != 0 ? grouping.output : grouping.input;
    segment.keys = base + segment.column.keys + segment.first * segment.column.key_bytes;
    return segment;
}

// One pass over one segment.
struct Pass {
    u64 least;
    u32 shift;
    u32 digit_bits;
    bool is_due;
    bool is_first;
    const u32* from;
    u32* to;
    u32* counts;
};

__device__ __forceinline__ Pass pass_of(const Grouping& grouping, const Segment& segment,
                                        u32 number) {
    const CodecKeys& column = segment.column;
    u8* output = grouping.output;
    Pass pass;
    u32 passes;
    if (column.bits != 0) {
        passes = (column.bits + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS;
        pass.digit_bits = (column.bits + passes - 1) / passes;
        pass.least = 0;
    } else {
        CodecRange range = ((const CodecRange*)(output + column.ranges))[segment.number];
        passes = ((u32)range.bits + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS;
        if (passes == 0) passes = 1;
        pass.digit_bits = WIDE_DIGIT_BITS;
        pass.least = range.least;
    }
    pass.shift = number * pass.digit_bits;
    pass.is_due = number < passes;
    pass.is_first = number == 0;
    u64 from = number % 2 == 1 ? column.work : column.other;
    u64 to = number + 1 == passes ? column.order : number % 2 == 0 ? column.work : column.other;
    pass.from = (const u32*)(output + from) + segment.first;
    pass.to = (u32*)(output + to) + segment.first;
    pass.counts = (u32*)(output + column.counts)
        + (u64)segment.number * CODEC_PARTS * CODEC_DIGITS;
    return pass;
}

// A thread's rows of its block's part, and their digits; CODEC_DIGITS where there is none.
struct Items {
    u32 items[ITEMS];
    u32 digits[ITEMS];
};

__device__ __forceinline__ void load_items(const Segment& segment, const Pass& pass, u32 part,
                                           Items& mine) {
    u32 first = part * PART_ROWS + threadIdx.x / 32 * WARP_ROWS + lane();
    u32 mask = (1u << pass.digit_bits) - 1;
    bool has_codes = segment.column.bits != 0;
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++) {
        u32 at = first + index * 32;
        u32 item = at;
        if (at < segment.rows) {
            if (!pass.is_first) item = pass.from[at];
            else if (has_codes) item |= (u32)((const u16*)segment.keys)[at] << 16;
        }
        mine.items[index] = item;
    }
#pragma unroll
    for (u32 index = 0; index < ITEMS; index++) {
        u32 item = mine.items[index], digit = CODEC_DIGITS;
        if (first + index * 32 < segment.rows) {
            u64 key = has_codes ? item >> 16 : segment.key(item & 0xffff) - pass.least;
            digit = (u32)(key >> pass.shift) & mask;
        }
        mine.digits[index] = digit;
    }
}

// The lanes whose digit is the same.
__device__ __forceinline__ u32 peers_of(u32 digit, u32 bits) {
    u32 peers = WHOLE_WARP;
    // One bit more: lanes without a row are no peers of others.
    for (u32 bit = 0; bit < bits; bit++) {
        u32 votes = __ballot_sync(WHOLE_WARP, digit >> bit & 1);
        peers &= (digit >> bit & 1) != 0 ? votes : ~votes;
    }
    u32 votes = __ballot_sync(WHOLE_WARP, digit < CODEC_DIGITS);
    return peers & (digit < CODEC_DIGITS ? votes : ~votes);
}

// The sum over the threads before this one. All threads of the block call it.
__device__ __forceinline__ u32 sum_before(u32 value, u32 (&sums)[GROUP_WARPS]) {
    u32 to = warp_sum_to(value);
    if (lane() == 31) sums[threadIdx.x / 32] = to;
    __syncthreads();
    u32 before = to - value;
    for (u32 warp = 0; warp < threadIdx.x / 32; warp++) before += sums[warp];
    return before;
}

// Where the rows of each digit of this part begin: behind all lesser digits of the segment and
// the same digit of earlier parts. Every thread has one digit.
__device__ __forceinline__ u32 start_of_digit(const Segment& segment, const Pass& pass, u32 part,
                                              u32 (&sums)[GROUP_WARPS]) {
    u32 parts = (segment.rows + PART_ROWS - 1) / PART_ROWS, total = 0, before = 0;
    for (u32 other = 0; other < parts; other++) {
        u32 count = pass.counts[other * CODEC_DIGITS + threadIdx.x];
        total += count;
        if (other < part) before += count;
    }
    return sum_before(total, sums) + before;
}
