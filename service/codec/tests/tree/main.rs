//! Trees of encodings with any column, and with damaged bytes.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.

#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

mod compact;
mod every_tree;
mod fuzz;
mod golden;
mod hostile;
mod round_trip;
mod sample;
mod strings;
mod table;
mod text;
mod text_columns;
mod walk;

/// Released columns and tables.
const GOLDEN: shoal_testkit::GoldenFolder =
    shoal_testkit::GoldenFolder { package: env!("CARGO_MANIFEST_DIR") };
