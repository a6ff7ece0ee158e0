// Encodes the heads of a tile that has few of them. A warp encodes a tile; each lane has one of the
// 32 values of every group of afl. With a whole group per lane, most lanes would be idle.
//
// Supports only scale and afl, the common tree of heads (FORMAT.md, sections 6.2 and 6.5). The
// bytes written are the same as those of encode_lanes.cuh.
#pragma once
#include "codec/encode_lanes.cuh"

// The heads of a tile: this lane's value of each group, and the number of heads.
template <class T>
struct SparseHeads {
    T v[SPARSE_GROUPS];
    u32 count;

    __device__ __forceinline__ u32 values(u32 group) const {
        return (u32)min(max((int)count - 32 * (int)group, 0), 32);
    }
    __device__ __forceinline__ bool has(u32 group) const { return 32 * group + lane() < count; }
};

// Whether `count` heads and these steps qualify for the sparse encoding.
__device__ __forceinline__ bool are_sparse(u32 count, const EncodeStep* rest,
                                           const EncodeStep* end) {
    bool are = count <= 32 * SPARSE_GROUPS;
    for (; rest < end; rest++) are = are && (rest->kind == CODEC_SCALE || rest->kind == CODEC_AFL);
    return are;
}

// As `warp_encode_scale`.
template <class T>
__device__ __forceinline__ void warp_scale_sparse(SparseHeads<T>& heads, u32 tile,
                                             const EncodeStep& step) {
    T mask = mask_of<T>(step.bits), sign = step.mode != 0 ? (T)1 << (step.bits - 1) : 0;
    T least = ~(T)0;
#pragma unroll
    for (u32 group = 0; group < SPARSE_GROUPS; group++) {
        T turned = (heads.v[group] + sign) & mask;
        if (heads.has(group) && turned < least) least = turned;
    }
    least = warp_min(least);
    T base = heads.count > 0 ? (least - sign) & mask : 0;
#pragma unroll
    for (u32 group = 0; group < SPARSE_GROUPS; group++)
        heads.v[group] = heads.has(group) ? (heads.v[group] - base) & mask : 0;
    if (lane() == 0) write_pattern(step.section, step.bits, tile, base);
}

// Writes a value of `width` bits at bit `bit` of words that are 0 there.
template <class T>
__device__ __forceinline__ void add_bits(u32* words, u32 bit, T value, u32 width) {
    u32* word = words + bit / 32;
    u32 shift = bit % 32;
    u64 low = (u64)value << shift;
    atomicOr(word, (u32)low);
    if (shift + width > 32) atomicOr(word + 1, (u32)(low >> 32));
    if (sizeof(T) == 8 && shift + width > 64) atomicOr(word + 2, (u32)((u64)value >> (64 - shift)));
}

// As `warp_encode_afl`.
template <class T>
__device__ __forceinline__ void warp_afl_sparse(Lanes<T>& lanes, const SparseHeads<T>& heads,
                                           const EncodeStep& step) {
    if (heads.count == 0) return lanes.close(step, 0, 0);
    u32 widths[SPARSE_GROUPS], groups = (heads.count + 31) / 32, wide = 0, low = 64, varied = 0;
#pragma unroll
    for (u32 group = 0; group < SPARSE_GROUPS; group++) {
        u32 width = widths[group] = bits_of(warp_or(heads.v[group]));
        wide = width > wide ? width : wide;
        low = group < groups && width < low ? width : low;
        varied += words_of(heads.values(group), width);
    }
    // The widths of SPARSE_GROUPS groups fit a word.
    u32 bits = bits_of(wide - low), first = bits > 0 ? 1 : 0, uniform = 0;
#pragma unroll
    for (u32 group = 0; group < SPARSE_GROUPS; group++)
        uniform += words_of(heads.values(group), wide);
    bool is_uniform = first + varied >= uniform;
    if (is_uniform) low = wide, bits = 0, first = 0;
    u32 words = first + (is_uniform ? uniform : varied), *packed = (u32*)lanes.memory, above = 0;
    __syncwarp();
#pragma unroll 1
    for (u32 word = lane(); word < words; word += 32) packed[word] = 0;
    __syncwarp();
    u32* to = packed + first;
#pragma unroll
    for (u32 group = 0; group < SPARSE_GROUPS; group++) {
        u32 width = is_uniform ? wide : widths[group];
        if (group < groups) above |= (width - low) << bits * group;
        if (heads.has(group)) add_bits(to, lane() * width, heads.v[group], width);
        to += words_of(heads.values(group), width);
    }
    if (first > 0 && lane() == 0) packed[0] = above;
    __syncwarp();
    u32* scratch = lanes.scratch();
#pragma unroll 1
    for (u32 word = lane(); word < words; word += 32) scratch[word] = packed[word];
    lanes.close(step, words, heads.count | low << 16 | bits << 24);
}

// Encodes the `count` heads in `lanes.waiting` by the steps [rest, end).
template <class T>
__device__ __forceinline__ void warp_encode_sparse(Lanes<T>& lanes, u32 count,
                                                   const EncodeStep* rest, const EncodeStep* end) {
    SparseHeads<T> heads;
    heads.count = count;
    __syncwarp();
#pragma unroll
    for (u32 group = 0; group < SPARSE_GROUPS; group++)
        heads.v[group] = heads.has(group) ? lanes.waiting[bank_of(32 * group + lane())] : 0;
    for (; rest < end; rest++) {
        if (rest->kind == CODEC_SCALE) warp_scale_sparse(heads, lanes.number, *rest);
        else warp_afl_sparse(lanes, heads, *rest);
    }
}
static_assert(7 * SPARSE_GROUPS <= 32, "the widths of groups fit a word");
