// Tuning of stage update.
#pragma once
#include "layout.cuh"

// Spare capacity of a cell: this many standard deviations of a Poisson count, plus a constant. A
// randomly occupied cell rarely outgrows it. `capacities_max` of stages/update/rebuild.rs has the
// same numbers.
static const float CAPACITY_DEVIATIONS = 3.0f;
static const float CAPACITY_EXTRA = 2.0f;
