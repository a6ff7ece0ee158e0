// Tuning of stage update.
#pragma once
#include "layout.cuh"

// Capacity of a cell beyond its entries: standard deviations of a Poisson count, and a constant. A
// randomly occupied cell rarely outgrows it. `entries_max` of update_cells.rs has the same numbers.
static const float CAPACITY_DEVIATIONS = 4.0f;
static const float CAPACITY_EXTRA = 4.0f;
