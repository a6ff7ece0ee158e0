//! `shoal-bench history`: questions about a past of moving objects, answered from sorted runs on
//! disk and in a device's memory.
//! `benchmark/history_peers.py` runs the same questions on other systems.

#[cfg(feature = "cuda")]
mod device;
mod export;
mod filters;
mod options;
mod past;
mod plot;
mod question;
mod row;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use options::Options;
pub(crate) use run::run;
