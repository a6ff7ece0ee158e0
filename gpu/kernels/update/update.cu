// Applies moves to a grid. Each kernel's comment says what one thread handles.
#include "update/update.cuh"

// Writes a deletion and an insertion for every object that changes its cell. Applies a move within
// a cell in place. One thread per moved slot writes two keys; a key without an operation is NO_KEY.
extern "C" __global__ void update_keys(Cells cells, Moved moved, Records records, Entry* current,
                                       u32* keys, u32* slots) {
    u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= moved.length) return;
    bool is_old = number < moved.before_length;
    u32 slot = is_old ? moved.before[number] : moved.now[number - moved.before_length];
    u32 delete_key = NO_KEY, insert_key = NO_KEY;
    // A slot that moved in both cycles is in both lists.
    if (!is_old || moved.stamps[slot] != (u32)moved.epoch) {
        u32 place = cells.places[slot];
        Entry to = is_old ? current[slot] : publish(records, current, slot, moved.epoch);
        if (place != NO_SLOT) {
            Entry from = cells.entries[place];
            delete_key = cell_of(cells.grid, from.x, from.y) << 1;
        }
        if (to.slot != NO_SLOT) insert_key = cell_of(cells.grid, to.x, to.y) << 1 | 1;
        if (delete_key != NO_KEY && (delete_key | 1) == insert_key) {
            cells.entries[place] = to;
            delete_key = insert_key = NO_KEY;
        }
    }
    keys[2ull * number] = delete_key;
    keys[2ull * number + 1] = insert_key;
    slots[2ull * number] = slot;
    slots[2ull * number + 1] = slot;
}

// Writes the positions of the slots that moved in this cycle to `current`, before a grid is rebuilt
// from it. One thread a slot.
extern "C" __global__ void update_publish(Moved moved, Records records, Entry* current) {
    u32 number = moved.before_length + blockIdx.x * blockDim.x + threadIdx.x;
    if (number < moved.length)
        publish(records, current, moved.now[number - moved.before_length], moved.epoch);
}

// Writes the range of sorted keys that belongs to each cell: deletions first, then insertions. One
// thread a sorted key.
extern "C" __global__ void update_spans(const u32* keys, u32 length, Span* spans) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 key = keys[at];
    if (key == NO_KEY) return;
    u32 before = at == 0 ? NO_KEY : keys[at - 1];
    u32 after = at + 1 == length ? NO_KEY : keys[at + 1];
    Span* span = spans + (key >> 1);
    bool first = before == NO_KEY || before >> 1 != key >> 1;
    bool last = after == NO_KEY || after >> 1 != key >> 1;
    if (first) span->first = at;
    if ((key & 1) != 0 && (first || before != key)) span->first_insertion = at;
    if (last) {
        span->end = at + 1;
        if ((key & 1) == 0) span->first_insertion = at + 1;
    }
}

// Writes to `holes` the index within its cell of each deleted entry, and lists the cells that
// outgrow their capacity. One thread a sorted key.
extern "C" __global__ void update_holes(Cells cells, const u32* keys, const u32* slots,
                                        u32 length, const Span* spans, u32* holes,
                                        Outgrown* outgrown, u32* list) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 key = at < length ? keys[at] : NO_KEY;
    bool outgrows = false;
    if (key != NO_KEY) {
        Span span = spans[key >> 1];
        Cell cell = cells.cells[key >> 1];
        u32 deletions = span.first_insertion - span.first;
        u32 insertions = span.end - span.first_insertion;
        if ((key & 1) == 0) {
            holes[at] = cells.places[slots[at]] - cell.start;
            cells.places[slots[at]] = NO_SLOT;
        }
        outgrows = at == span.first && cell.count + insertions > cell.capacity + deletions;
    }
    u32 place = warp_append(outgrows, &outgrown->count);
    if (outgrows) list[place] = key >> 1;
}

// Moves the listed cells into the spare space after all other cells, with capacity for later
// insertions. Sets `outgrown->failed` if the spare space is too small. A block moves one cell at a
// time. Objects that were just deleted have no place and do not get a new one.
extern "C" __global__ void update_grow(Cells cells, const Span* spans, Outgrown* outgrown,
                                       const u32* list, Spare spare) {
    __shared__ u64 start;
    for (u32 number = blockIdx.x; number < outgrown->count; number += gridDim.x) {
        Cell* cell = cells.cells + list[number];
        Span span = spans[list[number]];
        Cell was = *cell;
        u32 change = span.end - span.first_insertion - (span.first_insertion - span.first);
        u32 capacity = capacity_of(was.count + change, spare.mean);
        __syncthreads();
        if (threadIdx.x == 0) start = atomicAdd(spare.first, (u64)capacity);
        __syncthreads();
        if (start + capacity > spare.end) {
            if (threadIdx.x == 0) outgrown->failed = 1;
            continue;
        }
        for (u32 at = threadIdx.x; at < was.count; at += blockDim.x) {
            Entry entry = cells.entries[was.start + at];
            cells.entries[start + at] = entry;
            if (cells.places[entry.slot] != NO_SLOT) cells.places[entry.slot] = (u32)start + at;
        }
        if (threadIdx.x == 0) *cell = {(u32)start, was.count, capacity, 0};
    }
}

// Inserts entries into the holes first, then after the last entry of the cell; marks the holes that
// no insertion fills. This kernel and `update_close` do nothing if a cell could not grow: then the
// grid is rebuilt. One thread a sorted key.
extern "C" __global__ void update_insert(Cells cells, const Entry* current, const u32* keys,
                                         const u32* slots, u32 length, const Span* spans,
                                         const u32* holes, const Outgrown* outgrown) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length || outgrown->failed != 0) return;
    u32 key = keys[at];
    if (key == NO_KEY) return;
    Span span = spans[key >> 1];
    Cell cell = cells.cells[key >> 1];
    u32 deletions = span.first_insertion - span.first;
    if ((key & 1) == 0) {
        bool is_filled = at - span.first < span.end - span.first_insertion;
        if (!is_filled) cells.entries[cell.start + holes[at]].slot = HOLE;
        return;
    }
    u32 rank = at - span.first_insertion;
    u32 place = cell.start
        + (rank < deletions ? holes[span.first + rank] : cell.count + (rank - deletions));
    cells.entries[place] = current[slots[at]];
    cells.places[slots[at]] = place;
}

// Updates the counts of the cells and fills the remaining holes of each with its last entries. One
// thread a sorted key; only the thread of a cell's first key does work.
extern "C" __global__ void update_close(Cells cells, const u32* keys, u32 length,
                                        const Span* spans, const u32* holes,
                                        const Outgrown* outgrown) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length || outgrown->failed != 0) return;
    u32 key = keys[at];
    if (key == NO_KEY) return;
    Span span = spans[key >> 1];
    if (at != span.first) return;
    Cell* cell = cells.cells + (key >> 1);
    u32 deletions = span.first_insertion - span.first;
    u32 insertions = span.end - span.first_insertion;
    u32 count = cell->count + insertions - deletions;
    u32 last = cell->start + cell->count, end = cell->start + count;
    for (u32 hole = span.first + insertions; hole < span.first_insertion; hole++) {
        u32 place = cell->start + holes[hole];
        if (place >= end) continue;
        do last--;
        while (cells.entries[last].slot == HOLE);
        Entry entry = cells.entries[last];
        cells.entries[place] = entry;
        cells.places[entry.slot] = place;
    }
    cell->count = count;
}

// Records the place of every object in a rebuilt grid. One warp a cell.
extern "C" __global__ void update_locate(Cells cells, u32 length) {
    u32 cell = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (cell >= length) return;
    Cell found = cells.cells[cell];
    for (u32 at = lane(); at < found.count; at += 32)
        cells.places[cells.entries[found.start + at].slot] = found.start + at;
}

// Copies every `step`th entry of `current`; the host chooses the grid's extent from these. Writes
// NO_SLOT for samples beyond the last slot. One thread a sample.
extern "C" __global__ void update_sample(const Entry* current, u32 slots, u32 step, Entry* sample,
                                         u32 length) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u64 slot = (u64)at * step;
    sample[at] = slot < slots ? current[slot] : Entry{0, 0, NO_SLOT, 0};
}
