// Entry points of the paper's way to answer queries: every queried cell is listed once with all the
// queries that cover it (the confirmation table), and an object in such a cell is read once and
// tested against its cell's row; part of stage query.
#include "query.cuh"

// Set in an entry of the table whose part holds all of the cell: there is nothing to test.
static const u32 COVERED = 0x80000000u;

// How many cells each part covers, and 0 behind the last. One thread a part.
extern "C" __global__ void confirm_cells(Grid grid, const Part* parts, u32 length, u32* cells) {
    u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number > length) return;
    u32 count = 0;
    if (number < length) {
        Part part = parts[number];
        u32 columns = column_of(grid, part.x_max) - column_of(grid, part.x_min) + 1;
        count = columns * (row_of(grid, part.y_max) - row_of(grid, part.y_min) + 1);
    }
    cells[number] = count;
}

// Lists the cells of every part, each with its part. One thread a cell of a part.
extern "C" __global__ void confirm_list(Grid grid, const Part* parts, u32 length, const u64* firsts,
                                        u32 pairs, u32* cells, u32* entries) {
    u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs) return;
    // Every part has a cell.
    u32 number = last_not_above(length, pair, [&](u32 at) { return firsts[at]; });
    Part part = parts[number];
    u32 first = column_of(grid, part.x_min), last = column_of(grid, part.x_max);
    u32 low = row_of(grid, part.y_min), high = row_of(grid, part.y_max);
    u32 at = pair - (u32)firsts[number], columns = last - first + 1;
    u32 column = first + at % columns, row = low + at / columns;
    // Columns and rows ascend with coordinates, so what lies between the outermost is inside.
    bool is_covered = (part.shape & ~PART_COUNT) == 0 && first < column && column < last
        && low < row && row < high;
    cells[pair] = row * grid.columns + column;
    entries[pair] = number | (is_covered ? COVERED : 0u);
}

__device__ inline bool is_head(const u32* cells, u32 pair) {
    return pair == 0 || cells[pair - 1] != cells[pair];
}

// Marks where the rows of the table begin, cells being sorted. One thread a pair, and one for the
// end.
extern "C" __global__ void confirm_heads(const u32* cells, u32 pairs, u32* heads) {
    u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair <= pairs) heads[pair] = pair < pairs && is_head(cells, pair) ? 1u : 0u;
}

// The list of candidate cells: where the objects and the row of each begin, and how many objects it
// has. Row and count of the end are written as well. One thread a pair, and one for the end.
extern "C" __global__ void confirm_candidates(const Cell* grid_cells, const u32* cells, u32 pairs,
                                              const u32* numbers, u32* starts, u32* rows,
                                              u32* counts) {
    u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair > pairs || (pair < pairs && !is_head(cells, pair))) return;
    Cell cell = {};
    if (pair < pairs) cell = grid_cells[cells[pair]];
    u32 number = numbers[pair];
    starts[number] = cell.start;
    rows[number] = pair;
    counts[number] = cell.count;
}

// The tables of a cycle's queries.
struct Confirmation {
    // By candidate cell: its first entry of the grid, its first entry of the table, and the objects
    // of all before it; the last two have an end.
    const u32* starts;
    const u32* rows;
    const u32* bounds;
    // Numbers of parts, cell by cell.
    const u32* entries;
    // How many candidate cells there are.
    const u32* length;
};

// Calls `each(entry, part)` for all objects of candidate cells and the parts that they match; thread
// d of all takes every object whose number is d modulo the threads.
template <class Each>
__device__ inline void confirm(const View& view, const Questions& questions,
                               const Confirmation& table, Each each) {
    u32 cells = *table.length, total = table.bounds[cells];
    u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 object = (u64)blockIdx.x * blockDim.x + threadIdx.x; object < total;
         object += threads) {
        // The mapping table, implicit.
        u32 cell = last_not_above(cells, object, [&](u32 at) { return table.bounds[at]; });
        Entry entry = entry_at(view, table.starts[cell] + ((u32)object - table.bounds[cell]));
        for (u32 row = table.rows[cell]; row < table.rows[cell + 1]; row++) {
            u32 number = table.entries[row];
            Part part = questions.parts[number & ~COVERED];
            if ((number & COVERED) != 0 || tests(view, questions, part, entry)) each(entry, part);
        }
    }
}

// Counts the matches of every query; those of parts that want but a number add to its total.
extern "C" __global__ void confirm_count(View view, Questions questions, Confirmation table,
                                         u32* counts, u64* totals) {
    confirm(view, questions, table, [&](const Entry&, const Part& part) {
        if ((part.shape & PART_COUNT) != 0) atomicAdd(totals + part.query, 1ull);
        else atomicAdd(counts + part.query, 1u);
    });
}

// The lists of long answers, as `query_bounds` writes them. One thread a query.
extern "C" __global__ void confirm_lengths(const u32* counts, u32 queries, Lengths* lengths,
                                           u32* long_queries) {
    u32 query = blockIdx.x * blockDim.x + threadIdx.x;
    list_long(query < queries ? counts[query] : 0, query, queries, lengths, long_queries);
}

// Writes the matches of every query in no particular order; its count goes down to 0.
extern "C" __global__ void confirm_write(View view, Questions questions, Confirmation table,
                                         const u64* bounds, u32* counts, u64* objects,
                                         u32* slots) {
    confirm(view, questions, table, [&](const Entry& entry, const Part& part) {
        if ((part.shape & PART_COUNT) != 0) return;
        u64 place = bounds[part.query] + atomicSub(counts + part.query, 1u) - 1u;
        objects[place] = view.records.objects[entry.slot];
        slots[place] = entry.slot;
    });
}
