// The kernels of stage query: they split parts into rows of cells (candidate rows), count and
// write the matches of each candidate row, and read the records of slots and ids. One warp a
// candidate row unless said otherwise.
#include "query/query.cuh"

// Writes how many rows of cells each part covers, and a 0 after the last. One thread a part, and
// one for the 0.
extern "C" __global__ void query_rows(Grid grid, const Part* parts, u32 length, u32* rows) {
    u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number > length) return;
    u32 count = 0;
    if (number < length) {
        Part part = parts[number];
        count = row_of(grid, part.y_max) - row_of(grid, part.y_min) + 1;
    }
    rows[number] = count;
}

// Lists the rows of every part. One warp a part.
extern "C" __global__ void query_candidate_rows(Grid grid, const Part* parts, u32 length,
                                                const u32* first_rows, CandidateRow* rows) {
    u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= length) return;
    u32 first = first_rows[number], count = first_rows[number + 1] - first;
    u32 row = row_of(grid, parts[number].y_min);
    for (u32 at = lane(); at < count; at += 32) rows[first + at] = {number, row + at};
}

// Adds the work of every part to the work of its query: the number of candidates times the work of
// one test, plus the work of the rows and of reading the counts of their cells. The candidates of
// a count-only rectangle are in the cells of its border. One warp a part.
extern "C" __global__ void query_work(View view, Queries batch, u32 length, u64 objects,
                                      u64* work) {
    u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= length) return;
    Part part = batch.parts[number];
    u32 row = row_of(view.grid, part.y_min), rows = row_of(view.grid, part.y_max) - row + 1;
    u32 first = column_of(view.grid, part.x_min);
    u32 columns = column_of(view.grid, part.x_max) - first + 1;
    u64 cells = (u64)rows * columns, candidates = 0;
    const Cell* corner = view.cells + (u64)row * view.grid.columns + first;
    if (part.shape == PART_COUNT) {
        for (u32 at = lane(); at < columns; at += 32) {
            candidates += corner[at].count;
            if (rows > 1) candidates += corner[(u64)(rows - 1) * view.grid.columns + at].count;
        }
        for (u32 down = 1 + lane(); down + 1 < rows; down += 32) {
            const Cell* begin = corner + (u64)down * view.grid.columns;
            candidates += begin->count;
            if (columns > 1) candidates += begin[columns - 1].count;
        }
        candidates = warp_sum(candidates);
        if (view.is_tight != 0) cells = 0;
    } else if (view.is_tight != 0) {
        for (u32 down = lane(); down < rows; down += 32) {
            const Cell* begin = corner + (u64)down * view.grid.columns;
            Cell end = begin[columns - 1];
            candidates += end.start + end.count - begin->start;
        }
        candidates = warp_sum(candidates);
        cells = 0;
    } else if (cells <= WORK_CELLS) {
        for (u32 at = lane(); at < cells; at += 32) {
            candidates += corner[(u64)(at / columns) * view.grid.columns + at % columns].count;
        }
        candidates = warp_sum(candidates);
    } else {
        candidates = objects;
    }
    u32 shape = part.shape & ~PART_COUNT;
    u64 each = shape == 0 ? 1 : warp_test_work(batch.shapes[shape], batch.polygons);
    if (lane() != 0) return;
    u64 cells_work = (u64)rows * ROW_WORK + cells / WORK_CELLS_EACH;
    atomicAdd(work + part.query, 1 + cells_work + candidates * each);
}

// Counts the matches of every candidate row and stores the first CANDIDATE_ROW_MATCHES, so that
// few rows are visited twice. A row of a count-only part adds its matches to its query's total and
// takes no space. The launch bounds limit registers so that six blocks fit a multiprocessor and
// hide cache misses. Without them only five would fit, because of the tests of curved regions and
// filters, which few rows need.
extern "C" __global__ void __launch_bounds__(QUERY_THREADS, QUERY_BLOCKS)
    query_count(View view, Queries batch, u32* counts, u64* totals, u32* kept) {
    u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= batch.length) return;
    CandidateRow row = batch.candidate_rows[number];
    // `query_count_rectangles` counts these.
    if (batch.parts[row.part].shape == PART_COUNT) return;
    u32 count = 0;
    warp_visit_row(view, batch, row, [&](const Entry& entry, bool matches) {
        u32 votes = __ballot_sync(WHOLE_WARP, matches);
        u32 at = count + __popc(votes & lanes_below());
        if (matches && at < CANDIDATE_ROW_MATCHES)
            kept[(u64)number * CANDIDATE_ROW_MATCHES + at] = entry.slot;
        count += __popc(votes);
    });
    if (lane() != 0) return;
    Part part = batch.parts[row.part];
    bool only_count = (part.shape & PART_COUNT) != 0;
    counts[number] = only_count ? 0 : count;
    if (only_count && count != 0) atomicAdd(totals + part.query, (u64)count);
}

// Adds the matches of count-only rectangles to the totals of their queries; a cell inside the
// rectangle adds its count without a test.
extern "C" __global__ void query_count_rectangles(View view, Queries batch, u64* totals) {
    u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= batch.length) return;
    CandidateRow row = batch.candidate_rows[number];
    Part part = batch.parts[row.part];
    if (part.shape != PART_COUNT) return;
    u32 first = column_of(view.grid, part.x_min), last = column_of(view.grid, part.x_max);
    u32 count = 0, step = 1;
    if (first < last && row.row > row_of(view.grid, part.y_min)
        && row.row < row_of(view.grid, part.y_max)) {
        // Cells between the first and the last column lie within the rectangle.
        count = warp_objects_between(view, row.row, first + 1, last);
        step = last - first;
    }
    // Tests all columns at once, or only the first and the last.
    for (u32 column = first; column <= last; column += step) {
        u32 end = step == 1 ? last : column;
        warp_visit_columns(view, batch, part, row.row, column, end,
                           [&](const Entry&, bool matches) {
                               count += __popc(__ballot_sync(WHOLE_WARP, matches));
                           });
        if (step == 1) break;
    }
    if (lane() == 0 && count != 0) atomicAdd(totals + part.query, (u64)count);
}

// Sets to 0 the counts of candidate rows whose query has a nonzero number in `withheld`. One thread
// a candidate row.
extern "C" __global__ void query_withhold(Queries batch, const u64* withheld, u32* counts) {
    u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= batch.length) return;
    u32 query = batch.parts[batch.candidate_rows[number].part].query;
    if (withheld[query] != 0) counts[number] = 0;
}

// Writes the offset of the first match of every query, and after them the total; lists the queries
// as by `warp_list_long`. One thread a query, and one for the total.
extern "C" __global__ void query_bounds(const Part* parts, u32 length, u32 queries,
                                        const u32* first_rows, const u64* offsets, u64* bounds,
                                        AnswerLists lists) {
    u32 query = blockIdx.x * blockDim.x + threadIdx.x;
    u64 found = 0;
    if (query <= queries) {
        u32 part = first_part_of(parts, length, query);
        u64 first = offsets[first_rows[part]];
        bounds[query] = first;
        while (part < length && parts[part].query == query) part++;
        if (query < queries) found = offsets[first_rows[part]] - first;
    }
    warp_list_long(found, query, queries, lists);
}

// Writes the stored matches of candidate row `first` and all later rows, beginning at the start of
// the output. Skips rows with more than CANDIDATE_ROW_MATCHES matches. CANDIDATE_ROW_MATCHES
// threads a candidate row.
extern "C" __global__ void query_write(Records records, u32 rows, const u64* offsets, u32 first,
                                       const u32* kept, u64* objects, u32* slots) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 number = first + thread / CANDIDATE_ROW_MATCHES, at = thread % CANDIDATE_ROW_MATCHES;
    if (number >= rows) return;
    u64 place = offsets[number], count = offsets[number + 1] - place;
    if (count > CANDIDATE_ROW_MATCHES || at >= count) return;
    u32 slot = kept[(u64)number * CANDIDATE_ROW_MATCHES + at];
    objects[place - offsets[first] + at] = records.objects[slot];
    slots[place - offsets[first] + at] = slot;
}

// As `query_write`, for the rows with more than CANDIDATE_ROW_MATCHES matches. Finds their matches
// again.
extern "C" __global__ void __launch_bounds__(QUERY_THREADS, QUERY_BLOCKS)
    query_write_many(View view, Queries batch, const u64* offsets, u32 first, u64* objects,
                     u32* slots) {
    u32 number = first + (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= batch.length) return;
    u64 place = offsets[number] - offsets[first];
    if (offsets[number + 1] - offsets[number] <= CANDIDATE_ROW_MATCHES) return;
    CandidateRow row = batch.candidate_rows[number];
    warp_visit_row(view, batch, row, [&](const Entry& entry, bool matches) {
        u32 votes = __ballot_sync(WHOLE_WARP, matches);
        if (matches) {
            u64 at = place + __popc(votes & lanes_below());
            objects[at] = view.records.objects[entry.slot];
            slots[at] = entry.slot;
        }
        place += __popc(votes);
    });
}

// Writes the record that each listed slot has after cycle `epoch`. One thread a slot.
extern "C" __global__ void query_fixes(Records records, u64 epoch, const u32* slots, u32 length,
                                       AnswerRecord* fixes) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < length) fixes[at] = answered(records, slots[at], epoch);
}

// Writes the record that each listed id has after cycle `epoch`; `found` is 0 for unknown ids. One
// thread an id.
extern "C" __global__ void query_get(Records records, Index index, u64 epoch,
                                     const u64* objects, u32 length, AnswerRecord* fixes) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) return;
    u32 slot = objects[at] == NO_OBJECT ? NO_SLOT : find(index, objects[at]);
    AnswerRecord none = {};
    fixes[at] = slot == NO_SLOT ? none : answered(records, slot, epoch);
}
