//! Runs of a history that stay in a device's memory: scans, states of all objects, of pairs.
//!
//! Runs are made in memory: millions of objects that report for some minutes, in the order of runs.

mod made_run;
mod run;

pub(super) use run::measure;
