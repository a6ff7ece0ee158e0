// The records of objects, two versions of each.
//
// A cycle overwrites the older version. Its queries read the newest version of an earlier epoch,
// which is the other one, so they never read a version that is being written. A record is written
// once; the paper writes it to two indexes.
#pragma once
#include "layout.cuh"

__device__ inline u64 epoch_of(const Version* version) {
    return *(const volatile u64*)&version->epoch;
}

// Number of the newer version of a slot.
__device__ inline u32 newest(const Records& records, u32 slot) {
    const Version* both = records.versions + 2ull * slot;
    return both[1].epoch > both[0].epoch ? 1u : 0u;
}

// Number of the newest version that is not later than cycle `epoch`. The other version may be
// written at the same time.
__device__ inline u32 held_at(const Records& records, u32 slot, u64 epoch) {
    const Version* both = records.versions + 2ull * slot;
    u64 first = epoch_of(both), second = epoch_of(both + 1);
    bool first_counts = first <= epoch, second_counts = second <= epoch;
    return second_counts && (!first_counts || second > first) ? 1u : 0u;
}

__device__ inline Version load(const Version* version) {
    const int4* words = (const int4*)version;
    int4 both[2] = {words[0], words[1]};
    return *(Version*)both;
}

__device__ inline void store(Version* version, Version value) {
    int4* words = (int4*)version;
    words[0] = ((int4*)&value)[0];
    words[1] = ((int4*)&value)[1];
}

__device__ inline Optional unknown() {
    Optional all = {};
#define MEASURE(field, type, place, refused, bit, min, max, absent, ...) all.field = (type)absent;
    MEASURES(MEASURE)
#undef MEASURE
    return all;
}

__device__ inline Optional optional_of(const Records& records, u32 slot, u32 version) {
    return records.optional == nullptr ? unknown() : records.optional[2ull * slot + version];
}

__device__ inline bool equal(const Optional& a, const Optional& b) {
#define MEASURE(field, ...) && a.field == b.field
    return true MEASURES(MEASURE);
#undef MEASURE
}

// Whether a value is known and lies in [from, to]. If `is_circular`, a range with `from` above `to`
// wraps around.
template <class T>
__device__ inline bool is_within(T value, T from, T to, T absent, bool is_circular) {
    if (value == absent) return false;
    if (is_circular && from > to) return value >= from || value <= to;
    return from <= value && value <= to;
}

// Whether a filter's conditions on optional values hold.
__device__ inline bool attributes_pass(const Shape& shape, const Optional& optional) {
#define MEASURE(field, type, place, refused, bit, min, max, absent, least, greatest, is_circular) \
    if ((shape.filter & bit)                                                                      \
        && !is_within(optional.field, shape.min, shape.max, decltype(optional.field)(absent),     \
                      is_circular))                                                               \
        return false;
    MEASURES(MEASURE)
#undef MEASURE
    return true;
}

// The reason why optional values are refused, 0 if they are valid.
__device__ inline u32 refusal_of(const Optional& optional) {
#define MEASURE(field, type, place, refused, bit, min, max, absent, least, greatest, is_circular) \
    if (optional.field != decltype(optional.field)(absent)                                        \
        && !is_within(optional.field, decltype(optional.field)(least),                            \
                      decltype(optional.field)(greatest), decltype(optional.field)(absent),       \
                      false))                                                                     \
        return refused;
    MEASURES(MEASURE)
#undef MEASURE
    return 0;
}

// The event that ended an object, read from its last version; see `end_object`.
__device__ inline u32 event_of(const Version& dead) {
    return dead.time_ms < TIME_ORIGIN_MS ? (u32)dead.time_ms : EVENT_EXPIRED;
}

// A record with these optional values; all other fields are 0.
__device__ inline AnswerRecord answered(const Optional& optional) {
    AnswerRecord answer = {};
#define MEASURE(field, ...) answer.field = optional.field;
    MEASURES(MEASURE)
#undef MEASURE
    return answer;
}

// Version `place` of a slot's record, as a record of an answer.
__device__ inline AnswerRecord record_at(const Records& records, u32 slot, u32 place) {
    Version version = load(records.versions + 2ull * slot + place);
    AnswerRecord answer = answered(optional_of(records, slot, place));
    answer.object = records.objects[slot];
    answer.time_ms = version.time_ms;
    answer.x = version.x;
    answer.y = version.y;
    answer.state = version.state;
    answer.found = version.alive;
    return answer;
}

// The record of a slot after cycle `epoch`; `found` is 0 if the slot was first used later.
__device__ inline AnswerRecord answered(const Records& records, u32 slot, u64 epoch) {
    u32 held = held_at(records, slot, epoch);
    AnswerRecord answer = record_at(records, slot, held);
    if (records.versions[2ull * slot + held].epoch > epoch) answer.found = 0;
    return answer;
}
