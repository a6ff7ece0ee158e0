// Entry points of stage update.
#include "update.cuh"

// A deletion and an insertion for every object that changes cell; moves inside a cell are done
// here, in place. One thread a moved slot; two keys each, NO_KEY where there is nothing.
extern "C" __global__ void update_keys(Cells cells, Moved moved, Records records, Entry* current,
                                       u32* keys, u32* slots) {
    u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= moved.length) return;
    bool is_old = number < moved.before_length;
    u32 slot = is_old ? moved.before[number] : moved.now[number - moved.before_length];
    u32 delete_key = NO_KEY, insert_key = NO_KEY;
    // A slot that moved in both cycles stands in both lists.
    if (!is_old || moved.stamps[slot] != (u32)moved.epoch) {
        u32 place = cells.where[slot];
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

// The newest positions of the slots that moved in this cycle, for a grid that is built anew. One
// thread a slot.
extern "C" __global__ void update_publish(Moved moved, Records records, Entry* current) {
    u32 number = moved.before_length + blockIdx.x * blockDim.x + threadIdx.x;
    if (number < moved.length)
        publish(records, current, moved.now[number - moved.before_length], moved.epoch);
}

// Finds each touched cell's operations and whether they fit. One thread a sorted key.
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

// Notes where each deletion makes its hole; counts cells that would outgrow their room. One thread
// a sorted key.
extern "C" __global__ void update_holes(Cells cells, const u32* keys, const u32* slots,
                                        u32 length, const Span* spans, u32* holes,
                                        u32* outgrown) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    u32 key = at < length ? keys[at] : NO_KEY;
    bool outgrows = false;
    if (key != NO_KEY) {
        Span span = spans[key >> 1];
        u32 deletions = span.first_insertion - span.first;
        u32 insertions = span.end - span.first_insertion;
        if ((key & 1) == 0) {
            holes[at] = cells.where[slots[at]];
            cells.where[slots[at]] = NO_SLOT;
        }
        if (at == span.first) {
            Cell cell = cells.cells[key >> 1];
            outgrows = cell.count + insertions > cell.capacity + deletions;
        }
    }
    count_where(outgrows, outgrown);
}

// Marks the holes that no insertion fills. This and what follows does nothing when a cell would
// outgrow its room: the grid is built anew then. One thread a sorted key.
extern "C" __global__ void update_marks(Cells cells, const u32* keys, u32 length,
                                        const Span* spans, const u32* holes,
                                        const u32* outgrown) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length || *outgrown != 0) return;
    u32 key = keys[at];
    if (key == NO_KEY || (key & 1) != 0) return;
    Span span = spans[key >> 1];
    if (at - span.first >= span.end - span.first_insertion) cells.entries[holes[at]].slot = HOLE;
}

// Inserts: into the holes, then behind the last entry. One thread a sorted key.
extern "C" __global__ void update_insert(Cells cells, const Entry* current, const u32* keys,
                                         const u32* slots, u32 length, const Span* spans,
                                         const u32* holes, const u32* outgrown) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length || *outgrown != 0) return;
    u32 key = keys[at];
    if (key == NO_KEY || (key & 1) == 0) return;
    Span span = spans[key >> 1];
    u32 rank = at - span.first_insertion, deletions = span.first_insertion - span.first;
    Cell cell = cells.cells[key >> 1];
    u32 place = rank < deletions ? holes[span.first + rank]
                                 : cell.start + cell.count + (rank - deletions);
    cells.entries[place] = current[slots[at]];
    cells.where[slots[at]] = place;
}

// Settles the counts; fills the holes that are left with the last entries of the cell. One thread a
// sorted key, of which the first of a cell works.
extern "C" __global__ void update_close(Cells cells, const u32* keys, u32 length,
                                        const Span* spans, const u32* holes,
                                        const u32* outgrown) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length || *outgrown != 0) return;
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
        u32 place = holes[hole];
        if (place >= end) continue;
        do last--;
        while (cells.entries[last].slot == HOLE);
        Entry entry = cells.entries[last];
        cells.entries[place] = entry;
        cells.where[entry.slot] = place;
    }
    cell->count = count;
}

// The cell of every slot, NO_KEY for slots without an object. One thread a slot.
extern "C" __global__ void rebuild_keys(Grid grid, const Entry* current, u32 slots, u32* keys,
                                        u32* values) {
    u32 slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= slots) return;
    Entry entry = current[slot];
    keys[slot] = entry.slot == NO_SLOT ? NO_KEY : cell_of(grid, entry.x, entry.y);
    values[slot] = slot;
}

// Where each cell's objects begin and end among the sorted keys; `spans` is zero before. One thread
// a sorted key.
extern "C" __global__ void rebuild_spans(const u32* keys, u32 length, Span* spans) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 key = keys[at];
    if (key == NO_KEY) return;
    if (at == 0 || keys[at - 1] != key) spans[key].first = at;
    if (at + 1 == length || keys[at + 1] != key) spans[key].end = at + 1;
}

// The room of every cell, and how uneven they are: the sum of the squares of their counts.
extern "C" __global__ void rebuild_rooms(const Span* spans, u32 cells, float mean, u32* rooms,
                                         u64* squares) {
    u32 cell = blockIdx.x * blockDim.x + threadIdx.x;
    u64 square = 0;
    if (cell < cells) {
        u32 count = spans[cell].end - spans[cell].first;
        rooms[cell] = room_of(count, mean);
        square = (u64)count * count;
    }
    square = warp_sum(square);
    if (lane() == 0 && square != 0) atomicAdd(squares, square);
}

// The finished cells. One thread a cell.
extern "C" __global__ void rebuild_cells(Cells cells, const Span* spans, const u32* starts,
                                         const u32* rooms, u32 length) {
    u32 cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= length) return;
    cells.cells[cell] = {starts[cell], spans[cell].end - spans[cell].first, rooms[cell], 0};
}

// Puts the objects into their cells. One thread a sorted key.
extern "C" __global__ void rebuild_fill(Cells cells, const Entry* current, const u32* keys,
                                        const u32* values, u32 length, const Span* spans) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 key = keys[at];
    if (key == NO_KEY) return;
    cells.entries[cells.cells[key].start + (at - spans[key].first)] = current[values[at]];
}

// Learns where every object is in a grid that was built anew. One warp a cell.
extern "C" __global__ void update_locate(Cells cells, u32 length) {
    u32 cell = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (cell >= length) return;
    Cell found = cells.cells[cell];
    for (u32 at = lane(); at < found.count; at += 32)
        cells.where[cells.entries[found.start + at].slot] = found.start + at;
}

// Every so many positions, for choosing an extent. One thread a sample.
extern "C" __global__ void update_sample(const Entry* current, u32 slots, u32 step, Entry* sample,
                                         u32 length) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u64 slot = (u64)at * step;
    sample[at] = slot < slots ? current[slot] : Entry{0, 0, NO_SLOT, 0};
}

// Optional values that nobody has given. One thread a version.
extern "C" __global__ void dispatch_unknown(Optional* optional, u64 first, u64 end) {
    u64 at = first + blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (at < end) optional[at] = unknown();
}
