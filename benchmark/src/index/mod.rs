//! `shoal-bench index`: compares the tree over sorted keys with other structures, on CPU and
//! device.

mod case;
#[cfg(feature = "cuda")]
mod contenders;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod key_set;
mod layout;
mod options;
mod plot;
mod row;
mod run;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use options::Options;
pub(crate) use run::run;
