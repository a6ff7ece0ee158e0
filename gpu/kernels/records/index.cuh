// The secondary index, from object to slot: open addressing over 16-byte places.
//
// Compare-and-swap on the id claims a place; only the claiming thread allocates the slot. No entry is
// removed: a dead object keeps its place and slot until the table is rebuilt.
#pragma once
#include "layout.cuh"
#include "records/siphash.cuh"

__device__ inline u32 home_of(const Index& index, u64 object) {
    return (u32)((siphash(index.key, object) >> 32) * index.length >> 32);
}

__device__ inline u32 next_place(const Index& index, u32 at) {
    return at + 1 == index.length ? 0 : at + 1;
}

__device__ inline Place load(const Place* place) {
    int4 words = *(const int4*)place;
    return *(Place*)&words;
}

// The slot of an object, NO_SLOT if it has none.
__device__ inline u32 find(const Index& index, u64 object) {
    for (u32 at = home_of(index, object);; at = next_place(index, at)) {
        Place place = load(index.places + at);
        if (place.object == object) return place.slot;
        if (place.object == NO_OBJECT) return NO_SLOT;
    }
}

// Returns the slot of an object; inserts the object if it is absent. If another thread is inserting
// it, returns SLOT_PENDING | the place that holds the slot after this kernel has ended.
__device__ inline u32 claim(const Index& index, u64 object, u64* objects, u32* slots) {
    for (u32 at = home_of(index, object);; at = next_place(index, at)) {
        Place* place = index.places + at;
        Place seen = load(place);
        if (seen.object == NO_OBJECT) {
            u64 before = atomicCAS((u64*)&place->object, NO_OBJECT, object);
            if (before == NO_OBJECT) {
                u32 slot = atomicAdd(slots, 1u);
                objects[slot] = object;
                place->slot = slot;
                return slot;
            }
            seen.object = before;
            seen.slot = NO_SLOT;
        }
        if (seen.object == object) return seen.slot != NO_SLOT ? seen.slot : SLOT_PENDING | at;
    }
}

// The slot for a result of `claim`. Must be called in a later kernel.
__device__ inline u32 resolve(const Index& index, u32 claimed) {
    if (claimed == NO_SLOT || (claimed & SLOT_PENDING) == 0) return claimed;
    return index.places[claimed & ~SLOT_PENDING].slot;
}
