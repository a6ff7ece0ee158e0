// Entry points that encode the tiles of one column, whose tree is a list of steps in pre-order, and
// put what they wrote in its place. One block a tile.
#include "codec_encode_leaves.cuh"
#include "codec_encode_nodes.cuh"
#include "codec_encode_patch.cuh"

// The tile's values as the column has them: in grouped order where the task gives one.
template <class T>
__device__ inline void load(Tile<T>& tile) {
    const EncodeTask& task = tile.task;
    const unsigned short* order = (const unsigned short*)task.order;
    u32 first = tile.number * TILE_VALUES;
    u32 count = task.rows - first < TILE_VALUES ? task.rows - first : TILE_VALUES;
    if (task.counts != 0) count = ((const unsigned short*)task.counts)[tile.number];
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS) {
        u64 row = (u64)first + at;
        if (order != nullptr) row = (row & ~0xffffull) + order[row];
        tile.values()[at] = read_pattern<T>(task.values, task.bits, row);
    }
    if (threadIdx.x == 0) tile.memory.counts[0] = count;
    __syncthreads();
}

// One node. True for leaves: what waits a level below is next.
template <class T>
__device__ inline bool encode_step(Tile<T>& tile, const EncodeStep& step) {
    switch (step.kind) {
        case CODEC_RAW: encode_raw(tile, step); return true;
        case CODEC_AFL: encode_afl(tile, step); return true;
        case CODEC_DELTA: encode_delta(tile, step); return false;
        case CODEC_SCALE: encode_scale(tile, step); return false;
        case CODEC_PATCH: encode_patch(tile, step); return false;
        case CODEC_KEYED_DELTA: encode_keyed(tile, step, false); return false;
        case CODEC_KEYED_DELTA2: encode_keyed(tile, step, true); return false;
        case CODEC_KEEP: encode_keep(tile, step); return true;
        case CODEC_CONST: encode_const(tile, step); return true;
        case CODEC_GFC: encode_gfc(tile, step); return true;
        case CODEC_DELTA2: encode_delta2(tile, step); return false;
        case CODEC_DIVISOR: encode_quotients(tile, step, false); return false;
        case CODEC_FLOAT: encode_quotients(tile, step, true); return false;
        case CODEC_PATCH_DIVISOR: encode_misfits(tile, step, false); return false;
        case CODEC_PATCH_FLOAT: encode_misfits(tile, step, true); return false;
        case CODEC_RLE: encode_rle(tile, step); return false;
        default: encode_dict(tile, step); return false;
    }
}

template <class T>
__device__ inline void encode_tile(TileMemory<T>& memory, const EncodeTask& task) {
    Tile<T> tile = {memory, task, blockIdx.x, 0, 0};
    load(tile);
    for (u32 number = 0; number < task.steps_count; number++) {
        const EncodeStep& step = ((const EncodeStep*)task.steps)[number];
        if (encode_step(tile, step)) {
            __syncthreads();
            tile.level--;
        }
    }
}

// Columns of up to 32 bits.
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    encode_tiles_narrow(EncodeTask task) {
    __shared__ TileMemory<u32> memory;
    encode_tile(memory, task);
}

// Columns of 64 bits.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) encode_tiles_wide(EncodeTask task) {
    __shared__ TileMemory<u64> memory;
    encode_tile(memory, task);
}

// Threads that sum up a section, and tiles that each of them takes at a time.
static const u32 OFFSETS_THREADS = ENCODE_OFFSETS_THREADS;
static const u32 OFFSETS_EACH = 16;

// Where each tile begins in each section of words: sums of `sizes` before it in `offsets`, their
// sum in the summary. One block a section; a warp takes neighbours, a lane every 32nd of them.
extern "C" __global__ void __launch_bounds__(OFFSETS_THREADS)
    encode_offsets(const u32* sizes, u32* offsets, u32 tiles, u64* totals) {
    __shared__ u32 warps[OFFSETS_THREADS / 32];
    u64 base = (u64)blockIdx.x * tiles;
    u32 before = 0;
    for (u32 first = 0; first < tiles; first += OFFSETS_THREADS * OFFSETS_EACH) {
        u32 tile = first + warp_number() * 32 * OFFSETS_EACH + lane(), mine[OFFSETS_EACH], sum = 0;
#pragma unroll
        for (u32 item = 0; item < OFFSETS_EACH; item++)
            mine[item] = tile + 32 * item < tiles ? sizes[base + tile + 32 * item] : 0;
#pragma unroll
        for (u32 item = 0; item < OFFSETS_EACH; item++) {
            u32 size = mine[item], under = warp_sum_before(size);
            mine[item] = sum + under;
            sum += __shfl_sync(WHOLE_WARP, under + size, 31);
        }
        if (lane() == 0) warps[warp_number()] = sum;
        __syncthreads();
        u32 other = warps[lane()], under = warp_sum_before(other);
        u32 start = before + __shfl_sync(WHOLE_WARP, under, warp_number());
        before += __shfl_sync(WHOLE_WARP, under + other, 31);
#pragma unroll
        for (u32 item = 0; item < OFFSETS_EACH; item++)
            if (tile + 32 * item < tiles) offsets[base + tile + 32 * item] = start + mine[item];
        __syncthreads();
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = before;
}
static_assert(OFFSETS_THREADS == 32 * 32, "a lane a warp");

// Copies the staged words of every tile to their sections and writes the directories. `places`
// holds a directory's and a section's address for each section of words. One warp a tile.
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    encode_place(EncodeTask task, const u32* offsets, const u64* places, u32 sections) {
    u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (tile >= task.tiles) return;
    const u32* staged = (const u32*)task.staged + (u64)tile * task.staged_words;
    for (u32 section = 0; section < sections; section++) {
        u64 at = (u64)section * task.tiles + tile;
        u32 size = ((const u32*)task.sizes)[at], offset = offsets[at];
        u32* words = (u32*)places[2 * section + 1] + offset;
#pragma unroll 8
        for (u32 word = lane(); word < size; word += 32) words[word] = staged[word];
        staged += size;
        if (lane() == 0) {
            u32* entry = (u32*)places[2 * section] + 2 * (u64)tile;
            entry[0] = offset;
            entry[1] = ((const u32*)task.entries)[at];
        }
    }
}
