// Statistics of a column for the planner: least and greatest value, numbers of equal and descending
// neighbours, common divisor, fitting decimals, frequencies. All are integers and independent of
// the order of threads, so they equal the host's. Any number of threads.
#include "codec/encode_huffman.cuh"
#include "codec/encode_nodes.cuh"

// The number of threads of the launch, which is the stride of each thread.
__device__ inline u32 all_threads() { return gridDim.x * blockDim.x; }
__device__ inline u32 this_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Writes four numbers to `found`: the least and the greatest value, both XORed with `sign` (the
// sign bit, or 0), the number of values equal to the previous value, and the number of values less
// than the previous value. Initially, the first number is the greatest u64 and the others are 0.
extern "C" __global__ void statistics_bounds(EncodeTask task, u64 sign, u64* found) {
    u64 least = ~0ull, greatest = 0, equal = 0, less = 0;
    for (u32 at = this_thread(); at < task.rows; at += all_threads()) {
        u64 value = read_pattern<u64>(task.values, task.bits, at) ^ sign;
        least = value < least ? value : least;
        greatest = value > greatest ? value : greatest;
        if (at > 0) {
            u64 before = read_pattern<u64>(task.values, task.bits, at - 1) ^ sign;
            equal += before == value;
            less += value < before;
        }
    }
    least = warp_min(least);
    greatest = warp_max(greatest);
    equal = warp_sum(equal);
    less = warp_sum(less);
    if (lane() != 0) return;
    atomicMin(found, least);
    atomicMax(found + 1, greatest);
    atomicAdd(found + 2, equal);
    atomicAdd(found + 3, less);
}

__device__ inline u64 greatest_common(u64 one, u64 other) {
    while (other != 0) {
        u64 rest = one % other;
        one = other;
        other = rest;
    }
    return one;
}

// Writes the greatest common divisor of all differences of values of `width` bits, which may be
// stored in more bits, to one number that is initially 0.
extern "C" __global__ void statistics_divisor(EncodeTask task, u32 width, u32 is_signed,
                                              u64* found) {
    u32 up = 64 - width;
    u64 first = read_pattern<u64>(task.values, task.bits, 0);
    i64 first_signed = (i64)(first << up) >> up;
    u64 divisor = 0;
    for (u32 at = this_thread(); at < task.rows && divisor != 1; at += all_threads()) {
        u64 value = read_pattern<u64>(task.values, task.bits, at), difference;
        if (is_signed != 0) {
            i64 number = (i64)(value << up) >> up;
            difference = number < first_signed ? (u64)first_signed - (u64)number
                                               : (u64)number - (u64)first_signed;
        } else {
            difference = value < first ? first - value : value - first;
        }
        if (difference != 0) divisor = greatest_common(difference, divisor);
    }
    for (int step = 16; step > 0; step /= 2)
        divisor = greatest_common(divisor, __shfl_xor_sync(WHOLE_WARP, divisor, step));
    if (lane() != 0 || divisor == 0) return;
    u64 seen = *(volatile u64*)found;
    while (true) {
        u64 both = greatest_common(divisor, seen);
        if (both == seen) return;
        u64 was = atomicCAS(found, seen, both);
        if (was == seen) return;
        seen = was;
    }
}

// Finds the numbers of decimals with which all floats of `width` bits can be stored as integers.
// Clears bit k of `found` if k decimals do not suffice; initially all requested bits are set.
// `powers` has the powers of ten.
extern "C" __global__ void statistics_decimals(EncodeTask task, u32 width, const double* powers,
                                               u64* found) {
    u64 fitting = *(volatile u64*)found;
    for (u32 at = this_thread(); at < task.rows && fitting != 0; at += all_threads()) {
        u64 value = read_pattern<u64>(task.values, task.bits, at), integer;
        for (u64 left = fitting; left != 0; left &= left - 1) {
            u32 decimals = (u32)__ffsll((i64)left) - 1;
            if (!to_integer(value, width, powers[decimals], integer))
                fitting &= ~(1ull << decimals);
        }
    }
    fitting = ~warp_or(~fitting);
    if (lane() == 0) atomicAnd(found, fitting);
}

// Adds the frequencies of the buckets of all values at a split to CODE_SYMBOLS_MAX numbers, which
// are initially 0. If `task.counts` is set, tile t has only its first `counts[t]` values.
extern "C" __global__ void __launch_bounds__(TILE_THREADS)
    statistics_buckets(EncodeTask task, u32 split, u32* frequencies) {
    __shared__ u32 counted[CODE_SYMBOLS_MAX];
    for (u32 symbol = threadIdx.x; symbol < CODE_SYMBOLS_MAX; symbol += blockDim.x)
        counted[symbol] = 0;
    __syncthreads();
    const unsigned short* counts = (const unsigned short*)task.counts;
    u32 end = counts != 0 ? task.tiles * TILE_VALUES : task.rows, low_bits;
    for (u32 at = this_thread(); at < end; at += all_threads()) {
        if (counts != 0 && at % TILE_VALUES >= counts[at / TILE_VALUES]) continue;
        u64 value = read_pattern<u64>(task.values, task.bits, at);
        atomicAdd(&counted[bucket_of(value, split, low_bits)], 1);
    }
    __syncthreads();
    for (u32 symbol = threadIdx.x; symbol < CODE_SYMBOLS_MAX; symbol += blockDim.x)
        if (counted[symbol] > 0) atomicAdd(&frequencies[symbol], counted[symbol]);
}
