// Numbers of the leaf `huffman` that its encoder and its decoder share (FORMAT.md, section 6.17).
#pragma once
#include "layout.cuh"

static const u32 CODE_BITS_MAX = 12;
static const u32 CODE_SYMBOLS_MAX = 256;
// Values of a group, and bits of the size of one at most.
static const u32 CODE_GROUP_VALUES = 64;
static const u32 CODE_SIZE_BITS_MAX = 13;
static_assert(CODEC_CODE_ENTRIES == 1u << CODE_BITS_MAX, "an entry a pattern");
