// Encodes a tile of a column with one warp. A lane has 32 neighbouring values, one group of afl, in
// registers; shared memory is used only for data that lanes exchange.
//
// Supports only common nodes: the leaves raw and afl, and delta, scale, divisor, patch and keyed
// differences. Values beyond `count` are 0. All threads of a warp must call each function.
#pragma once
#include "codec/encode_bits.cuh"
#include "codec/keyed.cuh"

template <class T>
struct Lanes {
    const EncodeTask& task;
    u32 number;
    // The number of values of the tile, and of this lane.
    u32 count;
    u32 mine;
    // Words already staged.
    u32 staged;
    // Shared memory to rearrange a tile, followed by memory for its exceptions; and shared memory
    // for values that wait for a later step.
    T* memory;
    T* waiting;
    // v[i][j] is place 32 lane + 4 i + j.
    Tile<T> tile;

    __device__ __forceinline__ T& at(u32 index) { return tile.v[index / 4][index % 4]; }

    __device__ __forceinline__ void limit(u32 values) {
        count = values;
        u32 first = lane() * LANE_VALUES;
        mine = count <= first ? 0 : (count - first < LANE_VALUES ? count - first : LANE_VALUES);
    }
    // Sets values beyond `count` to 0.
    __device__ __forceinline__ void clear() {
        if (count == TILE_VALUES) return;
#pragma unroll
        for (u32 index = 0; index < LANE_VALUES; index++)
            if (index >= mine) at(index) = 0;
    }
    __device__ __forceinline__ u32* scratch() {
        return (u32*)task.staged + (u64)number * task.staged_words + staged;
    }
    // Commits the words just written to `scratch` as the tile's part of a section.
    __device__ __forceinline__ void close(const EncodeStep& step, u32 words, u32 entry) {
        if (lane() == 0) {
            u64 at = (u64)step.variable * task.tiles + number;
            ((u32*)task.sizes)[at] = words;
            ((u32*)task.entries)[at] = entry;
        }
        staged += words;
    }
};

// Loads the tile's values from the column.
template <class T>
__device__ __forceinline__ void warp_load(Lanes<T>& lanes) {
    const EncodeTask& task = lanes.task;
    u32 first = lanes.number * TILE_VALUES, left = task.rows - first;
    lanes.limit(left < TILE_VALUES ? left : TILE_VALUES);
    const u8* values = (const u8*)task.values + (u64)first * (task.bits / 8);
    bool is_whole = lanes.count == TILE_VALUES && ((u64)values & 15) == 0;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 place = place_of(k);
        if (is_whole) {
            load_four(values, place, task.bits, lanes.tile.v[k]);
            continue;
        }
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u64 row = (u64)first + place + j;
            lanes.tile.v[k][j] = 0;
            if (place + j >= lanes.count) continue;
            lanes.tile.v[k][j] = read_pattern<T>(task.values, task.bits, row);
        }
    }
    warp_to_ranges(lanes.memory, lanes.tile);
}

// FORMAT.md, section 6.1. Writes every value directly to its place in the section.
template <class T>
__device__ __forceinline__ void warp_encode_raw(Lanes<T>& lanes, const EncodeStep& step) {
    warp_from_ranges(lanes.memory, lanes.tile);
    u8* to = (u8*)step.section + (u64)lanes.number * TILE_VALUES * (step.bits / 8);
    store_tile(to, lanes.count, step.bits, lanes.tile);
}

// The place of a word in shared memory. Words that are 32 apart are in different banks.
__device__ __forceinline__ u32 bank_of(u32 word) { return word ^ (word / 32 & 31); }

// Where `store_range` stores this lane's value `index` in `lanes.memory`.
template <class T>
__device__ __forceinline__ u32 kept_at(u32 index) {
    return lane() * LANE_VALUES + (index ^ 16 / (u32)sizeof(T) * (lane() & 7));
}

// Copies a lane's values to shared memory, where they can be indexed by a variable.
template <class T>
__device__ __forceinline__ void store_range(Lanes<T>& lanes) {
#pragma unroll
    for (u32 i = 0; i < RUNS; i++) put_range(lanes.memory, i, lanes.tile.v[i]);
}

// Packs values one after another into words of shared memory.
struct Packer {
    u32* words;
    u32 word;
    // The number of bits packed so far, including the bits of complete words.
    u32 filled;
    u32 packed;

    // Appends a value of `width` bits, at most 32.
    __device__ __forceinline__ void put(u32 value, u32 width) {
        u32 bit = filled;
        packed |= __funnelshift_l(0, value, bit);
        filled += width;
        if (((filled ^ bit) & 32) != 0) {
            words[bank_of(word++)] = packed;
            // The bits that did not fit into the word; 0 if the value ends with it.
            packed = __funnelshift_l(value, 0, bit);
        }
    }
    __device__ __forceinline__ void put_wide(u32 value, u32 width) { put(value, width); }
    __device__ __forceinline__ void put_wide(u64 value, u32 width) {
        put((u32)value, width < 32 ? width : 32);
        if (width > 32) put((u32)(value >> 32), width - 32);
    }
};

// Copies words from shared memory to the tile's scratch memory.
template <class T>
__device__ __forceinline__ void warp_stage(Lanes<T>& lanes, u32 words) {
    const u32* from = (const u32*)lanes.memory;
    u32* scratch = lanes.scratch();
    __syncwarp();
#pragma unroll 4
    for (u32 word = lane(); word < words; word += 32) scratch[word] = from[bank_of(word)];
}

// FORMAT.md, section 6.2.
template <class T>
__device__ __forceinline__ void warp_encode_afl(Lanes<T>& lanes, const EncodeStep& step) {
    if (lanes.count == 0) return lanes.close(step, 0, 0);
    T any = 0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) any |= lanes.at(index);
    // Uses one width per group if that saves words, else the greatest width for all groups.
    u32 width = bits_of(any), groups = (lanes.count + 31) / 32;
    bool is_there = lanes.mine > 0;
    u32 wide = warp_max(width);
    u32 low = warp_min(is_there ? width : 64);
    u32 bits = bits_of(wide - low), first = words_of(groups, bits);
    u32 varied = __reduce_add_sync(WHOLE_WARP, words_of(lanes.mine, width));
    u32 uniform = __reduce_add_sync(WHOLE_WARP, words_of(lanes.mine, wide));
    if (first + varied >= uniform) width = wide, low = wide, bits = 0, first = 0;
    u32 own = words_of(lanes.mine, width), to = warp_sum_to(own);
    u32 words = first + __shfl_sync(WHOLE_WARP, to, 31);
    u32* packed = (u32*)lanes.memory;
    __syncwarp();
    if (lane() < first) packed[lane()] = 0;
    __syncwarp();
    if (is_there && bits > 0) {
        u32 bit = lane() * bits, more = width - low;
        atomicOr(&packed[bit / 32], more << bit % 32);
        if (bit % 32 + bits > 32) atomicOr(&packed[bit / 32 + 1], more >> (32 - bit % 32));
    }
    Packer packer = {packed, first + to - own, 0, 0};
    // Packs the zeros after a partial group too, so that 32 values always end at the end of a word.
    // The surplus words are not copied.
    u32 put = is_there ? width : 0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) packer.put_wide(lanes.at(index), put);
    warp_stage(lanes, words);
    lanes.close(step, words, lanes.count | low << 16 | bits << 24);
}

// Converts all differences to their stored form.
template <class T>
__device__ __forceinline__ void warp_store_all(Lanes<T>& lanes, const EncodeStep& step) {
    if (step.bits == 8 * sizeof(T) && step.mode != 0) {
#pragma unroll
        for (u32 index = 0; index < LANE_VALUES; index++)
            lanes.at(index) = stored(lanes.at(index), 1, 8 * sizeof(T));
    } else {
#pragma unroll
        for (u32 index = 0; index < LANE_VALUES; index++)
            lanes.at(index) = stored(lanes.at(index), step.mode, step.bits);
    }
    lanes.clear();
}

// FORMAT.md, section 6.3.
template <class T>
__device__ __forceinline__ void warp_encode_delta(Lanes<T>& lanes, const EncodeStep& step) {
    T first = lanes.at(0), below = __shfl_up_sync(WHOLE_WARP, lanes.at(LANE_VALUES - 1), 1);
#pragma unroll
    for (u32 index = LANE_VALUES - 1; index > 0; index--) lanes.at(index) -= lanes.at(index - 1);
    // The first difference repeats the second.
    lanes.at(0) = lane() > 0 ? first - below : (lanes.count > 1 ? lanes.at(1) : 0);
    if (lane() == 0)
        write_pattern(step.section, step.bits, lanes.number,
                      lanes.count > 0 ? first - lanes.at(0) : 0);
    warp_store_all(lanes, step);
}

// FORMAT.md, section 6.5; `mode` is 1 for signed values.
template <class T>
__device__ __forceinline__ void warp_encode_scale(Lanes<T>& lanes, const EncodeStep& step) {
    T mask = mask_of<T>(step.bits), sign = step.mode != 0 ? (T)1 << (step.bits - 1) : 0;
    T least = ~(T)0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) {
        T turned = (lanes.at(index) + sign) & mask;
        if (index < lanes.mine && turned < least) least = turned;
    }
    least = warp_min(least);
    T base = lanes.count > 0 ? (least - sign) & mask : 0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++)
        lanes.at(index) = (lanes.at(index) - base) & mask;
    lanes.clear();
    if (lane() == 0) write_pattern(step.section, step.bits, lanes.number, base);
}

// FORMAT.md, section 6.6.
template <class T>
__device__ __forceinline__ void warp_encode_divisor(Lanes<T>& lanes, const EncodeStep& step) {
    T mask = mask_of<T>(step.bits);
    bool fits = true;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) {
        u64 quotient = 0;
        bool divides = divide(step, lanes.at(index), quotient);
        fits = fits && (divides || index >= lanes.mine);
        lanes.at(index) = (T)quotient & mask;
    }
    lanes.clear();
    if (!fits) refuse(lanes.task);
}

// Replaces the values of heads by 0, and every other value by its difference from the previous one.
template <class T>
__device__ __forceinline__ void warp_subtract_before(Lanes<T>& lanes, u32 heads) {
    T last = __shfl_up_sync(WHOLE_WARP, lanes.at(LANE_VALUES - 1), 1);
#pragma unroll
    for (u32 up = 0; up < LANE_VALUES; up++) {
        u32 index = LANE_VALUES - 1 - up;
        T difference = lanes.at(index) - (index > 0 ? lanes.at(index - 1) : last);
        lanes.at(index) = (heads >> index & 1) != 0 ? 0 : difference;
    }
}

// FORMAT.md, sections 6.14 and 6.15. Moves the values of heads to `waiting`; returns their number.
template <class T>
__device__ __forceinline__ u32 warp_encode_keyed(Lanes<T>& lanes, const EncodeStep& step) {
    bool is_second = step.kind == CODEC_KEYED_DELTA2;
    const u32* words = (const u32*)lanes.task.heads + (u64)lanes.number * 32;
    u32 heads = lanes.mine > 0 ? words[lane()] : 0, own = __popc(heads);
    u32 to = warp_sum_to(own), rank = to - own, all = __shfl_sync(WHOLE_WARP, to, 31);
    __syncwarp();
    store_range(lanes);
#pragma unroll 1
    for (u32 left = heads; left != 0; left &= left - 1)
        lanes.waiting[bank_of(rank++)] = lanes.memory[kept_at<T>(__ffs((int)left) - 1)];
    warp_subtract_before(lanes, heads);
    if (is_second) warp_subtract_before(lanes, heads);
    warp_store_all(lanes, step);
    if (lane() == 0) {
        ((u16*)step.section)[lanes.number] = (u16)all;
        atomicAdd((u64*)lanes.task.summary + step.summary, (u64)all);
    }
    return all;
}

// Replaces the tile by the `heads` waiting values.
template <class T>
__device__ __forceinline__ void warp_take_heads(Lanes<T>& lanes, u32 heads) {
    __syncwarp();
    lanes.limit(heads);
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++)
        lanes.at(index) = lanes.waiting[bank_of(lane() * LANE_VALUES + index)];
    lanes.clear();
}
