//! Geometry and regions against exact arithmetic, and what they cost.
#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod distances;
mod multi_polygons;
mod properties;
mod region_cost;
mod region_index;
mod segments;
