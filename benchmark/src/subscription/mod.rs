//! `shoal-bench subscription`: what standing regions cost an update, backends side by side.

mod case;
mod contender;
#[cfg(feature = "cuda")]
mod cuda_contender;
mod options;
mod plot;
mod prepared;
mod row;
mod run;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use options::Options;
pub(crate) use run::run;
