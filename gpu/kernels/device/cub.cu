// CUB's sorts and scans behind a C interface. Every function returns a CUDA error number. If
// `scratch` is null, a function only writes the size of the memory that it needs, in bytes, to
// `scratch_bytes`.
#include <cub/cub.cuh>
#include <cuda_runtime.h>

typedef unsigned int u32;
typedef unsigned long long u64;

// Stable sort of (key, value) pairs by the lower `bits` bits of the key.
extern "C" int shoal_sort_pairs(void* scratch, size_t* scratch_bytes, const u32* keys,
                                u32* sorted_keys, const u32* values, u32* sorted_values,
                                u32 length, int bits, cudaStream_t stream) {
    return (int)cub::DeviceRadixSort::SortPairs(scratch, *scratch_bytes, keys, sorted_keys, values,
                                                sorted_values, length, 0, bits, stream);
}

// As `shoal_sort_pairs`, with 64-bit keys.
extern "C" int shoal_sort_pairs_wide(void* scratch, size_t* scratch_bytes, const u64* keys,
                                     u64* sorted_keys, const u32* values, u32* sorted_values,
                                     u32 length, int bits, cudaStream_t stream) {
    return (int)cub::DeviceRadixSort::SortPairs(scratch, *scratch_bytes, keys, sorted_keys, values,
                                                sorted_values, length, 0, bits, stream);
}

// Exclusive prefix sums of 32 bits.
extern "C" int shoal_sum_before(void* scratch, size_t* scratch_bytes, const u32* values, u32* sums,
                                u32 length, cudaStream_t stream) {
    return (int)cub::DeviceScan::ExclusiveSum(scratch, *scratch_bytes, values, sums, length,
                                              stream);
}

// Exclusive prefix sums of 64 bits, of 32-bit values.
extern "C" int shoal_sum_before_wide(void* scratch, size_t* scratch_bytes, const u32* values,
                                     u64* sums, u32 length, cudaStream_t stream) {
    return (int)cub::DeviceScan::ExclusiveScan(scratch, *scratch_bytes, values, sums,
                                               cuda::std::plus<u64>(), (u64)0, length, stream);
}
