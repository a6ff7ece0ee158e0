// The states of objects at a time: for each object, its newest row at or before this time.
//
// A head is the first row of an object in a tile. Heads ascend by (object, time), so the head with
// the wanted row is the last head at or before (object, time), and only its tile is searched
// further.
#include "history/run.cuh"

// Writes the times of all heads to `keys`, which already has their objects. A thread a head.
extern "C" __global__ void run_times(Run run, RunHeads heads, i64 start_ms, ObjectTime* keys) {
    u32 head = blockIdx.x * blockDim.x + threadIdx.x;
    if (head >= heads.length) return;
    u32 row = heads.rows[head];
    keys[head].time =
        start_ms + value_at(column_of(run, row / RUN_TILE_ROWS, RUN_TIME), row % RUN_TILE_ROWS);
}

// Writes 1 for each head whose tile has its object's newest row at or before `time_ms`, 0 for other
// heads, and a 0 after the last. A thread a head, and one for the 0 at the end.
extern "C" __global__ void run_newest_heads(RunHeads heads, i64 time_ms, u32* are_newest) {
    u32 head = blockIdx.x * blockDim.x + threadIdx.x;
    if (head > heads.length) return;
    bool is_newest = head < heads.length && heads.keys[head].time <= time_ms;
    if (is_newest && head + 1 < heads.length) {
        const ObjectTime next = heads.keys[head + 1];
        is_newest = next.object != heads.keys[head].object || next.time > time_ms;
    }
    are_newest[head] = is_newest;
}

// Writes to `place` the last row of the head's object in its tile whose time is at most `limit`.
__device__ __forceinline__ void write_state(const Run& run, const RunHeads& heads, u32 head,
                                            i64 limit, const States& states, u32 place) {
    u32 row = heads.rows[head], tile = row / RUN_TILE_ROWS;
    u32 low = row % RUN_TILE_ROWS, high = low + (heads.ends[head] - row);
    // Times count from the start of the partition. The time of the first row is not above the
    // limit.
    u32 most = limit > 0xffffffffll ? 0xffffffffu : (u32)limit;
    const RunColumn times = column_of(run, tile, RUN_TIME);
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (value_at(times, middle) <= most) low = middle;
        else high = middle;
    }
    states.objects[place] = heads.keys[head].object;
    for (u32 kind = RUN_TIME; kind < run.kinds; kind++)
        states.values[(u64)kind * states.capacity + place] =
            value_at(column_of(run, tile, kind), low);
}

// Writes the states of objects at `time_ms`. The state of a head goes to place `places[head]` -
// `first_place` of `states`, and is skipped if this is outside the list. Times of rows count from
// `start_ms`. A thread a head.
extern "C" __global__ void run_newest(Run run, RunHeads heads, i64 start_ms, i64 time_ms,
                                      const u32* places, u32 first_place, States states) {
    u32 head = blockIdx.x * blockDim.x + threadIdx.x;
    if (head >= heads.length || places[head] == places[head + 1]) return;
    u32 place = places[head] - first_place;
    if (place < states.capacity) write_state(run, heads, head, time_ms - start_ms, states, place);
}

// Writes the state of each request's object at the request's time, and sets `has_state`.
// `heads_found` has the last head at or before the request, or INDEX_NO_PLACE. If there is no
// state, `has_state` stays 0. A thread a request.
extern "C" __global__ void run_find(Run run, RunHeads heads, i64 start_ms,
                                    const ObjectTime* requests, const u32* heads_found, u32 length,
                                    u32* has_state, States states) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 head = heads_found[at];
    const ObjectTime request = requests[at];
    if (head == INDEX_NO_PLACE || heads.keys[head].object != request.object) return;
    has_state[at] = 1;
    write_state(run, heads, head, request.time - start_ms, states, at);
}
