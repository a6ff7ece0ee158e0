// Decodes columns of the trees of runs.cuh and repeats.cuh. One warp a tile; values are in shared
// memory between steps.
#include "codec/repeats.cuh"
#include "codec/runs.cuh"

// A tile of a launch.
struct Work {
    const CodecColumn& column;
    u32 number;
    u32 count;

    __device__ __forceinline__ Work(const CodecColumn* columns, u32 length, u32 tile)
        : column(columns[warp_column_of(columns, length, tile)]) {
        number = tile - column.first_tile;
        u32 left = column.rows - number * TILE_VALUES;
        count = left < TILE_VALUES ? left : TILE_VALUES;
    }

    __device__ __forceinline__ void fail(const Codec& codec) const {
        // The previous launch may still run.
        wait_for_previous();
        if (lane() == 0) codec.failed[(u64)column.request * codec.stride] = 1;
    }

    __device__ __forceinline__ u8* output(const Codec& codec) const {
        return codec.output + column.output + (u64)number * TILE_VALUES * (column.bits / 8);
    }
};

extern "C" __global__ void __launch_bounds__(32 * RUNS_WARPS, RUNS_BLOCKS)
    codec_runs_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    __shared__ RunsMemory memories[RUNS_WARPS];
    let_next_begin();
    RunsMemory& memory = memories[threadIdx.x / 32];
    u32 tile = blockIdx.x * RUNS_WARPS + threadIdx.x / 32;
    if (tile >= tiles) return;
    Work work(columns, length, tile);
    if (!warp_decode_runs(codec, work.column, work.number, work.count, memory))
        return work.fail(codec);
    if (work.column.output == NO_COLUMN) return;
    __syncwarp();
    // The output is padded to whole tiles, so all places can be stored.
    u8* to = work.output(codec);
#pragma unroll 2
    for (u32 k = 0; k < RUNS; k++) {
        u32 v[4];
        get_four(memory.tile, k, v);
        store_four(to, place_of(k), work.column.bits, v);
    }
}

extern "C" __global__ void __launch_bounds__(32 * RUNS_WARPS, REPEATS_BLOCKS)
    codec_repeats_32(Codec codec, const CodecColumn* columns, u32 length, u32 tiles) {
    __shared__ RepeatsMemory memories[RUNS_WARPS];
    let_next_begin();
    RepeatsMemory& memory = memories[threadIdx.x / 32];
    u32 tile = blockIdx.x * RUNS_WARPS + threadIdx.x / 32, others;
    if (tile >= tiles) return;
    Work work(columns, length, tile);
    const CodecColumn& column = work.column;
    if (!warp_decode_repeats(codec, column, work.number, work.count, memory, others))
        return work.fail(codec);
    u8* to = column.output != NO_COLUMN ? work.output(codec) : nullptr;
    u32 bits = column.bits, has_checks = column.checks;
    bool is_outside = false;
#pragma unroll 2
    for (u32 k = 0; k < RUNS; k++) {
        u32 v[4];
        take_four(memory, others, k, v);
        if (to != nullptr) store_some(to, k, work.count, bits, v);
        if (has_checks != 0) is_outside |= are_outside(column, k, work.count, v);
    }
    if (__any_sync(WHOLE_WARP, is_outside)) work.fail(codec);
}
