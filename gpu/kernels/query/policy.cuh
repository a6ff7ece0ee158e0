// Tuning of stage query. A number without an origin is a choice that no recorded measurement backs.
#pragma once
#include "layout.cuh"

// Threads of a block that visits candidates, and blocks that must fit a multiprocessor. The latter
// bounds the registers of a thread, so that enough warps run to overlap their loads.
static const u32 QUERY_THREADS = 256;
static const u32 QUERY_BLOCKS = 6;
// Warps of a block that answers whole queries, at most.
static const u32 WARP_QUERY_WARPS = 8;
// Candidates that a thread of `warp_visit_part` loads at a time, so that the loads overlap.
static const u32 CANDIDATES_EACH = 2;
// `query_work` counts the objects of a part with at most this number of cells. A part with more
// cells counts as containing all objects, unless no cell of the grid has spare capacity.
static const u32 WORK_CELLS = 1 << 14;
// Cells whose counts are read in the time of one test. A guess.
static const u32 WORK_CELLS_EACH = 8;
// Work of a row of cells: a warp visits it.
static const u32 ROW_WORK = 16;
// Threads of a block that sorts; `BLOCK_THREADS` of the host.
static const u32 SORT_THREADS = 256;
// Bits by which one pass sorts. There are fewer passes than with CUB's default, and the counters of
// a pass still fit.
static const int SORT_PASS_BITS = 5;
