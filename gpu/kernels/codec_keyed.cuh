// Where do the runs of one key begin in a tile, and how are differences summed along them? FORMAT.md,
// sections 6.13 to 6.15.
//
// Heads are found once for a tile; what every lane needs of them waits in shared memory, where each
// lane reads only what it wrote.
#pragma once
#include "codec_tile.cuh"

// Of each lane's four places in each run of places: which are heads, how many heads are below them,
// and which lanes have the nearest head below and the last of all.
struct Heads {
    u32 of[RUNS][32];

    // Finds them in a piece of the order: a tile's first position, and where the tag differs from
    // the one before, or says so. Gives how many there are.
    __device__ __forceinline__ u32 find(const u32* order, u32 count, u32 has_tags) {
        u32 before = 0, total = 0, lower = (1u << lane()) - 1u;
#pragma unroll
        for (u32 k = 0; k < RUNS; k++) {
            u32 place = place_of(k);
            // Orders are as long as whole tiles.
            uint4 items = ((const uint4*)order)[place / 4];
            u32 tags[4] = {items.x >> 16, items.y >> 16, items.z >> 16, items.w >> 16};
            u32 below = __shfl_up_sync(WHOLE_WARP, tags[3], 1);
            if (lane() == 0) below = before;
            before = __shfl_sync(WHOLE_WARP, tags[3], 31);
            u32 four = 0, rank = total, any = 0;
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                bool is_head = has_tags != 0 ? tags[j] != below || place + j == 0 : tags[j] != 0;
                is_head = is_head && place + j < count;
                below = tags[j];
                u32 votes = __ballot_sync(WHOLE_WARP, is_head);
                four |= (is_head ? 1u : 0u) << j;
                any |= votes;
                rank += __popc(votes & lower);
                total += __popc(votes);
            }
            u32 nearest = any & lower;
            of[k][lane()] = four | rank << 4 | (31 - __clz(nearest | 1)) << 16
                | (31 - __clz(any | 1)) << 24 | (nearest != 0 ? NEAREST : 0)
                | (any != 0 ? ANY : 0);
        }
        return total;
    }

    static const u32 NEAREST = 1u << 21;
    static const u32 ANY = 1u << 22;
};

// Running sums that begin anew at every head, where they are `values[rank of the head]`; 0 there
// without `values`. Sums wrap, so a run's is the sum over all less that at its head.
template <class T>
__device__ __forceinline__ void scan_runs(const T* values, const Heads& heads, Tile<T>& tile) {
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 four = heads.of[k][lane()];
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            if ((four >> j & 1) != 0) tile.v[k][j] = 0;
    }
    scan(tile, (T)0);
    T carry = 0;
#pragma unroll
    for (u32 k = 0; k < RUNS; k++) {
        u32 mine = heads.of[k][lane()], rank = mine >> 4 & 0x7ff;
        T starts[4], last = 0;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            bool is_head = (mine >> j & 1) != 0;
            T value = values != nullptr && is_head ? values[rank] : 0;
            rank += mine >> j & 1;
            if (is_head) last = value - tile.v[k][j];
            starts[j] = last;
        }
        T before = __shfl_sync(WHOLE_WARP, last, mine >> 16 & 31);
        if ((mine & Heads::NEAREST) == 0) before = carry;
        T newest = __shfl_sync(WHOLE_WARP, last, mine >> 24 & 31);
        if ((mine & Heads::ANY) != 0) carry = newest;
#pragma unroll
        for (u32 j = 0; j < 4; j++)
            tile.v[k][j] += (mine & ((2u << j) - 1u)) != 0 ? starts[j] : before;
    }
}
