//! `shoal-bench history`: questions about a past of moving objects, as sorted runs answer them.
//! `benchmark/history_peers.py` asks other systems the same.

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
