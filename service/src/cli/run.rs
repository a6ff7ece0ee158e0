//! From arguments to exit code.
//!
//! The only place that prints errors and makes a client's runtime.

use std::io::Write as _;

use clap::Parser as _;
use tokio::runtime::Builder;

use super::command::{Cli, ClientCommand, Command};
use super::error::{CliError, Exit};
use super::{codec, fleets, get, nearest, range, remove, report, serve, stats, watch};

/// Does what the command line says, tells errors on standard error, and gives the exit code.
#[must_use]
pub fn run() -> Exit {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Codec(args) => codec::run(&args),
        Command::Client(command) => ask(*command),
    };
    result.unwrap_or_else(|error| {
        let exit = error.exit();
        if exit != Exit::Done {
            tell(&error);
        }
        exit
    })
}

/// Runs a client command. What can be wrong with its own arguments and files is found before a
/// server is asked.
fn ask(command: ClientCommand) -> Result<Exit, CliError> {
    // A client needs one thread; reading files has its own.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::local("starting a runtime"))?;
    runtime.block_on(async {
        match command {
            ClientCommand::Get(get) => get::run(&get.connect().await?, &get.args).await,
            ClientCommand::Range(range) => {
                let region = range.args.region.region()?;
                range::run(&range.connect().await?, &range.args, region).await
            }
            ClientCommand::Nearest(near) => nearest::run(&near.connect().await?, &near.args).await,
            ClientCommand::Report(report) => {
                let source = report.args.source()?;
                report::run(&report.connect().await?, &report.args, source).await
            }
            ClientCommand::Remove(remove) => {
                remove::run(&remove.connect().await?, &remove.args).await
            }
            ClientCommand::Fleets(fleets) => {
                fleets::run(&fleets.connect().await?, &fleets.args).await
            }
            ClientCommand::Watch(watch) => watch::run(&watch.connection, &watch.args).await,
            ClientCommand::Stats(stats) => stats::run(&stats.connect().await?, &stats.args).await,
        }
    })
}

/// Says what went wrong and what to do. Nothing can be done when standard error is gone too.
fn tell(error: &CliError) {
    let mut out = std::io::stderr().lock();
    let _ = writeln!(out, "error: {error}");
    if let Some(hint) = error.hint() {
        let _ = writeln!(out, " help: {hint}");
    }
}
