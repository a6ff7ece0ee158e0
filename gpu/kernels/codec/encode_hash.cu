// Numbers the distinct values of a column with a hash table, so that only the distinct values are
// sorted; every row then looks up its code.
//
// The table uses open addressing; threads claim places by compare-and-swap. A free place has all
// bits set, so the value with this pattern has a separate place after the table.
#include "codec/encode_bits.cuh"

static const u64 FREE = ~0ull;

__device__ inline u32 first_place(const Table& table, u64 key) {
    u32 bits = 31 - (u32)__clz((int)table.slots);
    // 2^64 over the golden ratio.
    return (u32)(key * 0x9e3779b97f4a7c15ull >> (64 - bits));
}

__device__ inline u32 this_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Claims a place for a value if it has none. `found[0]` counts the claimed places. `found[1]` is
// set if there are too many distinct values or TRIED_MAX places are taken by others, `found[2]` if
// the value has all bits set.
__device__ inline void claim(const Table& table, u64 key) {
    if (key == FREE) {
        table.found[2] = 1;
        return;
    }
    u32 place = first_place(table, key);
    for (u32 tried = 0; tried < TRIED_MAX; tried++) {
        // If the value read is stale, the compare-and-swap fails.
        u64 there = table.keys[place];
        if (there == FREE) {
            if (*(volatile u32*)(table.found + 1) != 0) return;
            there = atomicCAS(table.keys + place, FREE, key);
            if (there == FREE) {
                if (atomicAdd(table.found, 1u) >= table.limit) table.found[1] = 1;
                return;
            }
        }
        if (there == key) return;
        place = (place + 1) & (table.slots - 1);
    }
    table.found[1] = 1;
}

// Enters all values of the column into the table. Any number of threads.
extern "C" __global__ void hash_values(EncodeTask task, Table table) {
    u64 before = 0;
    bool is_first = true;
    for (u32 at = this_thread(); at < task.rows; at += gridDim.x * blockDim.x) {
        u64 key = read_pattern<u64>(task.values, task.bits, at);
        if (is_first || key != before) claim(table, key);
        before = key;
        is_first = false;
    }
}

// Lists the values with their places in the table, in no particular order. Lowers `ends[0]` to the
// least and raises `ends[1]` to the greatest value. One thread a place, and one for the separate
// place; the block size is a multiple of 32.
extern "C" __global__ void hash_list(Table table, u64* keys, u32* places, u32* length, u64* ends) {
    u32 place = this_thread();
    bool is_last = place == table.slots;
    u64 key = place <= table.slots ? table.keys[place] : FREE;
    bool is_found = is_last ? table.found[2] != 0 : place < table.slots && key != FREE;
    u32 at = warp_append(is_found, length);
    if (is_found && at < table.limit) {
        keys[at] = key;
        places[at] = place;
    }
    u64 least = warp_min(is_found ? key : FREE), greatest = warp_max(is_found ? key : 0);
    if (lane() != 0 || least > greatest) return;
    atomicMin(ends, least);
    atomicMax(ends + 1, greatest);
}

// Writes to the place of every value its number in ascending order. `places` is ordered by value.
// One thread a value.
extern "C" __global__ void hash_number(Table table, const u32* places, u32 numbers) {
    u32 at = this_thread();
    if (at < numbers) table.codes[places[at]] = at;
}

// Writes the code of every row. Any number of threads.
extern "C" __global__ void hash_codes(EncodeTask task, Table table, unsigned short* codes) {
    for (u32 at = this_thread(); at < task.rows; at += gridDim.x * blockDim.x) {
        u64 key = read_pattern<u64>(task.values, task.bits, at);
        u32 place = key == FREE ? table.slots : first_place(table, key);
        while (table.keys[place] != key) place = (place + 1) & (table.slots - 1);
        codes[at] = (unsigned short)table.codes[place];
    }
}
