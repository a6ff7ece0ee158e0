// Encoding leaves of a tree: raw, afl, gfc and const as in FORMAT.md, section 6, and `store`, which
// is not in the format. `store` copies the values to memory for a node that is encoded after the
// values of the whole column are known.
#pragma once
#include "codec/encode_tile.cuh"

// FORMAT.md, section 6.1. Writes every value directly to its place in the section.
template <class T>
__device__ inline void block_encode_raw(Tile<T>& tile, const EncodeStep& step) {
    u32 count = tile.count();
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS)
        write_pattern(step.section, step.bits, (u64)tile.number * TILE_VALUES + at,
                      tile.values()[at]);
}

// Writes the values of a tile to `step.section`, and their number to `step.second`.
template <class T>
__device__ inline void block_encode_store(Tile<T>& tile, const EncodeStep& step) {
    block_encode_raw(tile, step);
    if (threadIdx.x == 0) ((unsigned short*)step.second)[tile.number] = tile.count();
}

// FORMAT.md, section 6.11. Writes no words; updates the least and the greatest value in the
// summary. In the end, these must be equal.
template <class T>
__device__ inline void block_encode_const(Tile<T>& tile, const EncodeStep& step) {
    u32 count = tile.count();
    T least = 0, greatest = 0;
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS) {
        T value = tile.values()[at], turned = ~value;
        least = turned > least ? turned : least;
        greatest = value > greatest ? value : greatest;
    }
    least = ~block_max(tile.memory, least);
    greatest = block_max(tile.memory, greatest);
    if (threadIdx.x == 0 && count > 0) {
        u64* bounds = (u64*)tile.task.summary + step.summary;
        atomicMin(bounds, (u64)least);
        atomicMax(bounds + 1, (u64)greatest);
    }
}

// Chooses the widths of groups from the bits that each group needs, in `memory.widths`: one width
// per group if that saves words, else the greatest width for all groups. Writes the chosen width of
// each group to `widths`, this width minus the least width to `groups`, and to `offsets` the offset
// of each group's words, followed by the number of all words. Writes the least width and the bits
// of a number in `groups` to `chosen`. Called by the first warp, a lane a group.
template <class T>
__device__ inline void warp_choose_widths(TileMemory<T>& memory, u32 count) {
    u32 groups = (count + 31) / 32, group = lane();
    u32 values = group_count(count, group), width = memory.widths[group];
    bool is_there = group < groups;
    u32 wide = warp_max(is_there ? width : 0);
    u32 low = warp_min(is_there ? width : 64);
    u32 bits = bits_of(wide - low);
    u32 varied = words_of(groups, bits) + warp_sum_u32(words_of(values, width));
    u32 uniform = warp_sum_u32(words_of(values, wide));
    bool is_varied = varied < uniform;
    if (!is_varied) {
        width = wide;
        low = wide;
        bits = 0;
    }
    u32 words = words_of(values, width);
    u32 before = warp_sum_before(words);
    memory.widths[group] = width;
    memory.groups[group] = is_there ? width - low : 0;
    memory.offsets[group] = before;
    if (group == 31) {
        memory.offsets[TILE_GROUPS] = before + words;
        memory.chosen[0] = low;
        memory.chosen[1] = bits;
    }
}

// The group that contains word `word` of the values' words.
template <class T>
__device__ inline u32 group_of_word(const TileMemory<T>& memory, u32 word) {
    u32 group = 0;
    for (u32 step = TILE_GROUPS / 2; step > 0; step /= 2)
        if (memory.offsets[group + step] <= word) group += step;
    return group;
}

// FORMAT.md, section 6.2.
template <class T>
__device__ inline void block_encode_afl(Tile<T>& tile, const EncodeStep& step) {
    TileMemory<T>& memory = tile.memory;
    u32 count = tile.count();
    const T* values = tile.values();
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        u32 width = warp_max(at < count ? bits_of(values[at]) : 0);
        if (lane() == 0) memory.widths[group_of(item)] = width;
    }
    __syncthreads();
    if (count == 0) {
        tile.close(step, 0, 0);
        return;
    }
    if (warp_number() == 0) warp_choose_widths(memory, count);
    __syncthreads();
    u32 low = memory.chosen[0], bits = memory.chosen[1], groups = (count + 31) / 32;
    u32 first = words_of(groups, bits), words = first + memory.offsets[TILE_GROUPS];
    u32* scratch = tile.scratch();
    for (u32 word = threadIdx.x; word < words; word += TILE_THREADS) {
        if (word < first) {
            scratch[word] = packed_word(memory.groups, groups, bits, word);
            continue;
        }
        u32 group = group_of_word(memory, word - first);
        u32 in_group = word - first - memory.offsets[group];
        scratch[word] = packed_word(values + group * 32, group_count(count, group),
                                 memory.widths[group], in_group);
    }
    tile.close(step, words, count | low << 16 | bits << 24);
}

// `gfc_code`: the code for at least `bytes` bytes. `gfc_bytes`: the number of bytes of a code.
__device__ inline u32 gfc_code(u32 bytes, u32 bits) {
    return bits == 64 && bytes > 3 ? (bytes == 4 ? 4 : bytes - 1) : bytes;
}
__device__ inline u32 gfc_bytes(u32 code, u32 bits) {
    return bits == 64 && code > 3 ? code + 1 : code;
}

// FORMAT.md, section 6.12.
template <class T>
__device__ inline void block_encode_gfc(Tile<T>& tile, const EncodeStep& step) {
    TileMemory<T>& memory = tile.memory;
    u32 count = tile.count(), bits = step.bits;
    const T* values = tile.values();
    T mask = mask_of<T>(bits), magnitudes[TILE_EACH];
    u32 nibbles[TILE_EACH], before[TILE_EACH], bytes[TILE_EACH];
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        bool is_there = at < count;
        T value = is_there ? values[at] : 0, last = is_there && at >= 32 ? values[at - 32] : 0;
        T difference = (value - last) & mask;
        bool is_negative = bits_of(difference) == bits;
        magnitudes[item] = is_negative ? (last - value) & mask : difference;
        u32 code = gfc_code((bits_of(magnitudes[item]) + 7) / 8, bits);
        bytes[item] = is_there ? gfc_bytes(code, bits) : 0;
        nibbles[item] = is_there ? code | (u32)is_negative << 3 : 0;
        before[item] = warp_sum_before(bytes[item]);
        if (lane() == 31) memory.groups[group_of(item)] = before[item] + bytes[item];
    }
    block_sum_groups(memory);
    u32 first = (count + 7) / 8, length = memory.offsets[TILE_GROUPS];
    u32 words = first + (length + 3) / 4;
    u32* scratch = tile.scratch();
    unsigned char* out = (unsigned char*)(scratch + first);
    if (threadIdx.x < ((0u - length) % 4)) out[length + threadIdx.x] = 0;
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = memory.offsets[group_of(item)] + before[item];
        for (u32 byte = 0; byte < bytes[item]; byte++)
            out[at + byte] = (unsigned char)(magnitudes[item] >> (8 * byte));
        // Eight neighbours make a word.
        u32 word = nibbles[item] << (4 * (lane() & 7));
        for (int near = 4; near > 0; near /= 2)
            word |= __shfl_xor_sync(WHOLE_WARP, word, near);
        if ((lane() & 7) == 0 && place_of(item) < count) scratch[place_of(item) / 8] = word;
    }
    tile.close(step, words, count);
}
