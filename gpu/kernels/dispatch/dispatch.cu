// The kernels of stage dispatch, in the order in which a cycle runs them; see ordered.cu for cycles
// with removals or clears. One thread an arrival unless said otherwise. In kernels with block-wide
// counts no thread returns early.
#include "dispatch/dispatch.cuh"

// Fails a whole block if one of its rows lies outside the ranges of its header. Runs before any row
// is applied.
extern "C" __global__ void dispatch_verify(Input input, Rules rules) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    if (arrival >= rules.rows) return;
    u32 number = request_of(input, rules.requests, arrival);
    const RequestDescriptor& request = input.requests[number];
    if (request.kind != REQUEST_BLOCK || request.is_decoded != 0) return;
    u32 row = arrival - request.first_arrival;
    u32 time = at<u32>(input, request.time_at, row);
    i32 x = at<i32>(input, request.x_at, row), y = at<i32>(input, request.y_at, row);
    if (time < request.time_min || time > request.time_max || x < request.x_min
        || x > request.x_max || y < request.y_min || y > request.y_max)
        input.outcomes[number].failed = 1;
}

// Counts the rows, entries of dictionaries and removals whose ids have no slot: an upper bound of
// the slots that the cycle allocates. Runs after decoding, only in cycles that may exceed the
// capacity.
extern "C" __global__ void dispatch_newcomers(Input input, Rules rules, Index index,
                                              u32* newcomers) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_new = false;
    u32 number = arrival < rules.rows ? request_of(input, rules.requests, arrival) : 0;
    const RequestDescriptor& request = input.requests[number];
    u32 row = arrival - request.first_arrival;
    // A dictionary has at most as many entries as the cycle has rows.
    bool has_id = arrival < rules.rows && (!has_codes(request) || row < request.entries);
    if (has_id && input.outcomes[number].failed == 0) {
        u64 ids = has_codes(request) ? request.entries_at : request.object_at;
        u64 object = at<u64>(input, ids, row);
        is_new = object != NO_OBJECT && find(index, object) == NO_SLOT;
    }
    warp_count(is_new, newcomers);
}

// The slot of a dictionary's entry, and the least time, from `base_ms` on, at which a row of the
// entry is not late. The slot is NO_SLOT if all its rows are late. The time is 0 if none is late,
// and in cycles with removals, which find late rows later. `claimed` is the result of `claim`.
__device__ inline DictionarySlot entry_slot(const Rules& rules, const Records& records,
                                            const RequestDescriptor& request, u32 claimed) {
    DictionarySlot found = {claimed, 0};
    if (rules.is_ordered != 0) return found;
    // If another thread claimed the slot in this kernel, the object is new.
    bool existed = false;
    i64 least = 0;
    if ((claimed & SLOT_PENDING) == 0) {
        const Version* start = records.versions + 2ull * claimed + newest(records, claimed);
        existed = start->alive != 0;
        least = start->time_ms - request.base_ms;
    }
    if (!existed) return found;
    if (least > (i64)0xffffffffll) return {NO_SLOT, 0};
    found.least = least > 0 ? (u32)least : 0;
    return found;
}

// Finds the slots of the entries of dictionaries. One thread an entry.
extern "C" __global__ void dispatch_entries(Input input, Rules rules, Rows rows, Index index,
                                            Records records, u64* objects, u32 entries) {
    u32 entry = blockIdx.x * blockDim.x + threadIdx.x;
    if (entry >= entries) return;
    u32 number = request_of_entry(input, rules.requests, entry);
    if (input.outcomes[number].failed != 0) return;
    // An entry whose rows are refused allocates no slot.
    if (rules.is_limited != 0 && rows.entry_slots[entry].least == REFUSED_OBJECT_LIMIT) return;
    const RequestDescriptor& request = input.requests[number];
    u64 object = at<u64>(input, request.entries_at, entry - request.first_entry);
    DictionarySlot found = {NO_SLOT, REFUSED_OBJECT};
    if (object != NO_OBJECT) {
        u32 claimed = claim(index, object, objects, &rows.report->slots);
        found = entry_slot(rules, records, request, claimed);
    }
    rows.entry_slots[entry] = found;
}

// Validates the rows whose ids are in a dictionary. In cycles of fixes alone, also drops late rows
// and enters the keys of the others into `best`.
extern "C" __global__ void dispatch_match(Input input, Rules rules, Rows rows, Index index) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_row = arrival < rules.rows;
    u32 number = is_row ? request_of(input, rules.requests, arrival) : 0;
    const RequestDescriptor& request = input.requests[number];
    u32 refusal = 0;
    bool late = false, competes = false;
    u64 time = 0;
    if (is_row && has_codes(request)) {
        u32 row = arrival - request.first_arrival, slot = NO_SLOT;
        if (input.outcomes[number].failed == 0) {
            u32 entry = request.first_entry + read_code(input, request, row);
            DictionarySlot found = rows.entry_slots[entry];
            bool has_slot = found.slot != NO_SLOT, has_object = found.least != REFUSED_OBJECT;
            u64 object = has_slot || has_object ? 0 : NO_OBJECT;
            Row read = read_validated(input, rules, request, row, object);
            refusal = validate(rules, read, read_optional(input, request, row));
            if (refusal == 0) {
                if (!has_slot) refusal = found.least;
                if (refusal == 0) time = (u64)(read.time_ms - TIME_ORIGIN_MS) + 1;
                late = has_slot ? read.time_ms - request.base_ms < found.least : refusal == 0;
                if (refusal == 0 && !late) slot = resolve(index, found.slot);
            }
            competes = slot != NO_SLOT && rules.is_ordered == 0;
            if (competes) atomicMax(rows.best + slot, key_of(read.time_ms, arrival));
        }
        rows.slots[arrival] = slot;
        rows.refusals[arrival] = (u8)refusal;
    }
    block_count_by_key(refusal != 0, number, &input.outcomes[number].refused);
    block_count_by_key(late, number, &input.outcomes[number].late);
    // `dispatch_settle_entries` subtracts the winners.
    block_count_by_key(competes, number, &input.outcomes[number].superseded);
    block_count_by_key(refusal != 0, 0, &rows.report->refused);
    if (has_ahead(rules))
        block_count_by_key(is_ahead(rules, time), number, &input.outcomes[number].ahead);
    block_raise(time, (u64*)&rows.report->time_max);
}

// Validates the rows without a dictionary of ids and finds their slots.
extern "C" __global__ void dispatch_find(Input input, Rules rules, Rows rows, Index index,
                                         u64* objects) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_row = arrival < rules.rows;
    u32 number = is_row ? request_of(input, rules.requests, arrival) : 0;
    const RequestDescriptor& request = input.requests[number];
    u32 refusal = 0;
    u64 time = 0;
    if (is_row && !has_codes(request)) {
        u32 row = arrival - request.first_arrival, slot = NO_SLOT;
        if (input.outcomes[number].failed == 0) {
            u64 object = read_object(input, request, row);
            if (request.kind != REQUEST_REMOVE) {
                Row read = read_validated(input, rules, request, row, object);
                refusal = validate(rules, read, read_optional(input, request, row));
                if (refusal == 0 && rules.is_limited != 0) refusal = rows.refusals[arrival];
                if (refusal == 0) time = (u64)(read.time_ms - TIME_ORIGIN_MS) + 1;
            }
            if (refusal == 0 && object != NO_OBJECT)
                slot = claim(index, object, objects, &rows.report->slots);
        }
        rows.slots[arrival] = slot;
        rows.refusals[arrival] = (u8)refusal;
    }
    block_count_by_key(refusal != 0, number, &input.outcomes[number].refused);
    block_count_by_key(refusal != 0, 0, &rows.report->refused);
    if (has_ahead(rules))
        block_count_by_key(is_ahead(rules, time), number, &input.outcomes[number].ahead);
    block_raise(time, (u64*)&rows.report->time_max);
}

// For rows without a dictionary of ids: drops late rows and enters the keys of the others into
// `best`. Used only in cycles of fixes alone.
extern "C" __global__ void dispatch_order(Input input, Rules rules, Rows rows, Index index,
                                          Records records) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    u32 number = arrival < rules.rows ? request_of(input, rules.requests, arrival) : 0;
    const RequestDescriptor& request = input.requests[number];
    bool is_row = arrival < rules.rows && !has_codes(request), late = false;
    u32 slot = is_row ? resolve(index, rows.slots[arrival]) : NO_SLOT;
    if (slot != NO_SLOT) {
        i64 time_ms = read_time(input, request, arrival - request.first_arrival);
        const Version* start = records.versions + 2ull * slot + newest(records, slot);
        bool existed = start->alive != 0;
        late = existed && time_ms < start->time_ms;
        if (late) {
            slot = NO_SLOT;
        } else {
            atomicMax(rows.best + slot, key_of(time_ms, arrival));
        }
    }
    if (is_row) rows.slots[arrival] = slot;
    block_count_by_key(late, number, &input.outcomes[number].late);
}

// Makes the winning row the record of its object and resets `best`, so that no other thread takes
// its row for the winner.
__device__ inline Settled settle(const Input& input, const Rules& rules, const Rows& rows,
                                 const Records& records, u32 slot, const RequestDescriptor& request,
                                 u32 at_row, const Row& row) {
    rows.best[slot] = 0;
    return settle_winner(records, rules, clock_of(rules, rows.report), slot, row,
                         read_state(input, request, at_row), read_optional(input, request, at_row),
                         true);
}

// Writes the winners among rows of dictionaries. One thread an entry. For cycles of fixes alone.
extern "C" __global__ void dispatch_settle_entries(Input input, Rules rules, Rows rows, Index index,
                                                   Records records, u32 entries) {
    u32 entry = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_entry = entry < entries, wins = false;
    u32 number = is_entry ? request_of_entry(input, rules.requests, entry) : 0, slot = NO_SLOT;
    if (is_entry && input.outcomes[number].failed == 0)
        slot = resolve(index, rows.entry_slots[entry].slot);
    Settled settled = {};
    if (slot != NO_SLOT) {
        const RequestDescriptor& request = input.requests[number];
        u64 best = rows.best[slot];
        u32 at_row = arrival_of(best) - request.first_arrival;
        // A row of this request wins if and only if the winner is a row of this entry.
        wins = best != 0 && at_row < request.rows;
        if (wins)
            settled = settle(input, rules, rows, records, slot, request, at_row,
                             read_row(input, request, at_row));
    }
    block_count_by_key(wins, number, &input.outcomes[number].superseded, ~0u);
    block_record_outcome(rows, rules, slot, settled, number, input.outcomes);
}

// Writes the winners among rows without a dictionary of ids. For cycles of fixes alone.
extern "C" __global__ void dispatch_settle(Input input, Rules rules, Rows rows, Records records) {
    u32 arrival = blockIdx.x * blockDim.x + threadIdx.x;
    u32 number = arrival < rules.rows ? request_of(input, rules.requests, arrival) : 0;
    const RequestDescriptor& request = input.requests[number];
    bool is_row = arrival < rules.rows && !has_codes(request), beaten = false;
    u32 slot = is_row ? rows.slots[arrival] : NO_SLOT;
    Settled settled = {};
    if (slot != NO_SLOT) {
        u32 at_row = arrival - request.first_arrival;
        // Loaded before it is known whether the row wins, so that the two loads overlap.
        Row row = read_row(input, request, at_row);
        beaten = rows.best[slot] != key_of(row.time_ms, arrival);
        if (!beaten) settled = settle(input, rules, rows, records, slot, request, at_row, row);
    }
    block_count_by_key(beaten, number, &input.outcomes[number].superseded);
    block_record_outcome(rows, rules, slot, settled, number, input.outcomes);
}

// Ends the objects whose record has expired, and finds the earliest deadline of the other records.
// One thread a slot.
extern "C" __global__ void dispatch_expire(Input input, Rules rules, Rows rows, Records records,
                                           u32 slots) {
    u32 slot = blockIdx.x * blockDim.x + threadIdx.x;
    Settled settled = {};
    u64 earliest = ~0ull;
    if (slot < slots) {
        u32 old = newest(records, slot);
        Version was = load(records.versions + 2ull * slot + old);
        if (was.alive != 0) {
            u32 valid_ms = rules.has_validity ? optional_of(records, slot, old).valid_ms
                                              : NO_VALIDITY_MS;
            i64 deadline = deadline_of(rules, was.time_ms, valid_ms);
            // A record of this cycle was compared with the clock when it was written.
            if (was.epoch != rules.epoch && deadline < clock_of(rules, rows.report)) {
                settled = end_object(records, rules, slot, old, was,
                                     optional_of(records, slot, old), EVENT_EXPIRED);
            } else if (deadline != NEVER_MS) {
                earliest = (u64)(deadline - TIME_ORIGIN_MS);
            }
        }
    }
    earliest = warp_min(earliest);
    if (lane() == 0 && earliest != ~0ull) atomicMin((u64*)&rows.report->deadline, earliest);
    block_record_outcome(rows, rules, slot, settled, 0, input.outcomes);
}
