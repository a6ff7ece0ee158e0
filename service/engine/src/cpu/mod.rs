//! The CPU backend: a grid of buckets over an `id -> slot` index, updated by all cores without
//! locks.
//!
//! State is partitioned twice. **Shards** own objects by the hash of their id: index, records,
//! attributes. **Bands** own cells by rows of the grid. Dispatch routes rows to shards; each shard
//! settles its objects and routes cell operations to bands; each band applies its own. One thread
//! works on a shard or band at a time, so nothing is locked and no result depends on the schedule.

mod admission;
mod backend;
mod band;
mod bucket;
mod changes;
mod count;
mod deferred;
mod dispatch;
mod expiry;
mod export;
mod grid;
mod import;
mod index;
mod motion;
mod nearest;
mod object_evaluation;
mod parallel;
mod plain_evaluation;
mod prefetch;
mod query;
mod query_table;
mod query_work;
mod record;
mod regrid;
mod row_order;
mod scan;
mod shard;
mod shard_events;
mod subscription;
mod update;
mod view;

pub use backend::CpuBackend;
