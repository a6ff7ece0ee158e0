//! `shoal codec`: tables to files of compressed blocks and back, and a look at what is in them.
//!
//! `FILE.md` is law for the file; blocks are those of `service/codec/FORMAT.md`.

mod args;
mod binary;
mod compress;
mod csv_sink;
mod csv_source;
mod decimal;
mod decompress;
mod field;
mod frame;
#[cfg(test)]
mod fuzz;
mod group;
mod header;
mod infer;
mod input;
mod inspect;
mod lines;
mod output;
mod plan;
mod report;
mod run;
mod statistics;
mod table_blocks;

pub use args::TableArgs;
pub use args::{CodecArgs, CodecCommand, CompressArgs, DecompressArgs, InspectArgs, PlanArgs};
pub use run::run;
