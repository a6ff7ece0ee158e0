//! `shoal-bench log`: append to and recovery from the position log, beside the limit of the disk.

mod append;
mod busy;
mod checkpoint;
mod content;
mod options;
mod plot;
mod raw_file;
mod read;
mod recover;
mod row;
mod run;
#[cfg(test)]
mod tests;
mod trial;

pub(crate) use options::Options;
pub(crate) use run::run;
