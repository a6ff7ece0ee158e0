//! Flags of `shoal log` and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Flags of `shoal log`.
#[derive(Args, Debug)]
pub struct LogArgs {
    /// The command.
    #[command(subcommand)]
    pub command: LogCommand,
}

/// A command on the data folder of a stopped server.
#[derive(Subcommand, Debug)]
pub enum LogCommand {
    /// Show the content of logs: segments, requests, terms, checkpoints, and how each log ends
    Inspect(LogInspectArgs),
    /// Read all logs and checkpoints, with every row, and report what is damaged
    Verify(VerifyArgs),
    /// Truncate a damaged log where its damage begins; everything after this place is lost
    Repair(RepairArgs),
}

/// Flags of `shoal log inspect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is changed or synced. The command refuses a folder that a server uses.
Exit codes:
  0  everything is whole
  1  this machine failed, or another process uses the folder
  2  wrong arguments, or DIR is not the data folder of a server
  4  the data folder has no such fleet
  5  a log, a checkpoint or the list of fleets is damaged, or a part of it is missing or
     unreadable; everything before it is shown")]
pub struct LogInspectArgs {
    #[command(flatten)]
    pub(super) stored: StoredArgs,
    /// Show one line for each frame, before the summary of its fleet
    #[arg(long)]
    pub frames: bool,
    /// Write JSON, one object a line: for each fleet, and with --frames for each frame
    #[arg(long)]
    pub json: bool,
}

/// Flags of `shoal log verify`.
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is changed or synced. The command refuses a folder that a server uses.
For each damage it shows the file and the byte, what is wrong, what is lost, and what to do.
Exit codes:
  0  everything is whole
  1  this machine failed, or another process uses the folder
  2  wrong arguments, or DIR is not the data folder of a server
  4  the data folder has no such fleet
  5  a log, a checkpoint or the list of fleets is damaged, or a part of it is missing or
     unreadable")]
pub struct VerifyArgs {
    #[command(flatten)]
    pub(super) stored: StoredArgs,
    /// Write JSON, one object a line for each fleet
    #[arg(long)]
    pub json: bool,
}

/// Data folder and fleet of a command.
#[derive(Args, Debug)]
pub struct StoredArgs {
    /// Data folder, as of `shoal serve --data`
    pub dir: PathBuf,
    /// Name of a fleet [default: all fleets]
    pub fleet: Option<String>,
}

/// Flags of `shoal log repair`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without --yes the command shows what it would do and changes nothing. A log that is whole behind \
its newest checkpoint is never changed; this includes one that ends in an incomplete write.
Copy the data folder before a repair: it cannot be undone.
Exit codes:
  0  the log is repaired, or needs no repair
  1  this machine failed, or another process uses the folder
  2  wrong arguments, or DIR is not the data folder of a server
  4  the data folder has no such fleet
  5  the log needs a repair, or a part of it is missing or unreadable")]
pub struct RepairArgs {
    /// Data folder, as of `shoal serve --data`
    pub dir: PathBuf,
    /// Name of the fleet
    pub fleet: String,
    /// Truncate the log
    #[arg(long)]
    pub yes: bool,
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}
