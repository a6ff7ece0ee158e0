// Encoding the leaves `huffman` and `huffman_long` (FORMAT.md, sections 6.17 and 6.20). Prefix sums
// of the sizes of values give the place of each value's bits, which are merged in shared memory.
#pragma once
#include "codec/encode_tile.cuh"

// Returns the bucket of a value at a split, and the number of its low bits in `low_bits`.
template <class T>
__device__ inline u32 bucket_of(T value, u32 split, u32& low_bits) {
    u32 bits = bits_of(value);
    low_bits = bits > split + 1 ? bits - split - 1 : 0;
    return (low_bits << split) + (u32)(value >> low_bits);
}

// Writes the lower `count` bits, at most 32, of `bits` at bit `at` of words that are initially 0.
__device__ inline void merge_bits(u32* words, u32 at, u32 bits, u32 count) {
    if (count == 0) return;
    u32 shift = at % 32;
    atomicOr(&words[at / 32], bits << shift);
    if (shift + count > 32) atomicOr(&words[at / 32 + 1], bits >> (32 - shift));
}

// Writes to `widths` the size in bits of each group minus the least size, and to `chosen` the least
// size, the number of bits of a difference, and the number of words of all differences. Called by
// the first warp.
template <class T>
__device__ inline void warp_choose_sizes(TileMemory<T>& memory, CodeGroups form, u32 count) {
    u32 groups = form.count(count), steps = form.values / 32;
    bool is_there = lane() < groups;
    u32 first = is_there ? steps * lane() : 0;
    u32 size = memory.offsets[first + steps] - memory.offsets[first];
    u32 most = warp_max(is_there ? size : 0), least = warp_min(is_there ? size : ~0u);
    u32 bits = bits_of(most - least);
    memory.widths[lane()] = is_there ? size - least : 0;
    if (lane() == 0) {
        memory.chosen[0] = least;
        memory.chosen[1] = bits;
        memory.chosen[2] = words_of(groups, bits);
    }
}

// State of a thread between the two passes. Either, for each value, its code and the number of bits
// before it in its group of 32; or, for four neighbouring values together, the `merged` codes and
// their number of bits.
struct HeldCodes {
    u32 codes[TILE_EACH];
    u32 before[TILE_EACH];
    u64 merged;
    u32 merged_bits;
};

// Computes the sizes of values and of their groups of 32. Lanes have consecutive values.
template <class T>
__device__ inline void warp_size_values(Tile<T>& tile, const EncodeStep& step, HeldCodes& held) {
    const u32* codes = (const u32*)step.second;
    const T* values = tile.values();
    u32 count = tile.count();
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item), size = 0, low_bits;
        if (at < count) {
            held.codes[item] = codes[bucket_of(values[at], step.mode, low_bits)];
            size = (held.codes[item] >> 16) + low_bits;
        }
        held.before[item] = warp_sum_before(size);
        if (lane() == 31) tile.memory.groups[group_of(item)] = held.before[item] + size;
    }
}

template <class T>
__device__ inline void merge_values(Tile<T>& tile, const EncodeStep& step, const HeldCodes& held) {
    TileMemory<T>& memory = tile.memory;
    const T* values = tile.values();
    u32 count = tile.count();
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item), low_bits;
        if (at >= count) continue;
        T value = values[at];
        bucket_of(value, step.mode, low_bits);
        u32 code = held.codes[item], length = code >> 16;
        u32 place = memory.offsets[group_of(item)] + held.before[item];
        merge_bits(memory.coded, place, code & 0xffff, length);
        T low = value & mask_of<T>(low_bits);
        merge_bits(memory.coded, place + length, (u32)low, low_bits < 32 ? low_bits : 32);
        if (low_bits > 32)
            merge_bits(memory.coded, place + length + 32, (u32)((u64)low >> 32), low_bits - 32);
    }
}

// As `warp_size_values`, but every value is a symbol (such as a byte), and a thread has four
// consecutive values and merges their codes. Eight threads share a group of 32.
static_assert(TILE_EACH == 4 && TILE_EACH * CODE_BITS_MAX <= 64, "four codes are one pattern");
template <class T>
__device__ inline void warp_size_whole(Tile<T>& tile, const EncodeStep& step, HeldCodes& held) {
    const u32* codes = (const u32*)step.second;
    const T* values = tile.values();
    u32 count = tile.count(), size = 0;
    held.merged = 0;
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = TILE_EACH * threadIdx.x + item;
        if (at >= count) continue;
        u32 code = codes[values[at]];
        held.merged |= (u64)(code & 0xffff) << size;
        size += code >> 16;
    }
    held.merged_bits = size;
    u32 before = warp_sum_before(size);
    before -= __shfl_sync(WHOLE_WARP, before, lane() & ~7u);
    held.before[0] = before;
    if (lane() % 8 == 7) tile.memory.groups[threadIdx.x / 8] = before + size;
}

template <class T>
__device__ inline void merge_whole(Tile<T>& tile, const HeldCodes& held) {
    TileMemory<T>& memory = tile.memory;
    u32 place = memory.offsets[threadIdx.x / 8] + held.before[0], bits = held.merged_bits;
    merge_bits(memory.coded, place, (u32)held.merged, bits < 32 ? bits : 32);
    if (bits > 32) merge_bits(memory.coded, place + 32, (u32)(held.merged >> 32), bits - 32);
}

template <class T>
__device__ inline void block_encode_huffman(Tile<T>& tile, const EncodeStep& step) {
    TileMemory<T>& memory = tile.memory;
    u32 count = tile.count();
    if (count == 0) {
        tile.close(step, 0, 0);
        return;
    }
    // True if no value has low bits, because the symbols of values with low bits begin at
    // 2^(split + 1).
    bool are_whole = step.remainder <= 2u << step.mode;
    HeldCodes held;
    if (are_whole) {
        warp_size_whole(tile, step, held);
    } else {
        warp_size_values(tile, step, held);
    }
    block_sum_groups(memory);
    u32 bits = memory.offsets[TILE_GROUPS], coded = (bits + 31) / 32;
    for (u32 word = threadIdx.x; word < coded; word += TILE_THREADS) memory.coded[word] = 0;
    CodeGroups form = CodeGroups::of(step.kind);
    if (warp_number() == 0) warp_choose_sizes(memory, form, count);
    __syncthreads();
    if (are_whole) {
        merge_whole(tile, held);
    } else {
        merge_values(tile, step, held);
    }
    __syncthreads();
    u32 least = memory.chosen[0], size_bits = memory.chosen[1], first = memory.chosen[2];
    u32 groups = form.count(count);
    u32* scratch = tile.scratch();
    for (u32 word = threadIdx.x; word < first + coded; word += TILE_THREADS)
        scratch[word] = word < first ? packed_word(memory.widths, groups, size_bits, word)
                                     : memory.coded[word - first];
    tile.close(step, first + coded, count | least << 11 | size_bits << (11 + form.size_bits_max));
}
