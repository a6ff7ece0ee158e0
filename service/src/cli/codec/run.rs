//! Which file does a command of `shoal codec`?

use super::args::{CodecArgs, CodecCommand};
use super::{compress, decompress, inspect, plan};
use crate::cli::error::{CliError, Exit};

/// Does what the command line says.
///
/// # Errors
/// Those of files that cannot be read, understood or written.
pub fn run(args: &CodecArgs) -> Result<Exit, CliError> {
    match &args.command {
        CodecCommand::Compress(args) => compress::run(args),
        CodecCommand::Decompress(args) => decompress::run(args),
        CodecCommand::Inspect(args) => inspect::run(args),
        CodecCommand::Plan(args) => plan::run(args),
    }
}
