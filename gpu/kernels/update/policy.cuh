// Tuning of stage update.
#pragma once
#include "layout.cuh"

// Standard deviations of a Poisson count, and entries, that a cell has room for beyond its own: a
// cell of chance occupancy seldom outgrows it. The bound of all rooms in cells.rs has the same.
static const float ROOM_DEVIATIONS = 4.0f;
static const float ROOM_MORE = 4.0f;
