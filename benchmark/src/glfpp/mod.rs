//! `shoal-bench glfpp`: the experiments of the paper and further ones, backends side by side.

mod breakdown;
mod case;
mod contender;
mod engine;
mod options;
mod pgrid;
mod prepared;
mod row;
mod run;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;

pub(crate) use options::Options;
pub(crate) use run::run;
