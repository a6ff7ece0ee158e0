//! `shoal-bench glfpp`: the paper's experiments and ours beyond them, backends side by side.

mod breakdown;
mod case;
mod contender;
#[cfg(feature = "cuda")]
mod cuda_contender;
mod engine_contender;
mod options;
mod pgrid_contender;
mod plot;
mod prepared;
mod row;
mod run;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod timeline;

pub(crate) use options::Options;
pub(crate) use run::run;
