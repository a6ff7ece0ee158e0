// Stage dispatch: validates rows, finds the slots of their objects, selects the newest fix of each
// object and lists the slots that move in the grid.
//
// Rows are read in place, from the columns of their requests. Each entry of a dictionary of ids is
// looked up in the index once, together with the record that its rows are compared with; a row of
// the block has only the entry's code, so an encoded block costs less than a raw one. If the box in
// a block's header lies in the space, positions are not checked row by row, and columns that are
// read only for the newest fix of an object stay in grouped order. No result depends on the order
// of threads, because an atomic maximum of 64 bits selects each object's fix with the greatest
// (time, arrival).
#pragma once
#include "block/block.cuh"
#include "records/index.cuh"
#include "records/record.cuh"
#include "warp/search.cuh"

struct Row {
    u64 object;
    i64 time_ms;
    i32 x;
    i32 y;
};

template <class T>
__device__ inline T at(const Input& input, u64 offset, u32 row) {
    return ((const T*)(input.bytes + offset))[row];
}

// The request of an arrival: the last that begins at or before it.
__device__ inline u32 request_of(const Input& input, u32 requests, u32 arrival) {
    return last_not_above(requests, arrival, [&](u32 at) { return input.first_arrivals[at]; });
}

// The request of an entry; entries are numbered over all dictionaries. A request without entries
// has the same first entry as the next request.
__device__ inline u32 request_of_entry(const Input& input, u32 requests, u32 entry) {
    return last_not_above(requests, entry, [&](u32 at) { return input.requests[at].first_entry; });
}

// The key by which fixes of one object are compared. The later time wins; if times are equal, the
// later arrival wins. Never 0.
__device__ inline u64 key_of(i64 time_ms, u32 arrival) {
    return (u64)(time_ms - TIME_ORIGIN_MS) << ARRIVAL_BITS | (arrival + 1);
}
__device__ inline u32 arrival_of(u64 key) { return ((u32)key & ((1u << ARRIVAL_BITS) - 1)) - 1; }

// Whether the ids of a request are stored as a dictionary and a code per row.
__device__ inline bool has_codes(const RequestDescriptor& request) { return request.entries != 0; }

__device__ inline u32 read_code(const Input& input, const RequestDescriptor& request, u32 row) {
    return at<unsigned short>(input, request.object_at, row);
}

__device__ inline u64 read_object(const Input& input, const RequestDescriptor& request, u32 row) {
    return has_codes(request)
        ? at<u64>(input, request.entries_at, read_code(input, request, row))
        : at<u64>(input, request.object_at, row);
}

__device__ inline i64 read_time(const Input& input, const RequestDescriptor& request, u32 row) {
    return request.kind == REQUEST_BLOCK
        ? request.base_ms + at<u32>(input, request.time_at, row)
        : at<i64>(input, request.time_at, row);
}

// The place of a row's value in a column, which may be in grouped order; `column` is one of the
// GROUPED_ bits.
__device__ inline u32 place_in(const Input& input, const RequestDescriptor& request, u32 column,
                               u32 row) {
    if ((request.grouped & column) == 0) return row;
    u32 segment = row / CODEC_SEGMENT_ROWS * CODEC_SEGMENT_ROWS;
    return segment + at<unsigned short>(input, request.places_at, row);
}

__device__ inline i32 read_x(const Input& input, const RequestDescriptor& request, u32 row) {
    return at<i32>(input, request.x_at, place_in(input, request, GROUPED_X, row));
}

__device__ inline i32 read_y(const Input& input, const RequestDescriptor& request, u32 row) {
    return at<i32>(input, request.y_at, place_in(input, request, GROUPED_Y, row));
}

__device__ inline Row read_row(const Input& input, const RequestDescriptor& request, u32 row) {
    return {read_object(input, request, row), read_time(input, request, row),
            read_x(input, request, row), read_y(input, request, row)};
}

__device__ inline u32 read_state(const Input& input, const RequestDescriptor& request, u32 row) {
    if (request.state_at == NO_COLUMN) return 0;
    return at<u32>(input, request.state_at, place_in(input, request, GROUPED_STATE, row));
}

__device__ inline Optional read_optional(const Input& input, const RequestDescriptor& request,
                                         u32 row) {
    Optional read = unknown();
#define MEASURE(field, type, place, ...) \
    if (request.place != NO_COLUMN) read.field = at<type>(input, request.place, row);
    MEASURES(MEASURE)
#undef MEASURE
    return read;
}

// Whether all rows of a request are known to lie in the space. True for a block whose box lies in
// the space, because a row outside the box fails the block.
__device__ inline bool lies_inside(const Rules& rules, const RequestDescriptor& request) {
    return request.kind == REQUEST_BLOCK && request.x_min != NOT_FINITE_X
        && request.x_min >= rules.x_min && request.x_max <= rules.x_max
        && request.y_min >= rules.y_min && request.y_max <= rules.y_max;
}

// A row for validation: if all rows lie in the space, a corner of their box replaces the position.
__device__ inline Row read_validated(const Input& input, const Rules& rules,
                                     const RequestDescriptor& request, u32 row, u64 object) {
    Row read = {object, read_time(input, request, row), request.x_min, request.y_min};
    if (!lies_inside(rules, request)) {
        read.x = read_x(input, request, row);
        read.y = read_y(input, request, row);
    }
    return read;
}

// The reason why a row is refused, 0 for a valid row; equals the engine's `RowValidator`.
__device__ inline u32 validate(const Rules& rules, const Row& row, const Optional& optional) {
    if (row.object == NO_OBJECT) return REFUSED_OBJECT;
    if (row.x == NOT_FINITE_X) return REFUSED_NOT_FINITE;
    if (row.x < rules.x_min || row.x > rules.x_max || row.y < rules.y_min || row.y > rules.y_max)
        return REFUSED_OUTSIDE_SPACE;
    if (row.time_ms < TIME_ORIGIN_MS) return REFUSED_TIME_TOO_EARLY;
    if (row.time_ms > rules.time_max_ms) return REFUSED_TIME_TOO_LATE;
    return refusal_of(optional);
}

// The clock of the running cycle, valid once all rows are validated.
__device__ inline i64 clock_of(const Rules& rules, const DispatchReport* report) {
    i64 now = rules.system_ms;
    if (rules.event_clock != 0) {
        if (report->time_max == 0) return rules.clock_ms;
        now = (i64)(report->time_max - 1) + TIME_ORIGIN_MS;
        if (now > rules.event_clock_max_ms) now = rules.event_clock_max_ms;
    }
    return now > rules.clock_ms ? now : rules.clock_ms;
}

// Whether rows can be ahead of the clock after the cycle. Returns the same to all threads.
__device__ inline bool has_ahead(const Rules& rules) {
    return rules.event_clock != 0 && rules.event_clock_max_ms != 0x7fffffffffffffffll;
}

// Whether a row is ahead of the clock after the cycle. `time` is its event time since the origin,
// plus 1, or 0 without a valid row. Compares with `clock_ms` and `event_clock_max_ms` alone: the
// clock after the cycle is at most the later of the two.
__device__ inline bool is_ahead(const Rules& rules, u64 time) {
    i64 time_ms = (i64)(time - 1) + TIME_ORIGIN_MS;
    return time != 0 && time_ms > rules.event_clock_max_ms && time_ms > rules.clock_ms;
}

// The last clock at which a record exists, `NEVER_MS` if it does not expire; equals `deadline_ms`
// of the codec. `time_ms` is a valid event time, so it is not negative.
__device__ inline i64 deadline_of(const Rules& rules, i64 time_ms, u32 valid_ms) {
    i64 life = valid_ms == NO_VALIDITY_MS ? NEVER_MS : (i64)valid_ms;
    if (rules.ttl_ms < life) life = rules.ttl_ms;
    return life > NEVER_MS - time_ms ? NEVER_MS : time_ms + life;
}

// The changes made by settling one object; the caller adds them to the report.
struct Settled {
    bool moved;
    int objects;
    bool expired;
    bool duplicate;
    bool winner_expired;
};

__device__ inline void write(const Records& records, u32 slot, u32 place, const Version& version,
                             const Optional& optional) {
    store(records.versions + 2ull * slot + place, version);
    if (records.optional != nullptr) records.optional[2ull * slot + place] = optional;
}

// Ends an object that existed at the start of the cycle. The version of a removed or cleared object
// stores the event in place of the time, as a number below the earliest time of a record. The
// version of an expired object keeps its last values.
__device__ inline Settled end_object(const Records& records, const Rules& rules, u32 slot,
                                     u32 old, Version last, const Optional& optional, u32 event) {
    Settled settled = {};
    settled.objects = -1;
    settled.moved = true;
    settled.expired = event == EVENT_EXPIRED;
    last.alive = 0;
    last.epoch = rules.epoch;
    if (event != EVENT_EXPIRED) last.time_ms = event;
    write(records, slot, 1 - old, last, optional);
    return settled;
}

// Makes a row the record of its object; or ends the object, if the row has expired. `counts` is
// false if the record at the start of the cycle was removed before the row arrived.
__device__ inline Settled settle_winner(const Records& records, const Rules& rules, i64 clock,
                                        u32 slot, const Row& row, u32 state,
                                        const Optional& optional, bool counts) {
    u32 old = newest(records, slot);
    Version was = load(records.versions + 2ull * slot + old);
    Settled settled = {};
    bool existed = was.alive != 0;
    if (existed && counts && was.time_ms == row.time_ms && was.x == row.x && was.y == row.y
        && was.state == state && equal(optional_of(records, slot, old), optional)) {
        settled.duplicate = true;
        return settled;
    }
    Version now = {row.time_ms, rules.epoch, row.x, row.y, state, 1};
    if (deadline_of(rules, row.time_ms, optional.valid_ms) < clock) {
        if (existed)
            settled = end_object(records, rules, slot, old, now, optional, EVENT_EXPIRED);
        settled.expired = true;
        settled.winner_expired = true;
        return settled;
    }
    write(records, slot, 1 - old, now, optional);
    settled.moved = !existed || was.x != row.x || was.y != row.y || was.state != state;
    settled.objects = existed ? 0 : 1;
    return settled;
}

// Adds the outcome of each thread's object to the list of moved slots and to the counters. Called
// by all threads of a block.
__device__ inline void block_record_outcome(const Rows& rows, const Rules& rules, u32 slot,
                                      const Settled& settled, u32 request,
                                      RowOutcomeCounts* outcomes) {
    DispatchReport* report = rows.report;
    u32 place = block_append(settled.moved, &report->moves);
    if (settled.moved) {
        rows.moved[place] = slot;
        rows.stamps[slot] = (u32)rules.epoch;
    }
    warp_add_signs(settled.objects, &report->objects);
    warp_count(settled.expired, &report->expired);
    block_count_by_key(settled.duplicate, request, &outcomes[request].duplicate);
    block_count_by_key(settled.winner_expired, request, &outcomes[request].expired);
}
