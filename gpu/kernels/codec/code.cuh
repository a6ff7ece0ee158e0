// Constants that the encoder and the decoder of the leaves `huffman` and `huffman_long` share
// (FORMAT.md, sections 6.17 and 6.20).
#pragma once
#include "layout.cuh"

static const u32 CODE_BITS_MAX = 12;
static const u32 CODE_SYMBOLS_MAX = 256;
// Values per group, in both leaves, and the maximum number of bits of a group's size in both.
static const u32 CODE_GROUP_VALUES = 64, CODE_LONG_GROUP_VALUES = 256;
static const u32 CODE_SIZE_BITS_MAX = 13, CODE_LONG_SIZE_BITS_MAX = 15;

struct CodeGroups {
    u32 values, size_bits_max;

    __device__ static CodeGroups of(u32 encoding) {
        bool is_long = encoding == CODEC_HUFFMAN_LONG;
        return {is_long ? CODE_LONG_GROUP_VALUES : CODE_GROUP_VALUES,
                is_long ? CODE_LONG_SIZE_BITS_MAX : CODE_SIZE_BITS_MAX};
    }
    // The number of groups of `count` values.
    __device__ u32 count(u32 count) const { return (count + values - 1) / values; }
};
static_assert(CODEC_CODE_ENTRIES == 1u << CODE_BITS_MAX, "an entry a pattern");
