//! The device decodes and refuses the same as the CPU's codec.
//!
//! Columns, trees and recomputed checksums come from the tests of the CPU's codec.

mod blocks;
mod columns;
mod cycles;
mod decoder;
mod speed;
mod strings;
