// Decoding the leaves `huffman` and `huffman_long` (FORMAT.md, sections 6.17 and 6.20): one lane a
// group of 64 or 256 values.
//
// Nothing is read outside the tile's words, whatever table and words contain.
#pragma once
#include "codec/code.cuh"
#include "codec/leaf.cuh"

// A decoded code: its length, the number of low bits that follow, and the high part of the value.
struct CodeEntry {
    u32 packed;

    __device__ static u32 of(u32 symbol, u32 split, u32 length) {
        u32 low_bits = symbol >> split;
        low_bits = low_bits > 0 ? low_bits - 1 : 0;
        return length | low_bits << 4 | (symbol - (low_bits << split)) << 10;
    }
    __device__ u32 length() const { return packed & 15; }
    __device__ u32 low_bits() const { return packed >> 4 & 63; }
    __device__ u32 high() const { return packed >> 10; }
};

// Most codes are short. The entries of codes of up to CODE_FEW_BITS bits are copied to shared
// memory, where random reads cost little. The places of longer codes contain NO_CODE there.
static const u32 CODE_FEW_BITS = 8;
static const u32 CODE_FEW = 1u << CODE_FEW_BITS;
static const u32 NO_CODE = ~0u;

// Copies the entries of short codes to shared memory.
__device__ __forceinline__ void load_few(const u32* table, u32 (&few)[CODE_FEW]) {
#pragma unroll
    for (u32 at = 0; at < CODE_FEW / 32; at++) {
        CodeEntry entry = {table[at * 32 + lane()]};
        few[at * 32 + lane()] = entry.length() > CODE_FEW_BITS ? NO_CODE : entry.packed;
    }
}

// Fills the decoding table of a code from the lengths of its symbols. Returns true to all threads
// if the code is complete or has a single symbol, else false. Called by all threads of a block.
__device__ inline bool block_fill_codes(const u32* lengths, u32 symbols, u32 split, u32* table) {
    __shared__ unsigned char length_of[CODE_SYMBOLS_MAX];
    __shared__ u32 counts[16], next[16];
    if (threadIdx.x < 16) counts[threadIdx.x] = 0;
    __syncthreads();
    for (u32 symbol = threadIdx.x; symbol < symbols; symbol += blockDim.x) {
        u32 length = lengths[symbol / 8] >> symbol % 8 * 4 & 15;
        length_of[symbol] = length;
        atomicAdd(&counts[length], 1);
    }
    __syncthreads();
    u32 filled = 0, code = 0;
    for (u32 length = 1; length < 16; length++) {
        code <<= 1;
        if (threadIdx.x == 0) next[length] = code;
        code += counts[length];
        filled += length <= CODE_BITS_MAX ? counts[length] << (CODE_BITS_MAX - length)
                                          : counts[length] * 2 * CODEC_CODE_ENTRIES;
    }
    bool is_single = symbols - counts[0] == 1 && counts[1] == 1;
    if (!is_single && filled != CODEC_CODE_ENTRIES) return false;
    __syncthreads();
    for (u32 symbol = threadIdx.x; symbol < symbols; symbol += blockDim.x) {
        u32 length = length_of[symbol];
        if (length == 0) continue;
        u32 place = next[length];
        for (u32 other = 0; other < symbol; other++) place += length_of[other] == length;
        u32 first = is_single ? 0 : __brev(place) >> (32 - length);
        length = is_single ? 0 : length;
        u32 entry = CodeEntry::of(symbol, split, length);
        for (u32 at = first; at < CODEC_CODE_ENTRIES; at += 1u << length) table[at] = entry;
    }
    return true;
}

// Reads bits in order and loads each word once. Bits after the last word are 0.
struct BitReader {
    const u32* words;
    u32 length;
    // The number of the next word, the loaded bits that are not yet taken, and the number of these
    // bits.
    u32 next;
    u64 window;
    u32 available;

    __device__ void begin(u32 bit) {
        next = bit / 32;
        window = 0, available = 0;
        fill();
        take(bit % 32);
    }
    // Loads words until more than 32 bits are available.
    __device__ void fill() {
        if (available > 32) return;
        window |= (u64)(next < length ? words[next] : 0) << available;
        available += 32, next++;
        if (available > 32) return;
        window |= (u64)(next < length ? words[next] : 0) << available;
        available += 32, next++;
    }
    __device__ void take(u32 count) { window >>= count, available -= count; }
    __device__ u32 at() const { return 32 * next - available; }
};

// The table entry of the next code. `few` is the part of the table for codes of at most
// CODE_FEW_BITS.
__device__ __forceinline__ CodeEntry entry_at(const BitReader& bits, const u32* few,
                                              const u32* table) {
    CodeEntry entry = {few[(u32)bits.window % CODE_FEW]};
    if (entry.packed == NO_CODE) entry.packed = table[(u32)bits.window % CODEC_CODE_ENTRIES];
    return entry;
}

__device__ __forceinline__ u32 value_at(BitReader& bits, const u32* few, const u32* table, u32) {
    bits.fill();
    CodeEntry entry = entry_at(bits, few, table);
    u32 low_bits = entry.low_bits() % 32;
    bits.take(entry.length());
    bits.fill();
    u32 low = (u32)bits.window & ((1u << low_bits) - 1);
    bits.take(low_bits);
    return entry.high() << low_bits | low;
}

__device__ __forceinline__ u64 value_at(BitReader& bits, const u32* few, const u32* table, u64) {
    bits.fill();
    CodeEntry entry = entry_at(bits, few, table);
    u32 low_bits = entry.low_bits(), first = low_bits < 32 ? low_bits : 32;
    bits.take(entry.length());
    bits.fill();
    u64 low = (u64)((u32)bits.window & (u32)((1ull << first) - 1));
    bits.take(first);
    if (low_bits > 32) {
        bits.fill();
        u32 rest = low_bits - 32;
        low |= (u64)((u32)bits.window & ((1u << rest) - 1)) << 32;
        bits.take(rest);
    }
    return (u64)entry.high() << low_bits | low;
}

// The place of a value in shared memory. Units of four values are permuted within each group, so
// that lanes, each of which decodes one group, store to different banks.
__device__ __forceinline__ u32 rotated(u32 place) {
    return place ^ (place / CODE_GROUP_VALUES * 4 % CODE_GROUP_VALUES);
}

template <class T>
__device__ __forceinline__ bool warp_read_huffman(const u8* input, const u32* table,
                                             const CodecStep& step, u32 tiles, u32 tile, u32 count,
                                             u32 (&few)[CODE_FEW], T (&memory)[TILE_VALUES],
                                             Tile<T>& out) {
    TileWords at = tile_words(input, step, tiles, tile);
    CodeGroups form = CodeGroups::of(step.code);
    u32 least = at.fields >> 11 & ((1u << form.size_bits_max) - 1);
    u32 size_bits = at.fields >> (11 + form.size_bits_max), groups = form.count(count);
    u32 size_words = (groups * size_bits + 31) / 32;
    if (!at.is_right || (at.fields & 0x7ff) != count || size_bits > form.size_bits_max
        || size_words > at.length)
        return false;
    bool is_group = lane() < groups;
    u32 size = is_group ? least : 0;
    if (is_group && size_bits > 0) size += unpack(at.words, lane() * size_bits, size_bits, 0u);
    u32 to = warp_sum_to(size), total = __shfl_sync(WHOLE_WARP, to, 31);
    if (size_words + (total + 31) / 32 != at.length) return false;
    BitReader bits = {at.words + size_words, at.length - size_words};
    bits.begin(to - size);
    load_few(table, few);
    u32 first = lane() * form.values;
    u32 last = first + form.values < count ? first + form.values : count;
    __syncwarp();
    // Without low bits, 32 bits hold two codes.
    u32 place = first;
    for (; step.extra != 0 && place + 1 < last; place += 2) {
        bits.fill();
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            CodeEntry entry = entry_at(bits, few, table);
            bits.take(entry.length());
            memory[rotated(place + half)] = entry.high();
        }
    }
    for (; place < last; place++)
        memory[rotated(place)] = value_at(bits, few, table, (T)0);
    if (__any_sync(WHOLE_WARP, is_group && bits.at() != to)) return false;
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < RUNS; k++)
        load_four((const u8*)memory, rotated(place_of(k)), 8 * sizeof(T), out.v[k]);
    __syncwarp();
    return true;
}
