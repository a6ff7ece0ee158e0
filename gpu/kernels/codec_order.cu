// Entry point that finds the grouped order of the rows of segments by codes, a cluster of blocks each.
#include "codec_count.cuh"

// Blocks that must fit a multiprocessor.
static const u32 ORDER_BLOCKS = 2;

// Codes of the thread's rows in the order of `Share::place`. Where there are no rows, the segment's
// last is loaded.
__device__ __forceinline__ void load_codes(const Share& share, u32 (&items)[ORDER_ITEMS]) {
    const u16* codes = (const u16*)share.segment.keys;
    u32 last = share.segment.rows - 1;
    wait_for_previous();
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 row = share.first + share.place(index);
        items[index] = codes[row < last ? row : last];
    }
}

// Orders by codes of BITS at most; false if there are too many rows of one.
template <class C, u32 BITS>
__device__ __forceinline__ bool order_counted(const Grouping& grouping, const Share& share,
                                              void* shared) {
    CountMemory<C, BITS>& memory = *(CountMemory<C, BITS>*)shared;
    const Segment& segment = share.segment;
    u32 items[ORDER_ITEMS];
    clear(share, memory);
    load_codes(share, items);
    if (!count_codes(share, segment.order(grouping), memory, items)) return false;
    write_counted(share, memory, items, segment.places(grouping), segment.heads(grouping));
    return true;
}

// Orders by codes, digit by digit.
__device__ __forceinline__ void order_by_digits(const Grouping& grouping, const Share& share,
                                                OrderMemory& memory) {
    u32 items[ORDER_ITEMS], all = share.segment.column.bits, last = share.segment.rows - 1;
    u32 passes = (all + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS, bits = (all + passes - 1) / passes;
    load_codes(share, items);
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 row = share.first + share.place(index);
        items[index] = items[index] << ROW_BITS | (row < last ? row : last);
    }
    for (u32 pass = 0; pass < passes; pass++) {
        if (pass > 0) {
#pragma unroll
            for (u32 index = 0; index < ORDER_ITEMS; index++)
                items[index] = memory.items[share.place(index)];
        }
        order_by(share, ROW_BITS + pass * bits, bits, memory, items);
    }
    write_order(grouping, share, memory);
}

extern "C" __global__ void __launch_bounds__(ORDER_THREADS, ORDER_BLOCKS)
    codec_order_codes(Grouping grouping) {
    extern __shared__ uint4 shared[];
    let_next_begin();
    Share share = share_of(grouping, blockIdx.x / cluster_blocks());
    if (share.block >= share.blocks) return;
    u32 bits = share.segment.column.bits;
    bool is_ordered = false;
    if (bits <= COUNTED_BITS_LEAST)
        is_ordered = order_counted<u16, COUNTED_BITS_LEAST>(grouping, share, shared);
    else if (bits <= COUNTED_BITS_FEW)
        is_ordered = order_counted<u16, COUNTED_BITS_FEW>(grouping, share, shared);
    else if (bits <= COUNTED_BITS)
        is_ordered = order_counted<u8, COUNTED_BITS>(grouping, share, shared);
    if (is_ordered) return;
    // All have seen that it is not.
    __syncthreads();
    order_by_digits(grouping, share, *(OrderMemory*)shared);
}
