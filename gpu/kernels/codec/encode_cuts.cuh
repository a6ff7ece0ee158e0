// Finds the exceptions of a tile, whose high bits are cut off (FORMAT.md, section 6.8). A warp has
// a tile, a lane a group.
#pragma once
#include "codec/encode_lanes.cuh"

// The cut of a group: the width of the remaining bits, and how many values have more bits.
struct Cut {
    u32 width;
    u32 exceeding;
};

// Chooses the width of least cost for a lane's group of `values` values. For each length in
// bits from 1 on, `lengths` has the number of the group's values of this length, 32 words apart.
// `least` and `greatest` are the
// least and the greatest length of nonzero values of the tile. Only lengths that occur can have the
// least cost: between them the cost grows with the width. Of equal costs the greater width wins.
__device__ __forceinline__ Cut choose_cut(const u32* lengths, u32 values, u32 least, u32 greatest,
                                          u32 penalty) {
    Cut cut = {0, 0};
    u32 above = 0, best = ~0u, each = POSITION_BITS + penalty;
#pragma unroll 4
    for (u32 width = greatest; width >= least; width--, each++) {
        u32 found = lengths[32 * (width - 1)];
        u32 key = (values * width + above * each) << 7 | (127 - width);
        if (found > 0 && key < best) {
            best = key;
            cut.width = width;
            cut.exceeding = above;
        }
        above += found;
    }
    u32 key = above * (POSITION_BITS + penalty + greatest) << 7 | 127;
    if (above < values && key < best) cut.width = 0, cut.exceeding = above;
    return cut;
}

// Writes the exceptions from shared memory to the section: the packed positions, then the packed
// bits that were cut off.
template <class T>
__device__ __forceinline__ void warp_write_exceptions(Lanes<T>& lanes, const EncodeStep& step,
                                                 u32 count, u32 shift, u32 width) {
    const u32* positions = (const u32*)(lanes.memory + TILE_VALUES);
    const T* additions = lanes.memory + TILE_VALUES + EXCEPTIONS_MAX;
    u32 first = words_of(count, POSITION_BITS), words = first + words_of(count, width);
    u32* scratch = lanes.scratch();
    __syncwarp();
    for (u32 word = lane(); word < words; word += 32)
        scratch[word] = word < first ? packed_word(positions, count, POSITION_BITS, word)
                                  : packed_word(additions, count, width, word - first);
    lanes.close(step, words, count | shift << 8 | width << 16);
}

template <class T>
__device__ __forceinline__ void warp_encode_patch(Lanes<T>& lanes, const EncodeStep& step) {
    // The least nonzero value, minus 1.
    T any = 0, some = ~(T)0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) {
        T value = lanes.at(index), less = value - 1;
        any |= value;
        some = less < some ? less : some;
    }
    u32 greatest = bits_of(warp_or(any)), exceptions = 0;
    u32 least = bits_of((T)(warp_min(some) + 1));
    if (greatest == 0) return lanes.close(step, 0, 0);
    u32* lengths = (u32*)lanes.memory + lane();
    __syncwarp();
    for (u32 width = 0; width < greatest; width++) lengths[32 * width] = 0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) {
        u32 width = bits_of(lanes.at(index));
        if (width > 0) atomicAdd(&lengths[32 * (width - 1)], 1u);
    }
    // Finds the first of five rounds with at most EXCEPTIONS_MAX exceptions. A greater penalty
    // never causes more exceptions, so the last round is tried second: if it has too many, all
    // rounds do.
    Cut cut;
#pragma unroll 1
    for (u32 tried = 0; tried < 6; tried++) {
        u32 round = tried == 1 ? 4 : (tried == 0 ? 0 : tried - 1);
        cut = choose_cut(lengths, lanes.mine, least, greatest, round == 0 ? 0 : 4u << round);
        exceptions = __reduce_add_sync(WHOLE_WARP, cut.exceeding);
        if (tried == 1 ? exceptions > EXCEPTIONS_MAX : exceptions <= EXCEPTIONS_MAX) break;
    }
    if (exceptions == 0 || exceptions > EXCEPTIONS_MAX) return lanes.close(step, 0, 0);
    u32 shift = warp_min(cut.exceeding > 0 ? cut.width : 127);
    u32 number = warp_sum_to(cut.exceeding) - cut.exceeding;
    u32* positions = (u32*)(lanes.memory + TILE_VALUES);
    T *additions = lanes.memory + TILE_VALUES + EXCEPTIONS_MAX, added = 0;
    T mask = mask_of<T>(cut.width);
    // The lengths are no longer used.
    __syncwarp();
    store_range(lanes);
    u32 left = 0;
#pragma unroll
    for (u32 index = 0; index < LANE_VALUES; index++) {
        if (lanes.at(index) > mask) left |= 1u << index;
        lanes.at(index) &= mask;
    }
#pragma unroll 1
    for (; left != 0; left &= left - 1) {
        u32 index = __ffs((int)left) - 1;
        T addition = (lanes.memory[kept_at<T>(index)] & ~mask) >> shift;
        positions[number] = lane() * LANE_VALUES + index;
        additions[number++] = addition;
        added |= addition;
    }
    warp_write_exceptions(lanes, step, exceptions, shift, bits_of(warp_or(added)));
}
