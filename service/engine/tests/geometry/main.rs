//! Geometry and regions against exact arithmetic.
#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod distances;
mod large_regions;
mod multi_polygons;
mod properties;
mod region_index;
mod segments;
