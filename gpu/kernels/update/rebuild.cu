// Counts the objects of bins and cells, and lays out the cells.
#include "update/rebuild.cuh"

// Counts the objects of every bin of 2^`shift` cells. A block takes a chunk of slots.
extern "C" __global__ void __launch_bounds__(REBUILD_COUNT_THREADS)
    rebuild_bins(Grid grid, u32 shift, const Entry* current, u32 slots, u32* bins) {
    __shared__ u32 counts[REBUILD_BINS];
    clear(counts, REBUILD_BINS);
    Entry entries[REBUILD_EACH];
    load_entries(current, slots, entries);
#pragma unroll
    for (Entry entry : entries)
        if (entry.slot != NO_SLOT)
            atomicAdd(counts + (cell_of(grid, entry.x, entry.y) >> shift), 1);
    __syncthreads();
    for (u32 bin = threadIdx.x; bin < REBUILD_BINS; bin += blockDim.x)
        if (counts[bin] != 0) atomicAdd(bins + bin, counts[bin]);
}

// Counts the objects of every cell. A block takes a chunk of the `*objects` partitioned entries.
extern "C" __global__ void __launch_bounds__(REBUILD_COUNT_THREADS)
    rebuild_counts(Grid grid, u32 shift, const Entry* sorted, const u32* objects, u32* counts) {
    __shared__ u32 near[REBUILD_WINDOW];
    u32 length = *objects;
    if (blockIdx.x * blockDim.x * REBUILD_EACH >= length) return;
    Window window = window_of(grid, shift, sorted, length);
    bool fits = window.length <= REBUILD_WINDOW;
    if (fits) clear(near, window.length);
    Entry entries[REBUILD_EACH];
    load_entries(sorted, length, entries);
#pragma unroll
    for (Entry entry : entries) {
        if (entry.slot == NO_SLOT) continue;
        u32 cell = cell_of(grid, entry.x, entry.y);
        atomicAdd(fits ? near + (cell - window.first) : counts + cell, 1);
    }
    if (!fits) return;
    __syncthreads();
    for (u32 at = threadIdx.x; at < window.length; at += blockDim.x)
        if (near[at] != 0) atomicAdd(counts + window.first + at, near[at]);
}

// Writes the capacity of every cell, equal to its count if `is_tight` is set, and adds the squares
// of the counts to `squares`, a measure of how uneven the counts are. One thread a cell.
extern "C" __global__ void __launch_bounds__(REBUILD_COUNT_THREADS)
    rebuild_capacities(const u32* counts, u32 cells, float mean, u32 is_tight, u32* capacities,
                       u64* squares) {
    u32 cell = blockIdx.x * blockDim.x + threadIdx.x;
    u64 square = 0;
    if (cell < cells) {
        u32 count = counts[cell];
        capacities[cell] = is_tight != 0 ? count : capacity_of(count, mean);
        square = (u64)count * count;
    }
    block_add(square, squares);
}

// Writes the cells, and to `spare_first` the place after the last cell's capacity. One thread a
// cell.
extern "C" __global__ void __launch_bounds__(REBUILD_COUNT_THREADS)
    rebuild_cells(Cells cells, const u32* counts, const u32* starts, const u32* capacities,
                  u32 length, u64* spare_first) {
    u32 cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= length) return;
    if (cell == length - 1) *spare_first = (u64)starts[cell] + capacities[cell];
    cells.cells[cell] = {starts[cell], counts[cell], capacities[cell], 0};
}
