// Permutes the values of a column to grouped order. One block a segment.
//
// Values are permuted in shared memory, 16 bits of each at a time, so that a whole segment fits. In
// device memory, each scattered value would transfer a sector of 32 bytes.
#include <cuda_pipeline_primitives.h>

#include "codec/encode_segment.cuh"

// Groups of four rows per thread.
static const u32 FOURS = SEGMENT_ROWS / 4 / SEGMENT_THREADS;

// Stores each value, shifted right by `shift` and truncated to L, at the place of its row.
template <class V, bool IS_WHOLE, class L>
__device__ __forceinline__ void lay_rows(const V* values, const u16* places, u32 rows, u32 shift,
                                         L* laid) {
#pragma unroll 1
    for (u32 start = 0; start < FOURS; start += GROUP_BATCH) {
        Neighbours<V, 4> four[GROUP_BATCH];
        Neighbours<u16, 4> to[GROUP_BATCH];
#pragma unroll
        for (u32 index = 0; index < GROUP_BATCH; index++) {
            u32 row = 4 * ((start + index) * SEGMENT_THREADS + threadIdx.x);
            four[index] = load_rows<V, 4, IS_WHOLE>(values, row, rows);
            to[index] = load_rows<u16, 4, IS_WHOLE>(places, row, rows);
        }
#pragma unroll
        for (u32 index = 0; index < GROUP_BATCH; index++)
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 row = 4 * ((start + index) * SEGMENT_THREADS + threadIdx.x) + j;
                if (IS_WHOLE || row < rows)
                    laid[to[index].v[j]] = (L)(four[index].v[j] >> shift);
            }
    }
}

struct GroupMemory {
    u16 laid[SEGMENT_ROWS];
    // Each thread accesses only its own entries.
    uint4 values[GROUP_AHEAD][SEGMENT_THREADS];
    uint2 places[GROUP_AHEAD][SEGMENT_THREADS];
};
static_assert(sizeof(GroupMemory) == ENCODE_GROUP_BYTES, "the host gives so much");

// Start to copy group `index` of a thread's four values, or of its four places, to shared memory.
__device__ __forceinline__ void copy_values(const u32* values, u32 index, GroupMemory& memory) {
    uint4* to = &memory.values[index % GROUP_AHEAD][threadIdx.x];
    u32 at = index * SEGMENT_THREADS + threadIdx.x;
    if (index < FOURS) __pipeline_memcpy_async(to, (const uint4*)values + at, sizeof(uint4));
}
__device__ __forceinline__ void copy_places(const u16* places, u32 index, GroupMemory& memory) {
    uint2* to = &memory.places[index % GROUP_AHEAD][threadIdx.x];
    u32 at = index * SEGMENT_THREADS + threadIdx.x;
    if (index < FOURS) __pipeline_memcpy_async(to, (const uint2*)places + at, sizeof(uint2));
}

// Stores the 16-bit halves of four values at their places `to`.
__device__ __forceinline__ void lay_four(u16* laid, uint2 to, uint2 halves) {
    laid[to.x & 0xffff] = (u16)halves.x;
    laid[to.x >> 16] = (u16)(halves.x >> 16);
    laid[to.y & 0xffff] = (u16)halves.y;
    laid[to.y >> 16] = (u16)(halves.y >> 16);
}

// The low (`selector` 0x5410) or high (0x7632) halves of four values.
__device__ __forceinline__ uint2 halves_of(uint4 v, u32 selector) {
    return make_uint2(__byte_perm(v.x, v.y, selector), __byte_perm(v.z, v.w, selector));
}

// Groups of four per thread whose low halves stay in registers. The other low halves are stored in
// the thread's buffer of values, two groups in the place of one.
static const u32 HELD = FOURS - 2 * GROUP_AHEAD;

// Permutes the 32-bit values of a full segment. The low halves are permuted first and held until
// the high halves are permuted.
__device__ __forceinline__ void block_group_words(const u32* values, const u16* places,
                                            GroupMemory& memory, u32* to) {
    const uint2* fours = (const uint2*)memory.laid;
    uint2 halves[FOURS], held[HELD];
#pragma unroll
    for (u32 index = 0; index < GROUP_AHEAD; index++) {
        copy_values(values, index, memory);
        copy_places(places, index, memory);
        __pipeline_commit();
    }
#pragma unroll
    for (u32 index = 0; index < FOURS; index++) {
        __pipeline_wait_prior(GROUP_AHEAD - 1);
        uint4 four = memory.values[index % GROUP_AHEAD][threadIdx.x];
        uint2 place = memory.places[index % GROUP_AHEAD][threadIdx.x];
        lay_four(memory.laid, place, halves_of(four, 0x5410));
        halves[index] = halves_of(four, 0x7632);
        copy_values(values, index + GROUP_AHEAD, memory);
        copy_places(places, index + GROUP_AHEAD, memory);
        __pipeline_commit();
    }
#pragma unroll
    for (u32 index = 0; index < GROUP_AHEAD; index++) {
        copy_places(places, index, memory);
        __pipeline_commit();
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < HELD; index++)
        held[index] = fours[index * SEGMENT_THREADS + threadIdx.x];
#pragma unroll
    for (u32 index = 0; index < GROUP_AHEAD; index++) {
        uint2 low = fours[(HELD + 2 * index) * SEGMENT_THREADS + threadIdx.x];
        uint2 next = fours[(HELD + 2 * index + 1) * SEGMENT_THREADS + threadIdx.x];
        memory.values[index][threadIdx.x] = make_uint4(low.x, low.y, next.x, next.y);
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < FOURS; index++) {
        __pipeline_wait_prior(GROUP_AHEAD - 1);
        uint2 place = memory.places[index % GROUP_AHEAD][threadIdx.x];
        lay_four(memory.laid, place, halves[index]);
        copy_places(places, index + GROUP_AHEAD, memory);
        __pipeline_commit();
    }
    __syncthreads();
#pragma unroll
    for (u32 index = 0; index < FOURS; index++) {
        u32 at = index * SEGMENT_THREADS + threadIdx.x;
        uint2 low, high = fours[at];
        if (index < HELD) low = held[index];
        else low = ((uint2*)&memory.values[(index - HELD) / 2][threadIdx.x])[(index - HELD) % 2];
        ((uint4*)to)[at] = make_uint4(
            __byte_perm(low.x, high.x, 0x5410), __byte_perm(low.x, high.x, 0x7632),
            __byte_perm(low.y, high.y, 0x5410), __byte_perm(low.y, high.y, 0x7632));
    }
}

// Permutes values of any type, 16 bits of each at a time. Places and grouped values are padded to
// whole tiles.
template <class V, bool IS_WHOLE>
__device__ __forceinline__ void block_group_halves(const V* values, const u16* places, u32 rows,
                                             u16* laid, V* to) {
    const u32 HALVES = sizeof(V) <= 2 ? 1 : sizeof(V) / 2;
#pragma unroll 1
    for (u32 half = 0; half < HALVES; half++) {
        lay_rows<V, IS_WHOLE>(values, places, rows, 16 * half, laid);
        __syncthreads();
        for (u32 at = threadIdx.x; 4 * at < rows; at += SEGMENT_THREADS) {
            uint2 found = ((const uint2*)laid)[at];
            u32 four[4] = {found.x & 0xffff, found.x >> 16, found.y & 0xffff, found.y >> 16};
            if (HALVES == 1) {
                store_four((u8*)to, 4 * at, 8 * sizeof(V), four);
            } else {
                u16* halves = (u16*)(to + 4 * at) + half;
#pragma unroll
                for (u32 j = 0; j < 4; j++) halves[j * HALVES] = (u16)four[j];
            }
        }
        __syncthreads();
    }
}

template <class V, bool IS_WHOLE>
__device__ __forceinline__ void block_group_segment(const EncodeTask& task, const u16* places,
                                                    u32 rows, u8* to) {
    extern __shared__ uint4 shared[];
    GroupMemory& memory = *(GroupMemory*)shared;
    u64 first = (u64)blockIdx.x * SEGMENT_ROWS;
    const V* values = (const V*)task.values + first;
    V* grouped = (V*)to + first;
    if constexpr (IS_WHOLE && sizeof(V) == 4)
        block_group_words(values, places + first, memory, grouped);
    else
        block_group_halves<V, IS_WHOLE>(values, places + first, rows, memory.laid, grouped);
}

template <class V>
__device__ __forceinline__ void block_group_values(const EncodeTask& task, const u16* places,
                                                   u8* to) {
    u32 rows = rows_of_segment(task.rows);
    if (rows == SEGMENT_ROWS) block_group_segment<V, true>(task, places, rows, to);
    else block_group_segment<V, false>(task, places, rows, to);
}

// Writes the values of the task in grouped order. `places` has the place of each row in its
// segment. Skips segments for which `failed` is set, because they have no places.
extern "C" __global__ void __launch_bounds__(SEGMENT_THREADS, 1)
    encode_group(EncodeTask task, const u16* places, const u64* failed, u8* to) {
    if (failed[blockIdx.x] != 0) return;
    if (task.bits == 64) block_group_values<u64>(task, places, to);
    else if (task.bits == 32) block_group_values<u32>(task, places, to);
    else if (task.bits == 16) block_group_values<u16>(task, places, to);
    else block_group_values<u8>(task, places, to);
}

template <class V>
__device__ __forceinline__ void scatter_values(const EncodeTask& task, const u16* places, u8* to) {
    u64 first = (u64)blockIdx.x * SEGMENT_ROWS;
    u32 rows = rows_of_segment(task.rows);
    const V* values = (const V*)task.values + first;
    V* grouped = (V*)to + first;
    if (rows == SEGMENT_ROWS) lay_rows<V, true>(values, places + first, rows, 0, grouped);
    else lay_rows<V, false>(values, places + first, rows, 0, grouped);
}

// As `encode_group`, for devices on which a block has too little shared memory.
extern "C" __global__ void __launch_bounds__(SEGMENT_THREADS, 1)
    encode_scatter(EncodeTask task, const u16* places, const u64* failed, u8* to) {
    if (failed[blockIdx.x] != 0) return;
    if (task.bits == 64) scatter_values<u64>(task, places, to);
    else if (task.bits == 32) scatter_values<u32>(task, places, to);
    else if (task.bits == 16) scatter_values<u16>(task, places, to);
    else scatter_values<u8>(task, places, to);
}
