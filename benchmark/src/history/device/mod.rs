//! Queries on runs of a history that stay in device memory: scans, states of all objects, states
//! of (object, time) pairs.
//!
//! The runs are generated in memory: millions of objects that report for some minutes.

mod made_run;
mod run;

pub(super) use run::measure;
