// Loads the rows of a segment with a block of threads.
//
// A thread loads neighbouring rows, so that loads are wide. In place of a row beyond the last, the
// last row is loaded, because conditional loads wait for each other; callers skip these values.
#pragma once
#include "codec/tile.cuh"

static const u32 SEGMENT_THREADS = ENCODE_SEGMENT_THREADS;

// `COUNT` contiguous values.
template <class V, u32 COUNT>
struct alignas(sizeof(V) * COUNT) Neighbours {
    V v[COUNT];
};

// Loads the values of `COUNT` rows from `row` on, a multiple of `COUNT`, of a segment of `rows`
// rows. IS_WHOLE: the segment is full.
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

// The number of rows of this block's segment in a column of `rows` rows.
__device__ __forceinline__ u32 rows_of_segment(u32 rows) {
    u32 left = rows - blockIdx.x * SEGMENT_ROWS;
    return left < SEGMENT_ROWS ? left : SEGMENT_ROWS;
}
