// The kernels of stage dispatch for cycles with removals or clears, which apply the entries of an
// object (its rows and removals) one after another. They replace `dispatch_order` and the
// `dispatch_settle` kernels.
#include "dispatch/dispatch.cuh"

// Writes sort keys that group the rows and removals of an object; the sort is stable, so each group
// is in order of arrival.
extern "C" __global__ void ordered_keys(Rules rules, Rows rows, Index index, u32* keys,
                                        u32* arrivals) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    if (arrival >= rules.rows) return;
    keys[arrival] = resolve(index, rows.slots[arrival]);
    arrivals[arrival] = arrival;
}

// The entries of a cycle, sorted by slot and then by arrival, and its clears by arrival.
struct OrderedEntries {
    const u32* keys;
    const u32* arrivals;
    const u32* clear_arrivals;
    const u32* clear_requests;
};

// An object while its entries are applied.
struct OrderedObject {
    // The record at the start of the cycle, and whether the object existed then.
    Version start;
    bool existed;
    // Whether a removal or clear has been applied, and the event of the last one that ended the
    // object.
    bool removed;
    u32 ended;
    // The newest fix since that removal or clear: its arrival, time and request.
    bool has_winner;
    u32 winner;
    i64 winner_ms;
    u32 winner_request;
};

// Whether the object exists before the next entry.
__device__ inline bool is_alive(const OrderedObject& object) {
    return object.has_winner || (object.existed && !object.removed);
}

// Ends the object by an event of kind `ended`. If a fix of this cycle is lost, it counts as
// superseded.
__device__ inline void end_ordered(OrderedObject& object, RowOutcomeCounts* outcomes, u32 ended) {
    if (is_alive(object)) object.ended = ended;
    if (object.has_winner) atomicAdd(&outcomes[object.winner_request].superseded, 1u);
    object.has_winner = false;
    object.removed = true;
}

// Applies a fix of request `number` with this time.
__device__ inline void apply_fix(OrderedObject& object, RowOutcomeCounts* outcomes, u32 number,
                                 u32 arrival, i64 time_ms) {
    if (object.existed && !object.removed && time_ms < object.start.time_ms) {
        atomicAdd(&outcomes[number].late, 1u);
    } else if (object.has_winner && time_ms < object.winner_ms) {
        atomicAdd(&outcomes[number].superseded, 1u);
    } else {
        if (object.has_winner) atomicAdd(&outcomes[object.winner_request].superseded, 1u);
        object.has_winner = true;
        object.winner = arrival;
        object.winner_ms = time_ms;
        object.winner_request = number;
    }
}

// Applies the entries of an object from `entry` on, and the clears, in order of arrival.
__device__ inline void apply_entries(OrderedObject& object, const Input& input, const Rules& rules,
                                     const OrderedEntries& entries, u32 entry) {
    u32 slot = entries.keys[entry], clear = 0;
    for (u32 next = entry;; next++) {
        bool more = next < rules.rows && entries.keys[next] == slot;
        u32 arrival = more ? entries.arrivals[next] : ~0u;
        for (; clear < rules.clears && entries.clear_arrivals[clear] <= arrival; clear++) {
            if (is_alive(object))
                atomicAdd(&input.outcomes[entries.clear_requests[clear]].removed, 1u);
            end_ordered(object, input.outcomes, EVENT_CLEARED);
        }
        if (!more) break;
        u32 number = request_of(input, rules.requests, arrival);
        const RequestDescriptor& request = input.requests[number];
        if (request.kind == REQUEST_REMOVE) {
            RowOutcomeCounts& outcome = input.outcomes[number];
            atomicAdd(is_alive(object) ? &outcome.removed : &outcome.missing, 1u);
            end_ordered(object, input.outcomes, EVENT_REMOVED);
        } else {
            i64 time_ms = read_time(input, request, arrival - request.first_arrival);
            apply_fix(object, input.outcomes, number, arrival, time_ms);
        }
    }
}

// Applies the entries of every object. One thread an entry of the sorted lists; only the thread of
// an object's first entry does work.
extern "C" __global__ void ordered_settle(Input input, Rules rules, Rows rows, Records records,
                                          const u32* keys, const u32* arrivals,
                                          const u32* clear_arrivals, const u32* clear_requests) {
    u32 entry = blockIdx.x * blockDim.x + threadIdx.x;
    u32 slot = entry < rules.rows ? keys[entry] : NO_SLOT;
    bool works = slot != NO_SLOT && (entry == 0 || keys[entry - 1] != slot);
    Settled settled = {};
    OrderedObject object = {};
    if (works) {
        rows.best[slot] = 1;
        u32 old = newest(records, slot);
        object.start = load(records.versions + 2ull * slot + old);
        object.existed = object.start.alive != 0;
        object.ended = EVENT_REMOVED;
        OrderedEntries entries = {keys, arrivals, clear_arrivals, clear_requests};
        apply_entries(object, input, rules, entries, entry);
        if (object.has_winner) {
            const RequestDescriptor& request = input.requests[object.winner_request];
            u32 at_row = object.winner - request.first_arrival;
            settled = settle_winner(records, rules, clock_of(rules, rows.report), slot,
                                    read_row(input, request, at_row),
                                    read_state(input, request, at_row),
                                    read_optional(input, request, at_row), !object.removed);
        } else if (object.existed && object.removed) {
            settled = end_object(records, rules, slot, old, object.start,
                                 optional_of(records, slot, old), object.ended);
        }
    }
    block_record_outcome(rows, rules, slot, settled, object.winner_request, input.outcomes);
}

// Counts removals of the reserved id.
extern "C" __global__ void ordered_missing(Input input, Rules rules, Rows rows) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    bool missing = false;
    u32 number = 0;
    if (arrival < rules.rows) {
        number = request_of(input, rules.requests, arrival);
        missing = input.requests[number].kind == REQUEST_REMOVE && rows.slots[arrival] == NO_SLOT;
    }
    warp_count_by_key(missing, number, &input.outcomes[number].missing);
}

// Ends, as removed by the cycle's first clear, the objects without a row or removal in the cycle.
// Resets the marks of all objects. One thread a slot.
extern "C" __global__ void ordered_clear(Input input, Rules rules, Rows rows, Records records,
                                         const u32* clear_requests, u32 slots) {
    u32 slot = blockIdx.x * blockDim.x + threadIdx.x;
    Settled settled = {};
    u32 request = rules.clears > 0 ? clear_requests[0] : 0;
    bool cleared = false;
    if (slot < slots) {
        bool is_marked = rows.best[slot] != 0;
        rows.best[slot] = 0;
        if (rules.clears > 0 && !is_marked) {
            u32 old = newest(records, slot);
            Version was = load(records.versions + 2ull * slot + old);
            cleared = was.alive != 0;
            if (cleared)
                settled = end_object(records, rules, slot, old, was,
                                     optional_of(records, slot, old), EVENT_CLEARED);
        }
    }
    warp_count_by_key(cleared, request, &input.outcomes[request].removed);
    block_record_outcome(rows, rules, slot, settled, request, input.outcomes);
}
