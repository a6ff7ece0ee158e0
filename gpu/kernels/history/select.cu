// Selects the tiles of a run that have rows in a window of time and a box, and counts those rows. A
// tile's zone (minima and maxima) is compared first; values are read only if it does not decide.
// One warp a tile.
#include "history/run.cuh"

__device__ __forceinline__ bool is_apart(const RunZone& one, const RunZone& other) {
    return one.time_max < other.time_min || other.time_max < one.time_min
        || one.x_max < other.x_min || other.x_max < one.x_min
        || one.y_max < other.y_min || other.y_max < one.y_min;
}

// The rows in `mask` whose values lie in [least, least + span]. Bit k of a lane is row 32 k + lane
// of the tile.
__device__ __forceinline__ u32 rows_within(const RunColumn& column, u32 mask, u32 least, u32 span) {
    const RunColumn packed = column;
    u32 within = 0;
#pragma unroll 8
    for (u32 k = 0; k < 32; k++) {
        // Rows beyond the last of the tile are not read.
        if (mask >> k & 1) within |= (u32)(value_at(packed, 32 * k + lane()) - least <= span) << k;
    }
    return within;
}

// Appends each tile with matches to `found`: the tile's number in the upper 32 bits, the number of
// matches in the lower. Adds the numbers of tiles and matches to `counts`.
extern "C" __global__ void run_select(Run run, RunZone window, u64* found, u64* counts) {
    u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (tile >= run.tiles) return;
    const RunZone zone = run.zones[tile];
    if (is_apart(zone, window)) return;
    u32 rows = rows_of(run, tile), mask = 0;
    for (u32 k = 0; k < 32; k++) mask |= (u32)(32 * k + lane() < rows) << k;
    for (u32 kind = RUN_TIME; kind < RUN_ATTRIBUTES; kind++) {
        bool is_inside;
        u32 least, span;
        if (kind == RUN_TIME) {
            is_inside = window.time_min <= zone.time_min && zone.time_max <= window.time_max;
            least = window.time_min;
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
        mask = rows_within(column_of(run, tile, kind), mask, least, span);
        if (!__any_sync(WHOLE_WARP, mask != 0)) return;
    }
    u32 count = warp_sum_to(__popc(mask));
    if (lane() != 31) return;
    atomicAdd(counts + 1, (u64)count);
    found[atomicAdd(counts, 1ull)] = (u64)tile << 32 | count;
}
