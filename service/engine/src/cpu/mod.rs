//! The CPU backend: a grid of buckets over an `id -> slot` index, worked on by all cores without
//! locks.
//!
//! State is cut twice. **Shards** own objects by the hash of their id: index, records, attributes.
//! **Bands** own cells by rows of the grid. Dispatch routes rows to shards; each shard settles its
//! objects and routes cell operations to bands; each band applies its own. A shard and a band are
//! always worked on by one thread, so nothing is locked and no result depends on the schedule.

mod admission;
mod backend;
mod band;
mod bucket;
mod changes;
mod dispatch;
mod expiry;
mod gather;
mod grid;
mod index;
mod judge;
mod listing;
mod members;
mod motion;
mod nearest;
mod parallel;
mod prefetch;
mod query;
mod record;
mod regrid;
mod scan;
mod shard;
mod standing;
mod steps;
mod subscription;
mod update;

pub use backend::CpuBackend;
