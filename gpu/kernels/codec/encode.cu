// Encodes the tiles of one column, whose tree is a list of steps in pre-order; adds up the sizes of
// sections; and moves staged words to their places. To encode, a block holds a tile in shared
// memory.
#include "codec/encode_huffman.cuh"
#include "codec/encode_leaves.cuh"
#include "codec/encode_nodes.cuh"
#include "codec/encode_patch.cuh"
#include "codec/encode_stateless.cuh"

// Loads the tile's values from the column.
template <class T>
__device__ inline void block_load(Tile<T>& tile) {
    const EncodeTask& task = tile.task;
    u32 first = tile.number * TILE_VALUES;
    u32 count = task.rows - first < TILE_VALUES ? task.rows - first : TILE_VALUES;
    if (task.counts != 0) count = ((const unsigned short*)task.counts)[tile.number];
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS) {
        tile.values()[at] = read_pattern<T>(task.values, task.bits, (u64)first + at);
    }
    if (threadIdx.x == 0) tile.memory.counts[0] = count;
    __syncthreads();
}

// Runs one node. Returns true for a leaf; the next step then takes the values of the level below.
template <class T>
__device__ inline bool block_encode_step(Tile<T>& tile, const EncodeStep& step) {
    switch (step.kind) {
        case CODEC_RAW: block_encode_raw(tile, step); return true;
        case CODEC_AFL: block_encode_afl(tile, step); return true;
        case CODEC_DELTA: block_encode_delta(tile, step); return false;
        case CODEC_SCALE: block_encode_scale(tile, step); return false;
        case CODEC_PATCH: block_encode_patch(tile, step); return false;
        case CODEC_KEYED_DELTA: block_encode_keyed(tile, step, false); return false;
        case CODEC_KEYED_DELTA2: block_encode_keyed(tile, step, true); return false;
        case CODEC_STORE: block_encode_store(tile, step); return true;
        case CODEC_CONST: block_encode_const(tile, step); return true;
        case CODEC_GFC: block_encode_gfc(tile, step); return true;
        case CODEC_HUFFMAN:
        case CODEC_HUFFMAN_LONG: block_encode_huffman(tile, step); return true;
        case CODEC_STATELESS: block_encode_stateless(tile, step); return true;
        case CODEC_DELTA2: block_encode_delta2(tile, step); return false;
        case CODEC_DIVISOR: block_encode_quotients(tile, step, false); return false;
        case CODEC_FLOAT_TO_INT: block_encode_quotients(tile, step, true); return false;
        case CODEC_PATCH_DIVISOR: block_encode_misfits(tile, step, false); return false;
        case CODEC_PATCH_FLOAT: block_encode_misfits(tile, step, true); return false;
        case CODEC_RLE: block_encode_rle(tile, step); return false;
        default: block_encode_dict(tile, step); return false;
    }
}

template <class T>
__device__ inline void block_encode_tile(TileMemory<T>& memory, const EncodeTask& task) {
    Tile<T> tile = {memory, task, blockIdx.x, 0, 0};
    block_load(tile);
    for (u32 number = 0; number < task.steps_count; number++) {
        const EncodeStep& step = ((const EncodeStep*)task.steps)[number];
        if (block_encode_step(tile, step)) {
            __syncthreads();
            tile.level--;
        }
    }
}

// Columns of up to 32 bits.
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    encode_tiles_narrow(EncodeTask task) {
    __shared__ TileMemory<u32> memory;
    block_encode_tile(memory, task);
}

// Columns of 64 bits.
extern "C" __global__ void __launch_bounds__(TILE_THREADS) encode_tiles_wide(EncodeTask task) {
    __shared__ TileMemory<u64> memory;
    block_encode_tile(memory, task);
}

// Threads of a block that adds up the sizes of a section.
static const u32 OFFSETS_THREADS = ENCODE_OFFSETS_THREADS;

// Writes to `offsets` where each tile begins in each section of words, the exclusive prefix sums of
// `sizes`, and the sum of each section to `totals`. One block a section; a warp processes a
// contiguous range of tiles, a lane every 32nd tile of this range.
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

static const u32 SECTION_ALIGN = 64;
static_assert(ENCODE_SECTIONS < 32, "a lane a section, and one after them");

// Copies `length` words with a warp; all loads of a round are in flight at once.
__device__ __forceinline__ void copy_words(const u32* from, u32 length, u32* to) {
    u32 found[PLACED_WORDS], whole = length / (32 * PLACED_WORDS),
                             rest = length % (32 * PLACED_WORDS);
    from += lane();
    to += lane();
#pragma unroll 1
    for (u32 round = 0; round < whole;
         round++, from += 32 * PLACED_WORDS, to += 32 * PLACED_WORDS) {
#pragma unroll
        for (u32 index = 0; index < PLACED_WORDS; index++) found[index] = from[32 * index];
#pragma unroll
        for (u32 index = 0; index < PLACED_WORDS; index++) to[32 * index] = found[index];
    }
#pragma unroll
    for (u32 index = 0; index < PLACED_WORDS; index++)
        if (32 * index + lane() < rest) found[index] = from[32 * index];
#pragma unroll
    for (u32 index = 0; index < PLACED_WORDS; index++)
        if (32 * index + lane() < rest) to[32 * index] = found[index];
}

// Copies the staged words of every tile to their sections and writes its directory entries. Each
// warp also copies its share of the other sections. One warp a tile.
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    encode_place(EncodeTask task, const u32* offsets, SectionPlaces places) {
    u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32, size = 0, offset = 0;
    if (tile >= task.tiles) return;
    bool is_last = tile + 1 == task.tiles;
    u64 padded = 0;
    if (lane() < places.sections && places.totals != 0)
        padded = (4 * ((const u64*)places.totals)[lane()] + SECTION_ALIGN - 1) / SECTION_ALIGN
            * SECTION_ALIGN;
    // The number of bytes of the padded sections of words that precede this lane's section.
    u64 before = warp_sum_to(padded) - padded;
    if (lane() < places.sections) {
        u64 at = (u64)lane() * task.tiles + tile;
        uint2* directory = (uint2*)(places.directories[lane()] + before);
        size = ((const u32*)task.sizes)[at];
        offset = offsets[at];
        directory[tile] = make_uint2(offset, ((const u32*)task.entries)[at]);
        for (u32 pad = tile + 1; is_last && pad % (SECTION_ALIGN / 8) != 0; pad++)
            directory[pad] = make_uint2(0, 0);
    }
    u32 begin = warp_sum_before(size);
    const u32* staged = (const u32*)task.staged + (u64)tile * task.staged_words;
    for (u32 section = 0; section < places.sections; section++) {
        u32 length = __shfl_sync(WHOLE_WARP, size, section);
        u32 first = __shfl_sync(WHOLE_WARP, offset, section), end = first + length;
        u32* words = (u32*)(places.words[section] + __shfl_sync(WHOLE_WARP, before, section));
        copy_words(staged + __shfl_sync(WHOLE_WARP, begin, section), length, words + first);
        if (is_last && lane() < (0 - end) % (SECTION_ALIGN / 4)) words[end + lane()] = 0;
    }
    for (u32 copy = 0; copy < places.copies; copy++) {
        u64 bytes = places.bytes[copy], words = bytes / 4;
        u64 to = places.to[copy] + __shfl_sync(WHOLE_WARP, before, places.behind[copy]);
        u64 share = places.shares[copy], first = tile * share;
        u64 end = first + share < words ? first + share : words;
        if (first < end)
            copy_words((const u32*)places.from[copy] + first, (u32)(end - first),
                       (u32*)to + first);
        u64 end_padded = (bytes + SECTION_ALIGN - 1) / SECTION_ALIGN * SECTION_ALIGN;
        for (u64 at = 4 * words + lane(); is_last && at < end_padded; at += 32)
            ((u8*)to)[at] = at < bytes ? ((const u8*)places.from[copy])[at] : 0;
    }
}
