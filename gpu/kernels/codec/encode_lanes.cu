// Encodes tiles of columns whose trees have only the nodes of encode_lanes.cuh. A warp holds a tile
// in registers; shared memory is used for data that lanes exchange.
#include "codec/encode_cuts.cuh"
#include "codec/encode_sparse.cuh"

// Tiles of a block.
static const u32 LANES_WARPS = ENCODE_LANES_TILES;

// Runs one node. Returns true for a leaf; the next step then takes the waiting values.
template <class T>
__device__ __forceinline__ bool warp_encode_step(Lanes<T>& lanes, const EncodeStep& step) {
    switch (step.kind) {
        case CODEC_AFL: warp_encode_afl(lanes, step); return true;
        case CODEC_RAW: warp_encode_raw(lanes, step); return true;
        case CODEC_DELTA: warp_encode_delta(lanes, step); return false;
        case CODEC_SCALE: warp_encode_scale(lanes, step); return false;
        case CODEC_DIVISOR: warp_encode_divisor(lanes, step); return false;
        case CODEC_PATCH: warp_encode_patch(lanes, step); return false;
        default: return false;
    }
}

// Encodes one tile per warp. A tree has at most one keyed node, so at most one tile of values
// waits.
template <class T, bool IS_KEYED>
__device__ __forceinline__ void warp_encode_tiles(const EncodeTask& task) {
    struct Memory {
        alignas(16) T tile[TILE_VALUES + 2 * EXCEPTIONS_MAX];
        alignas(16) T waiting[IS_KEYED ? TILE_VALUES : 4];
    };
    __shared__ Memory memories[LANES_WARPS];
    u32 index = blockIdx.x * LANES_WARPS + threadIdx.x / 32, heads = 0;
    if (index >= task.tiles) return;
    // Processes the last tiles first: their values, such as grouped values, were written last and
    // are in the second-level cache.
    u32 number = task.tiles - 1 - index;
    Memory& memory = memories[threadIdx.x / 32];
    Lanes<T> lanes = {task, number, 0, 0, 0, memory.tile, memory.waiting};
    warp_load(lanes);
    const EncodeStep* steps = (const EncodeStep*)task.steps;
    for (u32 at = 0; at < task.steps_count; at++) {
        const EncodeStep step = steps[at];
        bool is_keyed = step.kind == CODEC_KEYED_DELTA || step.kind == CODEC_KEYED_DELTA2;
        if (IS_KEYED && is_keyed) {
            heads = warp_encode_keyed(lanes, step);
        } else if (warp_encode_step(lanes, step) && IS_KEYED) {
            const EncodeStep *rest = steps + at + 1, *end = steps + task.steps_count;
            if (are_sparse(heads, rest, end)) return warp_encode_sparse(lanes, heads, rest, end);
            warp_take_heads(lanes, heads);
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * LANES_WARPS, 12)
    encode_lanes_narrow(EncodeTask task) {
    warp_encode_tiles<u32, false>(task);
}

extern "C" __global__ void __launch_bounds__(32 * LANES_WARPS, 6)
    encode_lanes_wide(EncodeTask task) {
    warp_encode_tiles<u64, false>(task);
}

// As `encode_lanes_narrow` and `encode_lanes_wide`, for trees with a keyed node.
extern "C" __global__ void __launch_bounds__(32 * LANES_WARPS, 12)
    encode_keyed_narrow(EncodeTask task) {
    warp_encode_tiles<u32, true>(task);
}

extern "C" __global__ void __launch_bounds__(32 * LANES_WARPS, 6)
    encode_keyed_wide(EncodeTask task) {
    warp_encode_tiles<u64, true>(task);
}
