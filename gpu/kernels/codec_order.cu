// Entry points that find the grouped order of the rows of segments, a cluster of blocks each.
#include "codec_count.cuh"

// Blocks that must fit a multiprocessor.
static const u32 ORDER_BLOCKS = 2;

// Orders by codes. A cluster a segment.
extern "C" __global__ void __launch_bounds__(ORDER_THREADS, ORDER_BLOCKS)
    codec_order_codes(Grouping grouping) {
    extern __shared__ uint4 shared[];
    let_next_begin();
    OrderMemory& memory = *(OrderMemory*)shared;
    Share share = share_of(grouping, blockIdx.x / cluster_blocks());
    wait_for_previous();
    u32 all = share.segment.column.bits;
    const u16* codes = (const u16*)share.segment.keys;
    u32 last = share.segment.rows - 1, items[ORDER_ITEMS];
    if (all <= COUNTED_BITS) {
#pragma unroll
        for (u32 index = 0; index < ORDER_ITEMS; index++) {
            u32 row = share.first + index * ORDER_THREADS + threadIdx.x;
            items[index] = codes[row < last ? row : last];
        }
        CountMemory& counting = *(CountMemory*)shared;
        if (order_by_counts(grouping, share, all, counting, items)) return;
    }
    u32 passes = (all + WIDE_DIGIT_BITS - 1) / WIDE_DIGIT_BITS, bits = (all + passes - 1) / passes;
#pragma unroll
    for (u32 index = 0; index < ORDER_ITEMS; index++) {
        u32 row = share.first + share.place(index);
        row = row < last ? row : last;
        items[index] = row | (u32)codes[row] << ROW_BITS;
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
