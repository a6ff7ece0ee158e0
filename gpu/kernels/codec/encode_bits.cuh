// Operations on single values: bit width, stored form of differences, division, access, packing.
#pragma once
#include "codec/policy.cuh"
#include "warp/warp.cuh"

// The maximum number of exceptions of a tile, and the bits of a position (FORMAT.md, section 6.8).
static const u32 EXCEPTIONS_MAX = 64;
static const u32 POSITION_BITS = 10;

// bits(v) of FORMAT.md, section 5.1.
__device__ inline u32 bits_of(u32 value) { return 32 - (u32)__clz((int)value); }
__device__ inline u32 bits_of(u64 value) { return 64 - (u32)__clzll((i64)value); }

// A mask of the lower `bits` bits.
template <class T>
__device__ inline T mask_of(u32 bits) {
    return bits == 0 ? (T)0 : (T)(~(T)0 >> (8 * sizeof(T) - bits));
}

// A difference in its stored form: truncated to `bits`; if `mode` is not 0, also zigzag-encoded.
template <class T>
__device__ inline T stored(T difference, u32 mode, u32 bits) {
    T mask = mask_of<T>(bits);
    difference &= mask;
    if (mode == 0) return difference;
    T sign = (T)0 - ((difference >> (bits - 1)) & (T)1);
    return ((difference << 1) ^ sign) & mask;
}

// The number of words of packed(count, width).
__device__ inline u32 words_of(u32 count, u32 width) { return (count * width + 31) / 32; }

// Word `word` of packed(count, width) of `values`.
template <class T>
__device__ inline u32 packed_word(const T* values, u32 count, u32 width, u32 word) {
    u32 start = 32 * word, packed = 0;
    for (u32 at = start / width; at < count && at * width < start + 32; at++) {
        int shift = (int)(at * width) - (int)start;
        T value = values[at];
        packed |= shift >= 0 ? (u32)value << shift : (u32)(value >> -shift);
    }
    return packed;
}

// Reads a bit pattern of `bits` bits.
template <class T>
__device__ inline T read_pattern(u64 values, u32 bits, u64 at) {
    switch (bits) {
        case 8: return (T)((const unsigned char*)values)[at];
        case 16: return (T)((const unsigned short*)values)[at];
        case 32: return (T)((const u32*)values)[at];
        default: return (T)((const u64*)values)[at];
    }
}

// Writes a bit pattern of `bits` bits.
__device__ inline void write_pattern(u64 values, u32 bits, u64 at, u64 value) {
    switch (bits) {
        case 8: ((unsigned char*)values)[at] = (unsigned char)value; break;
        case 16: ((unsigned short*)values)[at] = (unsigned short)value; break;
        case 32: ((u32*)values)[at] = (u32)value; break;
        default: ((u64*)values)[at] = value;
    }
}

// Sets the flag in the summary which says that the tree cannot represent the values.
__device__ inline void refuse(const EncodeTask& task) { atomicOr((u64*)task.summary, 1ull); }

// Writes to `quotient` the exact quotient of (value - step.remainder) by the step's divisor; false
// if there is none. Multiplies by the inverse of the divisor's odd part modulo 2^64 (Granlund and
// Montgomery 1994, section 9).
__device__ inline bool divide(const EncodeStep& step, u64 value, u64& quotient) {
    bool is_signed = step.mode != 0, is_negative = false;
    u64 number;
    if (is_signed) {
        u32 up = 64 - step.bits;
        i64 extended = (i64)(value << up) >> up;
        i64 least = (i64)(0x8000000000000000ull + step.remainder);
        if (extended < least) return false;
        i64 rest = extended - (i64)step.remainder;
        is_negative = rest < 0;
        number = is_negative ? 0ull - (u64)rest : (u64)rest;
    } else {
        if (value < step.remainder) return false;
        number = value - step.remainder;
    }
    u64 product = number * step.inverse;
    u32 shift = step.shift;
    u64 turned = shift == 0 ? product : product >> shift | product << (64 - shift);
    if (turned > step.limit) return false;
    quotient = is_negative ? 0ull - turned : turned;
    return true;
}
