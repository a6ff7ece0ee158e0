//! The program `shoal`: server and client in one binary.
//!
//! Everything is in the library, where tests reach it; this only turns the result into an exit
//! code.

use std::process::ExitCode;

fn main() -> ExitCode {
    shoal_service::cli::run().into()
}
