// Selects the tiles of a run that have rows in a window of time and a box, and counts those rows:
// zones first, then decoding and comparison in one pass. One warp a tile.
#include "history/run.cuh"

__device__ __forceinline__ bool is_apart(const RunZone& one, const RunZone& other) {
    return one.time_max < other.time_min || other.time_max < one.time_min
        || one.x_max < other.x_min || other.x_max < one.x_min
        || one.y_max < other.y_min || other.y_max < one.y_min;
}

// A lane's 32 rows of a tile, bit 4 k + j for v[k][j] (see codec/tile.cuh): those below `rows`.
__device__ __forceinline__ u32 rows_of_lane(u32 rows) {
    u32 mask = 0;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) mask |= (u32)(place_of(k) + j < rows) << (4 * k + j);
    return mask;
}

// Those with values from `least` to `span` above it.
__device__ __forceinline__ u32 values_within(const Tile<u32>& values, u32 least, u32 span) {
    u32 mask = 0;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
#pragma unroll
        for (u32 j = 0; j < 4; j++) mask |= (u32)(values.v[k][j] - least <= span) << (4 * k + j);
    return mask;
}

// Appends each tile with matches to `found`: its number above 32 bits of their count. `counts` has
// the numbers of such tiles and matches.
template <int SLOTS>
__device__ __forceinline__ void select_tile(const Run& run, const RunZone& window, u64* found,
                                            u64* counts) {
    __shared__ TileMemory<u32, SLOTS> memory;
    const RunZone zone = run.zones[blockIdx.x];
    if (is_apart(zone, window)) return;
    RunTile tile(run, blockIdx.x);
    u32 mask = rows_of_lane(tile.rows);
    // One copy of the decoder for the three columns.
#pragma unroll 1
    for (u32 kind = RUN_TIME; kind < RUN_ATTRIBUTES; kind++) {
        bool is_inside;
        u32 least, span;
        if (kind == RUN_TIME) {
            is_inside = window.time_min <= zone.time_min && zone.time_max <= window.time_max;
            least = window.time_min - tile.base;
            span = window.time_max - window.time_min;
        } else {
            bool is_x = kind == RUN_X;
            i32 low = is_x ? window.x_min : window.y_min, high = is_x ? window.x_max : window.y_max;
            is_inside = low <= (is_x ? zone.x_min : zone.y_min)
                && (is_x ? zone.x_max : zone.y_max) <= high;
            least = (u32)low;
            span = (u32)high - (u32)low;
        }
        if (is_inside) continue;
        Tile<u32> values;
        if (!decode_column(run, tile, kind, memory, values)) return;
        mask &= values_within(values, least, span);
        if (!__any_sync(WHOLE_WARP, mask != 0)) return;
    }
    u64 count = warp_sum(__popc(mask));
    if (lane() != 0) return;
    atomicAdd(counts + 1, count);
    found[atomicAdd(counts, 1ull)] = (u64)blockIdx.x << 32 | count;
}

extern "C" __global__ void __launch_bounds__(32, SLOT_BLOCKS_32)
    run_select_slot(Run run, RunZone window, u64* found, u64* counts) {
    select_tile<1>(run, window, found, counts);
}

extern "C" __global__ void __launch_bounds__(32)
    run_select_slots(Run run, RunZone window, u64* found, u64* counts) {
    select_tile<CODEC_SLOTS>(run, window, found, counts);
}
