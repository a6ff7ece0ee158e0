// States of objects as of a moment: for each its newest row at or before it.
//
// A head is the first row of an object in a tile. Heads ascend by (object, time), so the head with
// the wanted row is the last at or before (object, moment), and the row is found in one tile.
#include "history/run.cuh"

// Rows of a tile: heads, and for each the newest row.
template <int COUNT>
struct Chosen {
    u32 length;
    u32 heads[COUNT];
    u16 rows[COUNT];
};

// The times of all heads. `keys` has their objects. One warp a tile.
template <int SLOTS>
__device__ __forceinline__ void write_times(const Run& run, const RunHeads& heads, i64 start_ms,
                                            ObjectTime* keys) {
    __shared__ TileMemory<u32, SLOTS> memory;
    RunTile tile(run, blockIdx.x);
    if (!store_column(run, tile, RUN_TIME, memory)) return;
    u32 end = heads.firsts[blockIdx.x + 1];
    for (u32 at = heads.firsts[blockIdx.x] + lane(); at < end; at += 32) {
        u32 head = heads.order[at];
        keys[head].time = start_ms + tile.base + memory.tile[heads.rows[head] % TILE_VALUES];
    }
}

// Whether a head has its object's newest row at or before a time.
__device__ __forceinline__ bool has_newest(const RunHeads& heads, u32 head, i64 time_ms) {
    const ObjectTime key = heads.keys[head];
    if (key.time > time_ms) return false;
    if (head + 1 == heads.length) return true;
    const ObjectTime next = heads.keys[head + 1];
    return next.object != key.object || next.time > time_ms;
}

// 1 for each head that has its object's newest row, and a 0 behind all. A thread a head.
extern "C" __global__ void run_newest_heads(RunHeads heads, i64 time_ms, u32* are_newest) {
    u32 head = blockIdx.x * blockDim.x + threadIdx.x;
    if (head > heads.length) return;
    are_newest[head] = head < heads.length && has_newest(heads, head, time_ms);
}

// Finds the rows of the chosen heads and writes their values, those of head i of the list at place
// `place(i)`.
template <int COUNT, int SLOTS, class Place>
__device__ __forceinline__ void write_states(const Run& run, const RunHeads& heads,
                                             const RunTile& tile, Chosen<COUNT>& chosen,
                                             TileMemory<u32, SLOTS>& memory, i64 time_ms,
                                             const States& states, Place place) {
    __syncwarp();
    // The zone of a tile whose heads are not later than the moment has none later than its times.
    i64 limit = time_ms - tile.base;
    u32 most = limit > 0xffffffffll ? 0xffffffffu : (u32)limit;
#pragma unroll 1
    for (u32 kind = RUN_TIME; kind < run.kinds; kind++) {
        bool is_known = tile.columns[kind].steps != 0;
        if (is_known && !store_column(run, tile, kind, memory)) return;
        for (u32 at = lane(); at < chosen.length; at += 32) {
            u32 head = chosen.heads[at];
            if (kind == RUN_TIME) {
                // The last row not above the limit; the head is none.
                u32 low = heads.rows[head] % TILE_VALUES;
                u32 high = (heads.ends[head] - 1) % TILE_VALUES + 1;
                while (high - low > 1) {
                    u32 middle = (low + high) / 2;
                    if (memory.tile[middle] <= most) low = middle;
                    else high = middle;
                }
                chosen.rows[at] = (u16)low;
                states.objects[place(at)] = heads.keys[head].object;
            }
            u32 value = is_known ? memory.tile[chosen.rows[at]] : tile.columns[kind].least;
            if (kind == RUN_TIME) value += tile.base;
            states.values[(u64)kind * states.capacity + place(at)] = value;
        }
        __syncwarp();
    }
}

// The states of objects at a time, that of a head at place `places[head]` less `first_place`, if it
// is one of the list. Times of rows count from `start_ms`. One warp a tile.
template <int SLOTS>
__device__ __forceinline__ void write_newest(const Run& run, const RunHeads& heads, i64 start_ms,
                                             i64 time_ms, const u32* places, u32 first_place,
                                             const States& states) {
    __shared__ TileMemory<u32, SLOTS> memory;
    __shared__ Chosen<TILE_VALUES> chosen;
    if (start_ms + run.zones[blockIdx.x].time_min > time_ms) return;
    u32 first = heads.firsts[blockIdx.x], end = heads.firsts[blockIdx.x + 1], length = 0;
    for (u32 from = first; from < end; from += 32) {
        u32 head = from + lane() < end ? heads.order[from + lane()] : 0;
        bool is_newest = from + lane() < end && places[head] - first_place < states.capacity
            && has_newest(heads, head, time_ms);
        u32 newest = __ballot_sync(WHOLE_WARP, is_newest);
        if (is_newest) chosen.heads[length + __popc(newest & ((1u << lane()) - 1))] = head;
        length += __popc(newest);
    }
    if (length == 0) return;
    if (lane() == 0) chosen.length = length;
    RunTile tile(run, blockIdx.x);
    write_states(run, heads, tile, chosen, memory, time_ms - start_ms, states,
                 [&](u32 at) { return places[chosen.heads[at]] - first_place; });
}

// The state of each request's object at its time; `heads_found` has the last head at or before it,
// or INDEX_NO_PLACE. Of requests without a state `has_state` stays 0. One warp a request.
template <int SLOTS>
__device__ __forceinline__ void write_found(const Run& run, const RunHeads& heads, i64 start_ms,
                                            const ObjectTime* requests, const u32* heads_found,
                                            u32* has_state, const States& states) {
    __shared__ TileMemory<u32, SLOTS> memory;
    __shared__ Chosen<1> chosen;
    u32 head = heads_found[blockIdx.x];
    const ObjectTime request = requests[blockIdx.x];
    if (head == INDEX_NO_PLACE || heads.keys[head].object != request.object) return;
    if (lane() == 0) {
        chosen.length = 1;
        chosen.heads[0] = head;
        has_state[blockIdx.x] = 1;
    }
    RunTile tile(run, heads.rows[head] / TILE_VALUES);
    write_states(run, heads, tile, chosen, memory, request.time - start_ms, states,
                 [&](u32) { return blockIdx.x; });
}

// Each for trees with one slot at most, and with any number.
#define FOR_SLOTS(NAME, SLOTS, BOUNDS)                                                            \
    extern "C" __global__ void BOUNDS run_times_##NAME(Run run, RunHeads heads, i64 start_ms,     \
                                                       ObjectTime* keys) {                        \
        write_times<SLOTS>(run, heads, start_ms, keys);                                           \
    }                                                                                             \
    extern "C" __global__ void BOUNDS run_newest_##NAME(                                          \
        Run run, RunHeads heads, i64 start_ms, i64 time_ms, const u32* places, u32 first_place,   \
        States states) {                                                                          \
        write_newest<SLOTS>(run, heads, start_ms, time_ms, places, first_place, states);          \
    }                                                                                             \
    extern "C" __global__ void BOUNDS run_find_##NAME(                                            \
        Run run, RunHeads heads, i64 start_ms, const ObjectTime* requests, const u32* heads_found,\
        u32* has_state, States states) {                                                          \
        write_found<SLOTS>(run, heads, start_ms, requests, heads_found, has_state, states);       \
    }

FOR_SLOTS(slot, 1, __launch_bounds__(32, RUN_STATES_BLOCKS))
FOR_SLOTS(slots, CODEC_SLOTS, __launch_bounds__(32))
