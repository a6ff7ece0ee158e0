// Inner nodes of a tree, which transform a tile (FORMAT.md, section 6, "writer"). All threads read
// their values into registers before any is overwritten.
#pragma once
#include "codec/encode_tile.cuh"

// Replaces the tile's first `count` values by those in registers.
template <class T>
__device__ inline void block_replace(T* values, u32 count, const T (&by)[TILE_EACH]) {
    __syncthreads();
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++)
        if (place_of(item) < count) values[place_of(item)] = by[item];
    __syncthreads();
}

// FORMAT.md, section 6.3.
template <class T>
__device__ inline void block_encode_delta(Tile<T>& tile, const EncodeStep& step) {
    T *values = tile.values(), made[TILE_EACH];
    u32 count = tile.count(), bits = step.bits;
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        // The first difference repeats the second.
        u32 from = at == 0 && count > 1 ? 1 : at;
        T difference = at < count && from > 0 ? values[from] - values[from - 1] : 0;
        made[item] = stored(difference, step.mode, bits);
        if (at == 0) {
            T base = count > 0 ? values[0] - difference : 0;
            write_pattern(step.section, bits, tile.number, base);
        }
    }
    block_replace(values, count, made);
}

// FORMAT.md, section 6.4.
template <class T>
__device__ inline void block_encode_delta2(Tile<T>& tile, const EncodeStep& step) {
    T *values = tile.values(), made[TILE_EACH];
    u32 count = tile.count(), bits = step.bits;
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item), from = at < 2 ? 2 : at;
        T bend = 0;
        if (at < count && count > 2)
            bend = values[from] - values[from - 1] - (values[from - 1] - values[from - 2]);
        made[item] = stored(bend, step.mode, bits);
        if (at == 0) {
            T first = count > 0 ? values[0] : 0, second = count > 1 ? values[1] : first;
            T before = second - first - bend;
            write_pattern(step.section, bits, 2 * (u64)tile.number, first - before);
            write_pattern(step.section, bits, 2 * (u64)tile.number + 1, before - bend);
        }
    }
    block_replace(values, count, made);
}

// FORMAT.md, section 6.5; `mode` is 1 for signed values.
template <class T>
__device__ inline void block_encode_scale(Tile<T>& tile, const EncodeStep& step) {
    T *values = tile.values(), made[TILE_EACH];
    u32 count = tile.count(), bits = step.bits;
    T mask = mask_of<T>(bits), sign = step.mode != 0 ? (T)1 << (bits - 1) : 0;
    T best = 0;
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS) {
        T turned = ~((values[at] + sign) & mask);
        best = turned > best ? turned : best;
    }
    best = block_max(tile.memory, best);
    T base = count > 0 ? (~best - sign) & mask : 0;
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        made[item] = at < count ? (values[at] - base) & mask : 0;
    }
    if (threadIdx.x == 0) write_pattern(step.section, bits, tile.number, base);
    block_replace(values, count, made);
}

// Bit pattern of the float that an integer pattern represents.
__device__ inline u64 to_float(u64 integer, u32 bits, double power) {
    if (bits == 64) return (u64)__double_as_longlong((double)(i64)integer / power);
    return (u64)__float_as_uint((float)((double)(int)(u32)integer / power));
}

// Finds the integer whose `to_float` is the bit pattern `value`, and writes its pattern to
// `integer`; false if there is none. -0.0, NaN and values out of the integers' range never have
// one.
__device__ inline bool to_integer(u64 value, u32 bits, double power, u64& integer) {
    double number = bits == 64 ? __longlong_as_double((i64)value)
                               : (double)__uint_as_float((u32)value);
    double rounded = rint(number * power);
    double limit = bits == 64 ? 9007199254740992.0 : 2147483647.0;
    if (!(rounded >= -limit && rounded <= limit)) return false;
    integer = (u64)(i64)rounded;
    if (bits < 64) integer &= 0xffffffffull;
    return to_float(integer, bits, power) == value;
}

__device__ inline double power_of(const EncodeStep& step) {
    return __longlong_as_double((i64)step.parameter);
}

// FORMAT.md, sections 6.6 and 6.7. Sets the refusal flag if a value has no quotient or integer.
template <class T>
__device__ inline void block_encode_quotients(Tile<T>& tile, const EncodeStep& step,
                                              bool is_float) {
    T *values = tile.values(), mask = mask_of<T>(step.bits);
    u32 count = tile.count();
    for (u32 at = threadIdx.x; at < count; at += TILE_THREADS) {
        u64 made = 0;
        bool fits = is_float ? to_integer(values[at], step.bits, power_of(step), made)
                             : divide(step, values[at], made);
        if (!fits) refuse(tile.task);
        values[at] = (T)made & mask;
    }
    __syncthreads();
}

// Continues with the two children of a node. The second child has `second` values at the present
// level. The first child has `first` values at the next level, which becomes the present level.
template <class T>
__device__ inline void block_split(Tile<T>& tile, const EncodeStep& step, u32 first, u32 second) {
    __syncthreads();
    if (threadIdx.x == 0) {
        tile.memory.counts[tile.level] = second;
        tile.memory.counts[tile.level + 1] = first;
        ((unsigned short*)step.section)[tile.number] = (unsigned short)second;
    }
    count_values(tile.task, step, second);
    tile.level++;
    __syncthreads();
}

// FORMAT.md, section 6.9.
template <class T>
__device__ inline void block_encode_rle(Tile<T>& tile, const EncodeStep& step) {
    T *values = tile.values(), *runs = tile.memory.values[tile.level + 1], mine[TILE_EACH];
    u32 count = tile.count(), number[TILE_EACH];
    bool begins[TILE_EACH];
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        mine[item] = at < count ? values[at] : 0;
        begins[item] = at < count && (at == 0 || values[at - 1] != mine[item]);
    }
    u32 length = block_number_flags(tile.memory, begins, number);
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++)
        if (begins[item]) {
            runs[number[item]] = mine[item];
            values[number[item]] = (T)place_of(item);
        }
    __syncthreads();
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        T end = at + 1 < length ? values[at + 1] : (T)count;
        mine[item] = at < length ? end - values[at] - 1 : 0;
    }
    block_replace(values, length, mine);
    block_split(tile, step, length, length);
}

// FORMAT.md, section 6.10, with exceptions. The codes were computed before and are read from the
// task.
template <class T>
__device__ inline void block_encode_dict(Tile<T>& tile, const EncodeStep& step) {
    T *values = tile.values(), *codes = tile.memory.values[tile.level + 1], mine[TILE_EACH];
    u32 count = tile.count(), number[TILE_EACH];
    bool is_other[TILE_EACH];
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item), code = 0;
        mine[item] = at < count ? values[at] : 0;
        if (at < count) {
            u64 place = (u64)tile.number * TILE_VALUES + at;
            code = ((const unsigned short*)tile.task.codes)[place];
            codes[at] = code;
        }
        is_other[item] = at < count && code == step.remainder;
    }
    u32 others = block_number_flags(tile.memory, is_other, number);
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++)
        if (is_other[item]) values[number[item]] = mine[item];
    block_split(tile, step, count, others);
}

// FORMAT.md, sections 6.14 and 6.15.
template <class T>
__device__ inline void block_encode_keyed(Tile<T>& tile, const EncodeStep& step, bool is_second) {
    T *values = tile.values(), *residuals = tile.memory.values[tile.level + 1], mine[TILE_EACH];
    const u32* heads = (const u32*)tile.task.heads + (u64)tile.number * TILE_GROUPS;
    u32 count = tile.count(), number[TILE_EACH];
    bool is_head[TILE_EACH];
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++) {
        u32 at = place_of(item);
        bool is_there = at < count;
        is_head[item] = is_there && (heads[at / 32] >> (at % 32) & 1u) != 0;
        mine[item] = is_there ? values[at] : 0;
        T difference = is_there && !is_head[item] ? mine[item] - values[at - 1] : 0;
        if (is_second && is_there && !is_head[item]) {
            bool follows = (heads[(at - 1) / 32] >> ((at - 1) % 32) & 1u) != 0;
            if (!follows) difference -= values[at - 1] - values[at - 2];
        }
        if (is_there) residuals[at] = stored(difference, step.mode, step.bits);
    }
    u32 length = block_number_flags(tile.memory, is_head, number);
#pragma unroll
    for (u32 item = 0; item < TILE_EACH; item++)
        if (is_head[item]) values[number[item]] = mine[item];
    block_split(tile, step, count, length);
}
