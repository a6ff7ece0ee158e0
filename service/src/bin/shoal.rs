//! The program `shoal`: server and client in one binary.
//!
//! Everything else is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    shoal_service::cli::run().into()
}
