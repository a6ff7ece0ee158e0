// Kernels over all records, launched outside cycles: they initialise optional values, fill the
// index and export records.
#include "records/index.cuh"
#include "records/record.cuh"

// Sets the optional values of versions [first, end) to unknown. One thread a version.
extern "C" __global__ void records_unknown(Optional* optional, u64 first, u64 end) {
    u64 at = first + blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (at < end) optional[at] = unknown();
}

// Enters slots [0, slots) into an empty index. One thread a slot.
extern "C" __global__ void records_index(Index index, const u64* objects, u32 slots) {
    u32 slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= slots) return;
    u64 object = objects[slot];
    for (u32 at = home_of(index, object);; at = next_place(index, at)) {
        u64* place = (u64*)&index.places[at].object;
        if (atomicCAS(place, NO_OBJECT, object) == NO_OBJECT) {
            index.places[at].slot = slot;
            return;
        }
    }
}

// Writes the records of slots [0, slots) as of the end of cycle `epoch` to `exported`. One thread a
// slot.
extern "C" __global__ void records_export(Records records, u32 slots, u64 epoch,
                                          AnswerRecord* exported) {
    u32 slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot < slots) exported[slot] = answered(records, slot, epoch);
}
