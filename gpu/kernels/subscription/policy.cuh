// Tuning of stage subscription. A number without an origin is a choice that no recorded measurement
// backs.
#pragma once
#include "layout.cuh"

// Threads of a block that evaluates regions, and blocks that must fit a multiprocessor.
static const u32 EVALUATE_THREADS = 256;
static const u32 EVALUATE_BLOCKS = 4;
// Threads that evaluate one object together if bins are long; `MANY` of the host.
static const u32 OBJECT_THREADS = 8;
// If a trajectory's box covers more cells of a level, it counts as crossing a region. A guess.
static const u32 TRAJECTORY_CELLS = 256;
