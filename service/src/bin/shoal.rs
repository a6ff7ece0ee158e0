//! The program `shoal`: server and client. Everything is in the library; this only exits.

use std::process::ExitCode;

fn main() -> ExitCode {
    shoal_service::cli::run().into()
}
