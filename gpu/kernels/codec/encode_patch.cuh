// Splits a tile into exceptions and the remaining values (FORMAT.md, section 6.8). Exceptions are
// high bits that are cut off if that reduces the size of groups, or values that do not fit a given
// divisor or number of decimals.
#pragma once
#include "codec/encode_nodes.cuh"

// Writes the `count` exceptions from shared memory to the section.
template <class T>
__device__ inline void block_write_exceptions(Tile<T>& tile, const EncodeStep& step, u32 count,
                                        u32 shift) {
    TileMemory<T>& memory = tile.memory;
    u32 bits = 0;
    for (u32 at = lane(); at < count; at += 32) {
        u32 mine = bits_of(memory.additions[at]);
        bits = mine > bits ? mine : bits;
    }
    u32 width = warp_max(bits), first = words_of(count, POSITION_BITS);
    u32 words = first + words_of(count, width);
    u32* scratch = tile.scratch();
    for (u32 word = threadIdx.x; word < words; word += TILE_THREADS)
        scratch[word] = word < first
            ? packed_word(memory.positions, count, POSITION_BITS, word)
            : packed_word(memory.additions, count, width, word - first);
    tile.close(step, words, count | shift << 8 | width << 16);
    __syncthreads();
}

// The number of lanes of the warp whose `bits` are greater than this lane's.
template <class T>
__device__ inline u32 warp_lanes_above(u32 bits) {
    u32 equal = WHOLE_WARP, greater = 0;
#pragma unroll
    for (int bit = sizeof(T) == 8 ? 6 : 5; bit >= 0; bit--) {
        bool mine = (bits >> bit & 1u) != 0;
        u32 votes = __ballot_sync(WHOLE_WARP, mine);
        if (!mine) greater |= equal & votes;
        equal &= mine ? votes : ~votes;
    }
    return (u32)__popc(greater);
}

// Chooses the width of least cost for each of the warp's groups, and counts the values that have
// more bits. Only lengths that occur can have the least cost: between them the cost grows with the
// width.
__device__ inline void warp_choose_cuts(const u32 (&bits)[TILE_EACH], const u32 (&above)[TILE_EACH],
                                   u32 count, u32 greatest, u32 penalty, u32 (&widths)[TILE_EACH],
                                   u32 (&exceeding)[TILE_EACH]) {
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        bool is_there = place_of(item) < count;
        u32 values = group_count(count, group_of(item));
        u32 each = POSITION_BITS + greatest - bits[item] + penalty;
        u32 cost = values * bits[item] + above[item] * each;
        // If two costs are equal, the greater width wins.
        u32 key = is_there ? cost << 7 | (127 - bits[item]) : ~0u;
        widths[item] = 127 - (warp_min(key) & 127u);
        u32 votes = __ballot_sync(WHOLE_WARP, is_there && bits[item] > widths[item]);
        exceeding[item] = (u32)__popc(votes);
    }
}

// Encodes the node `patch`: exceptions are high bits.
template <class T>
__device__ inline void block_encode_patch(Tile<T>& tile, const EncodeStep& step) {
    TileMemory<T>& memory = tile.memory;
    T* values = tile.values();
    u32 count = tile.count(), bits[TILE_EACH], above[TILE_EACH];
    u32 widths[TILE_EACH], exceeding[TILE_EACH];
    u32 greatest = 0;
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        bits[item] = at < count ? bits_of(values[at]) : 0;
        above[item] = warp_lanes_above<T>(bits[item]);
        greatest = bits[item] > greatest ? bits[item] : greatest;
    }
    greatest = block_max(memory, greatest);
    u32 exceptions = 0;
    for (u32 round = 0; round < 5; round++) {
        u32 penalty = round == 0 ? 0 : 4u << round;
        warp_choose_cuts(bits, above, count, greatest, penalty, widths, exceeding);
#pragma unroll
        for (u32 item = 0; item < TILE_EACH; item++)
            if (lane() == 0) {
                memory.groups[group_of(item)] = exceeding[item];
                memory.widths[group_of(item)] = exceeding[item] > 0 ? widths[item] : 127;
            }
        block_sum_groups(memory);
        exceptions = memory.offsets[TILE_GROUPS];
        if (exceptions <= EXCEPTIONS_MAX) break;
        __syncthreads();
    }
    if (exceptions == 0 || exceptions > EXCEPTIONS_MAX) {
        tile.close(step, 0, 0);
        return;
    }
    u32 shift = warp_min(memory.widths[lane()]);
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        bool exceeds = at < count && bits[item] > widths[item];
        u32 votes = __ballot_sync(WHOLE_WARP, exceeds);
        if (exceeds) {
            u32 number = memory.offsets[group_of(item)] + (u32)__popc(votes & lanes_below());
            T value = values[at], low = value & mask_of<T>(widths[item]);
            memory.positions[number] = at;
            memory.additions[number] = (value - low) >> shift;
            values[at] = low;
        }
    }
    __syncthreads();
    block_write_exceptions(tile, step, exceptions, shift);
}

// Exceptions are misfits: values without an exact quotient, or floats without an exact integer. A
// misfit is replaced by the last value before it that fits, or by `step.remainder` if there is
// none.
template <class T>
__device__ inline void block_encode_misfits(Tile<T>& tile, const EncodeStep& step, bool is_float) {
    TileMemory<T>& memory = tile.memory;
    T *values = tile.values(), mask = mask_of<T>(step.bits), mine[TILE_EACH], made[TILE_EACH];
    u32 count = tile.count(), number[TILE_EACH], last[TILE_EACH];
    bool is_misfit[TILE_EACH];
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        mine[item] = at < count ? values[at] : 0;
        u64 quotient;
        bool fits = at < count && (is_float ? to_integer(mine[item], step.bits, power_of(step),
                                                         quotient)
                                            : divide(step, mine[item], quotient));
        is_misfit[item] = at < count && !fits;
        // 1 plus the place of the last value up to here that fits; 0 if none fits.
        u32 votes = __ballot_sync(WHOLE_WARP, fits) & (lanes_below() | 1u << lane());
        last[item] = votes == 0 ? 0 : group_of(item) * 32 + 32 - (u32)__clz((int)votes);
        if (lane() == 31) memory.widths[group_of(item)] = last[item];
    }
    u32 exceptions = block_number_flags(memory, is_misfit, number);
    if (exceptions > EXCEPTIONS_MAX) {
        if (threadIdx.x == 0) refuse(tile.task);
        tile.close(step, 0, 0);
        return;
    }
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        for (u32 group = group_of(item); last[item] == 0 && group > 0; group--)
            last[item] = memory.widths[group - 1];
        made[item] = last[item] == 0 ? (T)step.remainder : values[last[item] - 1];
        if (is_misfit[item]) {
            memory.positions[number[item]] = place_of(item);
            memory.additions[number[item]] = (mine[item] - made[item]) & mask;
        }
    }
    block_replace(values, count, made);
    block_write_exceptions(tile, step, exceptions, 0);
}
