// Decodes columns whose trees need no slots. A warp holds a tile in registers, and the column's
// steps in shared memory.
#include "codec/tree.cuh"

// Performs the work that precedes the tiles of a column. Depending on the task: checks the sum of
// the counts of a sparse child; unpacks entries of a dictionary and checks that they ascend; or
// fills the table of a code and checks that the code is complete. One block of threads a task.
extern "C" __global__ void __launch_bounds__(32 * DECODE_WARPS)
    codec_open(Codec codec, const CodecOpen* tasks) {
    let_next_begin();
    const CodecOpen task = tasks[blockIdx.x];
    bool is_wrong = false;
    if (task.kind == CODEC_OPEN_CODE) {
        const u32* lengths = (const u32*)(codec.input + task.source);
        u32* table = (u32*)(codec.output + task.table);
        is_wrong = !block_fill_codes(lengths, task.count, task.bits, table);
    } else if (task.kind == CODEC_OPEN_COUNTS) {
        __shared__ u32 sums[DECODE_WARPS];
        // One block adds up the counts of all tiles: eight at a time, with many loads in flight.
        const uint4* eights = (const uint4*)(codec.input + task.source);
        u32 sum = 0, left = task.count / 8 * 8 + threadIdx.x;
#pragma unroll 8
        for (u32 at = threadIdx.x; at < task.count / 8; at += 32 * DECODE_WARPS) {
            uint4 eight = eights[at];
            u32 odd = (eight.x >> 16) + (eight.y >> 16) + (eight.z >> 16) + (eight.w >> 16);
            u32 even = (eight.x & 0xffff) + (eight.y & 0xffff) + (eight.z & 0xffff)
                + (eight.w & 0xffff);
            sum += odd + even;
        }
        if (left < task.count) sum += ((const u16*)eights)[left];
        sum = (u32)warp_sum(sum);
        if (lane() == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            u64 all = 0;
            for (u32 warp = 0; warp < DECODE_WARPS; warp++) all += sums[warp];
            is_wrong = all != task.expected;
        }
    } else {
        const u32* words = (const u32*)(codec.input + task.source);
        u64 mask = low_mask<u64>(task.bits);
        u32 end = task.first + CODEC_ENTRIES < task.count ? task.first + CODEC_ENTRIES : task.count;
#pragma unroll 4
        for (u32 at = task.first + threadIdx.x; at < end; at += 32 * DECODE_WARPS) {
            u64 entry = task.base, before = task.base;
            if (task.entry_bits > 0) {
                entry += unpack64(words, (u64)at * task.entry_bits, task.entry_bits);
                if (at > 0) before += unpack64(words, (u64)(at - 1) * task.entry_bits,
                                               task.entry_bits);
            }
            entry &= mask;
            is_wrong |= at > 0 && entry <= (before & mask);
            if (task.is_wide != 0) ((u64*)(codec.output + task.table))[at] = entry;
            else ((u32*)(codec.output + task.table))[at] = (u32)entry;
        }
    }
    if (is_wrong) codec.failed[(u64)task.request * codec.stride] = 1;
}

template <class T>
__device__ __forceinline__ void warp_decode_plain(const Codec& codec, const CodecColumn* columns,
                                             u32 length, u32 tiles) {
    __shared__ TileMemory<T, 0> memory[DECODE_WARPS];
    u32 tile = blockIdx.x * DECODE_WARPS + threadIdx.x / 32;
    if (tile < tiles) warp_decode_one(codec, columns, length, tile, memory[threadIdx.x / 32]);
}

extern "C" __global__ void __launch_bounds__(32 * DECODE_WARPS, DECODE_BLOCKS_32)
    codec_plain_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_plain<u32>(codec, columns, length, tiles);
}

// As `codec_plain_32`, with more registers for loads, for launches with few tiles.
extern "C" __global__ void __launch_bounds__(32 * DECODE_WARPS, DECODE_SMALL_BLOCKS_32)
    codec_small_plain_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_plain<u32>(codec, columns, length, tiles);
}

extern "C" __global__ void __launch_bounds__(32 * DECODE_WARPS, DECODE_BLOCKS_64)
    codec_plain_64(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    warp_decode_plain<u64>(codec, columns, length, tiles);
}
