//! `shoal-bench log`: compares appending to and recovering from the position log with the limit of
//! the disk.

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
