// The rows of a segment by a block of threads, in their order.
//
// Neighbours by thread, so that loads are wide. Beyond the rows of a segment the last row is
// loaded, because conditional loads wait for each other; callers skip these values.
#pragma once
#include "codec/tile.cuh"

static const u32 SEGMENT_THREADS = ENCODE_SEGMENT_THREADS;

// `COUNT` contiguous values.
template <class V, u32 COUNT>
struct alignas(sizeof(V) * COUNT) Neighbours {
    V v[COUNT];
};

// Values of `COUNT` rows from `row` on, of a segment that is whole or has `rows`.
template <class V, u32 COUNT, bool IS_WHOLE>
__device__ __forceinline__ Neighbours<V, COUNT> load_rows(const V* from, u32 row, u32 rows) {
    if constexpr (IS_WHOLE) {
        return ((const Neighbours<V, COUNT>*)from)[row / COUNT];
    } else {
        Neighbours<V, COUNT> loaded;
#pragma unroll
        for (u32 index = 0; index < COUNT; index++)
            loaded.v[index] = from[row + index < rows ? row + index : rows - 1];
        return loaded;
    }
}

// Rows of the segment of this block.
__device__ __forceinline__ u32 rows_of_segment(u32 rows) {
    u32 left = rows - blockIdx.x * SEGMENT_ROWS;
    return left < SEGMENT_ROWS ? left : SEGMENT_ROWS;
}
