// Binary searches over ascending bounds. Each bound is the start of a range; a search finds the
// range that contains a value.
//
// If even the first bound is above the value, the functions return the first range.
#pragma once
#include "warp/warp.cuh"

// The first number in [low, high) for which `holds` is false, `high` if there is none, `low` if the
// range is empty. `holds` must be true before this number and false from it on.
template <class Holds>
__device__ __forceinline__ u32 partition_point(u32 low, u32 high, Holds holds) {
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (holds(middle)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The index of the last of `length` bounds that is not above `value`; `bound(at)` returns bound
// `at`.
template <class Value, class Bound>
__device__ __forceinline__ u32 last_not_above(u32 length, Value value, Bound bound) {
    auto is_not_above = [&](u32 at) { return bound(at) <= value; };
    return partition_point(1, length, is_not_above) - 1;
}

// As `last_not_above`, but all threads of a warp search for the same value; they read 32 bounds at
// a time.
template <class Bound>
__device__ __forceinline__ u32 warp_last_not_above(u32 length, u32 value, Bound bound) {
    u32 low = 0;
    while (length > 1) {
        u32 step = (length + 31) / 32, probe = lane() * step;
        bool is_not_above = probe < length && bound(low + probe) <= value;
        u32 found = 31 - __clz(__ballot_sync(WHOLE_WARP, is_not_above));
        low += found * step;
        length = length - found * step < step ? length - found * step : step;
    }
    return low;
}

// As `last_not_above`, but each thread of a warp holds one bound and searches for its own value.
// There are at most 2 * `widest` bounds, and `widest` is a power of two. Threads without a bound
// pass the greatest number.
__device__ __forceinline__ u32 warp_last_lane_not_above(u32 bound, u32 value, u32 widest = 16) {
    u32 last = 0;
    for (u32 step = widest; step > 0; step /= 2) {
        u32 probed = __shfl_sync(WHOLE_WARP, bound, last + step);
        if (probed <= value) last += step;
    }
    return last;
}
