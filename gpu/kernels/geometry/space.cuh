// Geometry of positions: cell, distance from a centre, membership in a shape.
//
// Performs the same operations in the same order as the engine's cpu/grid.rs, sphere.rs and
// region/. The build disables contraction to fused multiply-add, so the results are equal to the
// bit.
#pragma once
#include "layout.cuh"

__device__ inline u32 apart(i32 a, i32 b) { return a > b ? (u32)a - (u32)b : (u32)b - (u32)a; }

__device__ inline i32 clamped(i32 value, i32 least, i32 most) {
    return value < least ? least : (value > most ? most : value);
}

__device__ inline u32 column_of(const Grid& grid, i32 x) {
    u32 offset = apart(clamped(x, grid.x_min, grid.x_max), grid.x_min);
    return (u32)((u64)offset * grid.scale_x >> 32);
}

__device__ inline u32 row_of(const Grid& grid, i32 y) {
    u32 offset = apart(clamped(y, grid.y_min, grid.y_max), grid.y_min);
    return (u32)((u64)offset * grid.scale_y >> 32);
}

__device__ inline u32 cell_of(const Grid& grid, i32 x, i32 y) {
    return row_of(grid, y) * grid.columns + column_of(grid, x);
}

__device__ inline double horner(const double* c, double u) {
    return ((((((c[6] * u + c[5]) * u + c[4]) * u + c[3]) * u + c[2]) * u + c[1]) * u) + c[0];
}

// Taylor coefficients of sine and cosine; see sphere.rs for the error bound.
__device__ const double SINE[7] = {
    -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362880.0, -1.0 / 39916800.0,
    1.0 / 6227020800.0, -1.0 / 1307674368000.0,
};
__device__ const double COSINE[7] = {
    1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3628800.0, 1.0 / 479001600.0,
    -1.0 / 87178291200.0, 1.0 / 20922789888000.0,
};

__device__ inline void sine_cosine(i32 quanta, double* sine, double* cosine) {
    const i32 right = 900000000, eighth = right / 2;
    i32 turns = (quanta >= -3 * eighth) + (quanta >= -eighth) + (quanta >= eighth)
        + (quanta >= 3 * eighth) - 2;
    double t = (double)(quanta - turns * right) * (3.141592653589793 / 1.8e9);
    double u = t * t;
    double s = t + (t * u) * horner(SINE, u);
    double c = (1.0 - 0.5 * u) + (u * u) * horner(COSINE, u);
    if (turns & 1) {
        double swap = s;
        s = c;
        c = swap;
    }
    *sine = (turns & 2) == 0 ? s : -s;
    *cosine = ((turns + 1) & 2) == 0 ? c : -c;
}

// Squared chord from the unit vector of `centre` to longitude `x` and latitude `y`.
__device__ inline double chord_squared(const Shape& centre, i32 x, i32 y) {
    double sin_lon, cos_lon, sin_lat, cos_lat;
    sine_cosine(x, &sin_lon, &cos_lon);
    sine_cosine(y, &sin_lat, &cos_lat);
    double dx = centre.vector_x - cos_lat * cos_lon;
    double dy = centre.vector_y - cos_lat * sin_lon;
    double dz = centre.vector_z - sin_lat;
    return dx * dx + dy * dy + dz * dz;
}

__device__ inline u64 squared_quanta(i32 x, i32 y, i32 to_x, i32 to_y) {
    u64 dx = apart(x, to_x), dy = apart(y, to_y);
    u64 a = dx * dx, b = dy * dy;
    return a + b < a ? ~0ull : a + b;
}

__device__ inline bool polygon_holds_at(const Shape& shape, Polygons polygons, i32 x, i32 y) {
    if (x < shape.x || x > shape.x_max || y < shape.y || y > shape.y_max) return false;
    u32 slab = apart(y, shape.y) >> shape.slab_shift;
    u32 first = polygons.slabs[shape.slabs_at + slab];
    u32 end = polygons.slabs[shape.slabs_at + slab + 1];
    bool inside = false;
    for (u32 at = first; at < end; at++) {
        Edge edge = polygons.edges[shape.edges_at + at];
        i32 west = min(edge.x_low, edge.x_high), east = max(edge.x_low, edge.x_high);
        if (y < edge.y_low || y > edge.y_high || x > east) continue;
        bool below_high = y < edge.y_high;
        if (x < west) {
            inside ^= below_high;
            continue;
        }
        // A separator between two polygons. Its box contains every point, so the box test never
        // skips it.
        if (apart(edge.y_low, edge.y_high) == PART_END_HEIGHT) {
            if (inside) return true;
            continue;
        }
        i64 along = ((i64)edge.x_high - edge.x_low) * ((i64)y - edge.y_low);
        i64 across = ((i64)edge.y_high - edge.y_low) * ((i64)x - edge.x_low);
        if (along == across) return true;
        inside ^= along > across && below_high;
    }
    return inside;
}

__device__ inline bool shape_holds(const Shape& shape, Polygons polygons, i32 x, i32 y) {
    switch (shape.kind) {
        case SHAPE_CIRCLE_PLANAR:
            return squared_quanta(shape.x, shape.y, x, y) <= shape.rank_max;
        case SHAPE_CIRCLE_GEOGRAPHIC:
            return (u64)__double_as_longlong(chord_squared(shape, x, y)) <= shape.rank_max;
        case SHAPE_POLYGON:
        case SHAPE_POLYGON_180:
            return polygon_holds_at(shape, polygons, x, y)
                || (shape.kind == SHAPE_POLYGON_180 && x == -1800000000
                    && polygon_holds_at(shape, polygons, 1800000000, y));
        default:
            return true;
    }
}
