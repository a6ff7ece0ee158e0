//! `shoal-bench resident`: runs of the history in a device's memory.
//!
//! Runs are made in memory: millions of objects that report for some minutes, in the order of runs.

#[cfg(feature = "cuda")]
mod made_run;
mod options;
#[cfg(feature = "cuda")]
mod plot;
#[cfg(feature = "cuda")]
mod row;
#[cfg(feature = "cuda")]
mod run;

pub(crate) use options::Options;
#[cfg(feature = "cuda")]
pub(crate) use run::run;

/// Without a device there is nothing to measure.
#[cfg(not(feature = "cuda"))]
pub(crate) fn run(_options: &Options) -> Result<(), crate::error::BenchmarkError> {
    let missing = shoal_gpu::Unavailable::NotBuilt.to_string();
    Err(crate::error::BenchmarkError::Backend(missing))
}
