//! The history on the device: compares runs with their rows, and whole histories with their model.

mod pasts;
mod runs;
