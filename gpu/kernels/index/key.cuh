// The keys of a tree: 64-bit integers (`u64`), and objects with times (`ObjectTime`). Each file of
// entry points is compiled once for each type, which it calls `Key`.
#pragma once
#include "layout.cuh"

__device__ __forceinline__ bool is_below(u64 one, u64 other) { return one < other; }

__device__ __forceinline__ bool is_below(const ObjectTime& one, const ObjectTime& other) {
    // Without branches: both comparisons are cheaper than a divergent warp.
    return (one.object < other.object) | ((one.object == other.object) & (one.time < other.time));
}

__device__ __forceinline__ bool is_equal(u64 one, u64 other) { return one == other; }

__device__ __forceinline__ bool is_equal(const ObjectTime& one, const ObjectTime& other) {
    return one.object == other.object && one.time == other.time;
}

__device__ __forceinline__ void set_least(u64& key) { key = 0; }
__device__ __forceinline__ void set_greatest(u64& key) { key = ~0ull; }

__device__ __forceinline__ void set_least(ObjectTime& key) {
    key.object = 0;
    key.time = (i64)(1ull << 63);
}

__device__ __forceinline__ void set_greatest(ObjectTime& key) {
    key.object = ~0ull;
    key.time = (i64)(~0ull >> 1);
}

// Loads through the read-only data cache, 16 bytes at a time if possible.
__device__ __forceinline__ u64 load_key(const u64* at) { return __ldg(at); }

__device__ __forceinline__ ObjectTime load_key(const ObjectTime* at) {
    ulonglong2 both = __ldg((const ulonglong2*)at);
    ObjectTime key;
    key.object = both.x;
    key.time = (i64)both.y;
    return key;
}

template <int COUNT>
__device__ __forceinline__ void load_keys(const ObjectTime* at, ObjectTime (&keys)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) keys[i] = load_key(at + i);
}

template <int COUNT>
__device__ __forceinline__ void load_keys(const u64* at, u64 (&keys)[COUNT]) {
#pragma unroll
    for (int i = 0; i + 1 < COUNT; i += 2) {
        ulonglong2 both = __ldg((const ulonglong2*)(at + i));
        keys[i] = both.x;
        keys[i + 1] = both.y;
    }
    if (COUNT % 2 == 1) keys[COUNT - 1] = load_key(at + COUNT - 1);
}
