//! The launches and the memory below the stages, each against a reference on the host. Run on a
//! machine with an NVIDIA GPU with `--include-ignored`.

mod bench;
mod budget;
mod copies;
mod cub;
mod failure;
mod layout;
mod probe;

pub(crate) use bench::{BOUNDARIES, Bench, seeds};
pub(crate) use probe::Probe;
