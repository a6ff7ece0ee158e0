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
    Inspect(InspectArgs),
    /// Read all logs and checkpoints, with every row, and report what is damaged
    Verify(VerifyArgs),
    /// Truncate a damaged log where its damage begins; everything behind it is lost
    Repair(RepairArgs),
}

/// Flags of `shoal log inspect`.
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is changed or synced. The command refuses a folder that a server uses.
Exit code 5: a log or a checkpoint is damaged; everything before the damage is shown.")]
pub struct InspectArgs {
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
Exit code 0: everything is whole. Exit code 5: something is damaged; for each damage the command \
shows the file and the byte, what is wrong, what is lost, and what to do.")]
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
Exit code 0: the log is repaired, or needs no repair. Exit code 5: it needs one.")]
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
