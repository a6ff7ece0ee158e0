//! Trees of encodings with any column, and with damaged bytes.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

#[path = "../block/bound.rs"]
mod bound;
mod compact;
mod every_tree;
mod fuzz;
mod golden;
#[path = "../block/golden_file.rs"]
mod golden_file;
mod hostile;
#[path = "../block/random.rs"]
mod random;
mod round_trip;
mod sample;
#[path = "../block/seal.rs"]
#[allow(dead_code, reason = "offsets that only the tests of blocks use")]
mod seal;
mod strings;
mod table;
mod text;
mod text_columns;
mod walk;
