//! `shoal-bench subscription`: the cost of continuous queries per update, backends side by side.

mod case;
mod options;
mod prepared;
mod row;
mod run;
#[cfg(test)]
mod tests;
mod trial;

pub(crate) use options::Options;
pub(crate) use run::run;
