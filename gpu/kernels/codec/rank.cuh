// Ranks the rows that one atomic instruction of a warp adds to one counter, in order of lanes.
//
// After the instruction the counter includes the rows of all lanes. A lane whose counter is not one
// more than the value that its atomic returned shares the counter with other lanes.
#pragma once
#include "warp/warp.cuh"

// `shared` has a bit for each lane that shares its counter; one lane of each counter may be
// missing. `now` is the value of this lane's counter after the instruction. Sets the `rank` of all
// lanes with shared counters to the number of preceding rows.
__device__ __forceinline__ void warp_settle(u32 counter, u32 now, u32 shared, u32& rank) {
    while (shared != 0) {
        u32 leader = __shfl_sync(WHOLE_WARP, counter, __ffs((int)shared) - 1);
        u32 peers = __ballot_sync(WHOLE_WARP, counter == leader);
        if (counter == leader) rank = now - __popc(peers >> lane());
        shared &= ~peers;
    }
}

// Writes to `peers[i]` the lanes whose `counters[i]` equals this lane's. Counters are below `end`,
// a power of two.
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
