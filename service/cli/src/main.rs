//! The program `shoal`: server and client in one binary.
//!
//! Everything else is in the library, where tests reach it. The allocator is the one that returns
//! the most memory after a load has ended: benchmark/results/README.md.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    shoal_cli::run().into()
}
