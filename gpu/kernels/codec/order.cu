// Finds the grouped order of the rows of segments. A cluster of blocks holds the rows of a segment
// in shared memory and orders them by codes. If the keys are not codes, the code of a row is the
// distance of its key from the least key of the segment.
#include "codec/count.cuh"

// The conversion of keys to codes: the least key, which is subtracted, and the bits of a code.
struct Codes {
    u64 least;
    u32 bits;
};

// Least and greatest keys of each warp and of the block. Other blocks may read them while this one
// continues, so they lie after its working memory.
struct RangeMemory {
    u64 least[ORDER_WARPS];
    u64 most[ORDER_WARPS];
    u64 ends[2];
};
static const u32 RANGE_AT = CODEC_ORDER_BYTES - sizeof(RangeMemory);
static_assert(sizeof(OrderMemory) <= RANGE_AT, "as it is launched");

// Loads the keys of GROUP_KEYS of a thread's rows, from row index `start` on, with all loads in
// flight at once.
__device__ __forceinline__ void load_from(const Segment& segment, const u32 (&rows)[ORDER_ITEMS],
                                          u32 start, u64 (&keys)[GROUP_KEYS]) {
    u32 some[GROUP_KEYS];
#pragma unroll
    for (u32 index = 0; index < GROUP_KEYS; index++) some[index] = rows[start + index];
    load_keys(segment, some, keys);
}

// Loads the codes of a thread's rows, shifted right by `shift`. If IS_WIDE is false, the keys are
// codes of two bytes, and `shift` is ignored.
template <bool IS_WIDE>
__device__ __forceinline__ void load_codes(const Share& share, const Codes& codes, u32 shift,
                                           const u32 (&rows)[ORDER_ITEMS],
                                           u32 (&items)[ORDER_ITEMS]) {
    if (IS_WIDE) {
#pragma unroll
        for (u32 start = 0; start < ORDER_ITEMS; start += GROUP_KEYS) {
            u64 keys[GROUP_KEYS];
            load_from(share.segment, rows, start, keys);
#pragma unroll
            for (u32 index = 0; index < GROUP_KEYS; index++)
                items[start + index] = (u32)(keys[index] - codes.least >> shift);
        }
    } else {
#pragma unroll
        for (u32 index = 0; index < ORDER_ITEMS; index++)
            items[index] = ((const u16*)share.segment.keys)[rows[index]];
    }
}

// Orders by codes with the counters of Memory; returns false if a counter overflowed.
template <bool IS_WIDE, class Memory>
__device__ __forceinline__ bool block_order_counted(const Grouping& grouping, const Share& share,
                                              const Codes& codes, void* shared) {
    static_assert(sizeof(Memory) <= RANGE_AT, "as it is launched");
    Memory& memory = *(Memory*)shared;
    const Segment& segment = share.segment;
    u32 rows[ORDER_ITEMS], items[ORDER_ITEMS];
    clear(share, memory);
    share.rows_of(rows);
    wait_for_previous();
    load_codes<IS_WIDE>(share, codes, 0, rows, items);
    if (!block_count_codes(share, segment.order(grouping), memory, items)) return false;
    write_counted(share, memory, items, segment.places(grouping), segment.heads(grouping));
    return true;
}

// Orders by codes with a radix sort.
template <bool IS_WIDE>
__device__ __forceinline__ void block_order_by_digits(const Grouping& grouping, const Share& share,
                                                const Codes& codes, OrderMemory& memory) {
    u32 passes = (codes.bits + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS;
    u32 bits = (codes.bits + passes - 1) / passes, rows[ORDER_ITEMS], items[ORDER_ITEMS];
    share.rows_of(rows);
    wait_for_previous();
    for (u32 pass = 0; pass < passes; pass++) {
        if (pass > 0) {
#pragma unroll
            for (u32 index = 0; index < ORDER_ITEMS; index++) {
                items[index] = memory.items[share.place(index)];
                // An item without a row is undefined; row 0 can be loaded for it.
                rows[index] = share.has_row(index) ? items[index] & 0xffff : 0;
            }
        }
        // An item has the digits of two passes, so new ones are loaded in every second pass.
        if (pass == 0 || (IS_WIDE && pass % 2 == 0)) {
            load_codes<IS_WIDE>(share, codes, pass * bits, rows, items);
#pragma unroll
            for (u32 index = 0; index < ORDER_ITEMS; index++)
                items[index] = items[index] << ROW_BITS | rows[index];
        }
        block_order_by(share, ROW_BITS + pass % 2 * bits, bits, memory, items);
    }
    if (passes > 2) block_write_order<true>(grouping, share, memory);
    else block_write_order<false>(grouping, share, memory);
}

// As `block_order_by_digits<true>`, but not inlined, which leaves more registers to the caller
// (measured on an H200). For codes of two bytes, a call is slower.
__device__ __noinline__ void block_order_wide_by_digits(const Grouping& grouping,
                                                        const Share& share, const Codes& codes,
                                                        OrderMemory& memory) {
    block_order_by_digits<true>(grouping, share, codes, memory);
}

// Orders by counters if codes are short enough and no counter overflows, else by digits.
template <bool IS_WIDE>
__device__ __forceinline__ void block_order_rows(const Grouping& grouping, const Share& share,
                                           const Codes& codes, void* shared) {
    typedef CountMemory<u16, COUNTED_BITS_LEAST, COUNTERS_MANY> Least;
    typedef CountMemory<u16, COUNTED_BITS_FEW, COUNTERS_MANY> Few;
    typedef CountMemory<u8, COUNTED_BITS, COUNTERS_MANY> Bytes;
    typedef CountMemory<u16, COUNTED_BITS, COUNTERS_WIDE> Wide;
    bool is_ordered = false;
    if (codes.bits <= COUNTED_BITS_LEAST)
        is_ordered = block_order_counted<IS_WIDE, Least>(grouping, share, codes, shared);
    else if (codes.bits <= COUNTED_BITS_FEW)
        is_ordered = block_order_counted<IS_WIDE, Few>(grouping, share, codes, shared);
    // Two-byte counters, because wide keys may have gaps, and then many rows have the same code.
    else if (codes.bits <= COUNTED_BITS && IS_WIDE)
        is_ordered = block_order_counted<IS_WIDE, Wide>(grouping, share, codes, shared);
    else if (codes.bits <= COUNTED_BITS)
        is_ordered = block_order_counted<IS_WIDE, Bytes>(grouping, share, codes, shared);
    if (is_ordered) return;
    // All threads have read the result before its memory is reused.
    __syncthreads();
    OrderMemory& memory = *(OrderMemory*)shared;
    if (IS_WIDE) block_order_wide_by_digits(grouping, share, codes, memory);
    else block_order_by_digits<false>(grouping, share, codes, memory);
}

// Finds the least key and the bits of a code of a segment, over all blocks.
__device__ __forceinline__ Codes block_codes_of(const Share& share, RangeMemory& memory) {
    u64 least = ~0ull, most = 0;
    u32 rows[ORDER_ITEMS], warp = threadIdx.x / 32;
    share.rows_of(rows);
#pragma unroll
    for (u32 start = 0; start < ORDER_ITEMS; start += GROUP_KEYS) {
        u64 keys[GROUP_KEYS];
        load_from(share.segment, rows, start, keys);
#pragma unroll
        for (u32 index = 0; index < GROUP_KEYS; index++) {
            least = keys[index] < least ? keys[index] : least;
            most = keys[index] > most ? keys[index] : most;
        }
    }
    least = warp_min(least);
    most = warp_max(most);
    if (lane() == 0) memory.least[warp] = least, memory.most[warp] = most;
    __syncthreads();
    if (warp == 0) {
        least = warp_min(lane() < ORDER_WARPS ? memory.least[lane()] : ~0ull);
        most = warp_max(lane() < ORDER_WARPS ? memory.most[lane()] : 0);
        if (lane() == 0) memory.ends[0] = least, memory.ends[1] = most;
    }
    if (share.blocks > 1) cluster_sync();
    else __syncthreads();
    u32 block = lane() < share.blocks ? lane() : 0;
    const u64* ends = share.blocks > 1 ? in_block(memory.ends, block) : memory.ends;
    Codes codes;
    codes.least = warp_min(ends[0]);
    codes.bits = (u32)(64 - __clzll((i64)(warp_max(ends[1]) - codes.least)));
    return codes;
}

extern "C" __global__ void __launch_bounds__(ORDER_THREADS, ORDER_BLOCKS)
    codec_order_codes(Grouping grouping) {
    extern __shared__ uint4 shared[];
    let_next_begin();
    Share share = warp_share_of(grouping, blockIdx.x / cluster_blocks());
    if (share.block >= share.blocks) return;
    Codes codes = {0, share.segment.column.bits};
    block_order_rows<false>(grouping, share, codes, shared);
}

// As `codec_order_codes`, also for key columns that are not codes.
extern "C" __global__ void __launch_bounds__(ORDER_THREADS, ORDER_BLOCKS)
    codec_order_keys(Grouping grouping) {
    extern __shared__ uint4 shared[];
    RangeMemory& memory = *(RangeMemory*)((u8*)shared + RANGE_AT);
    let_next_begin();
    Share share = warp_share_of(grouping, blockIdx.x / cluster_blocks());
    if (share.block >= share.blocks) return;
    Codes codes = {0, share.segment.column.bits};
    wait_for_previous();
    if (codes.bits == 0) codes = block_codes_of(share, memory);
    block_order_rows<true>(grouping, share, codes, shared);
}
