// The records of objects, two versions of each.
//
// A cycle overwrites the older version. Its queries read the newest version below its epoch, which is
// the other one, so they never read a version that is being written. A record is applied once, where
// the paper applies it to two indexes.
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

// Number of the version after cycle `epoch`; the other one may be being written.
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
    return {SPEED_UNKNOWN, ALTITUDE_UNKNOWN, HEADING_UNKNOWN, 0u};
}

__device__ inline Optional optional_of(const Records& records, u32 slot, u32 version) {
    return records.optional == nullptr ? unknown() : records.optional[2ull * slot + version];
}

__device__ inline bool equal(const Optional& a, const Optional& b) {
    return a.speed_mm_s == b.speed_mm_s && a.altitude_mm == b.altitude_mm
        && a.heading_cdeg == b.heading_cdeg;
}

// Whether a filter's conditions on optional values hold.
__device__ inline bool attributes_pass(const Shape& shape, const Optional& optional) {
    if (shape.filter & FILTER_SPEED) {
        u32 speed = optional.speed_mm_s;
        if (speed == SPEED_UNKNOWN || speed < shape.speed_min || speed > shape.speed_max)
            return false;
    }
    if (shape.filter & FILTER_HEADING) {
        u32 heading = optional.heading_cdeg;
        u32 from = shape.heading_range & 0xffffu, to = shape.heading_range >> 16;
        if (heading == HEADING_UNKNOWN) return false;
        bool within = from <= to ? from <= heading && heading <= to
                                 : heading >= from || heading <= to;
        if (!within) return false;
    }
    if (shape.filter & FILTER_ALTITUDE) {
        i32 altitude = optional.altitude_mm;
        if (altitude == ALTITUDE_UNKNOWN || altitude < shape.altitude_min
            || altitude > shape.altitude_max)
            return false;
    }
    return true;
}

// The event that ended an object, by its last version; see `end_object`.
__device__ inline u32 event_of(const Version& dead) {
    return dead.time_ms < TIME_ORIGIN_MS ? (u32)dead.time_ms : EVENT_EXPIRED;
}

// One version of a record, in the form of answers.
__device__ inline AnswerRecord record_at(const Records& records, u32 slot, u32 place) {
    Version version = load(records.versions + 2ull * slot + place);
    Optional optional = optional_of(records, slot, place);
    return {records.objects[slot], version.time_ms, version.x, version.y, optional.speed_mm_s,
            optional.altitude_mm, optional.heading_cdeg, version.state, version.alive, 0u};
}
