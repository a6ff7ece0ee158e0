// The order, by lane, of rows of one counter that one instruction counted.
//
// The counter after an instruction shows all rows that it has counted; lanes whose counter advanced
// by more than one share it with others.
#pragma once
#include "warp/warp.cuh"

// `shared` has the lanes that share their counter; it may lack one lane of each counter. `now` is
// the value of this lane's counter. Sets `rank` of each of these lanes to the number of preceding
// rows.
__device__ __forceinline__ void warp_settle(u32 counter, u32 now, u32 shared, u32& rank) {
    while (shared != 0) {
        u32 leader = __shfl_sync(WHOLE_WARP, counter, __ffs((int)shared) - 1);
        u32 peers = __ballot_sync(WHOLE_WARP, counter == leader);
        if (counter == leader) rank = now - __popc(peers >> lane());
        shared &= ~peers;
    }
}

// Finds the lanes with the same counter, for each row of a batch; counters are below `end`, a power
// of two.
template <u32 COUNT>
__device__ __forceinline__ void warp_compare_all(const u32 (&counters)[COUNT], u32 end,
                                            u32 (&peers)[COUNT]) {
#pragma unroll
    for (u32 index = 0; index < COUNT; index++) peers[index] = WHOLE_WARP;
#pragma unroll 1
    for (u32 bit = 1; bit < end; bit *= 2)
#pragma unroll
        for (u32 index = 0; index < COUNT; index++) {
            u32 votes = __ballot_sync(WHOLE_WARP, (counters[index] & bit) != 0);
            peers[index] &= (counters[index] & bit) != 0 ? votes : ~votes;
        }
}
