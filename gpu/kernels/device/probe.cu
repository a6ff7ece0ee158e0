// Kernels for tests: the device's layout of shared records, its view of a grid, and a failing kernel.
// Not part of the library.
#include "layout.cuh"

#define PUT(value)                                     \
    {                                                  \
        if (at < capacity) numbers[at] = (u32)(value); \
        at++;                                          \
    }
#define PUT_RECORD(name) PUT(sizeof(name)) PUT(alignof(name))
#define PUT_FIELD(name, field) PUT(offsetof(name, field))

// Writes the size, the alignment and the offsets of the fields of every shared record to `numbers`,
// at most `capacity` numbers; `length` gets their total. One thread.
extern "C" __global__ void probe_layout(u32* numbers, u32 capacity, u32* length) {
    u32 at = 0;
    LAYOUT(PUT_RECORD, PUT_FIELD)
    *length = at;
}

// Copies the cells of a grid. One thread a cell.
extern "C" __global__ void probe_cells(Cells cells, u32 length, Cell* seen) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) seen[at] = cells.cells[at];
}

// Copies the entries of a grid, spare capacity included. One thread an entry.
extern "C" __global__ void probe_entries(Cells cells, u32 length, Entry* seen) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) seen[at] = cells.entries[at];
}

// Copies the places of the first `length` slots. One thread a slot.
extern "C" __global__ void probe_places(Cells cells, u32 length, u32* seen) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) seen[at] = cells.places[at];
}

// Traps. The failure destroys the CUDA context, so the process can no longer use the device.
extern "C" __global__ void probe_fail() { __trap(); }
