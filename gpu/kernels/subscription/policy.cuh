// Tuning of stage subscription. A number without an origin is a choice that no recorded measurement
// backs.
#pragma once
#include "layout.cuh"

// Threads of a block that evaluates regions, and blocks that must fit a multiprocessor.
static const u32 EVALUATE_THREADS = 256;
static const u32 EVALUATE_BLOCKS = 4;
// Threads that share the bins of one object where these are long; `MANY` of the host.
static const u32 OBJECT_THREADS = 8;
// Cells of a level beyond which a trajectory counts as crossing a region. A guess.
static const u32 TRAJECTORY_CELLS = 256;
