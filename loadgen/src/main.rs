//! The binary `shoal-loadgen`: flags in, table out.
//!
//! Exit code 0 if all answers are correct, 1 for a mismatch, a failure or an interruption, 2 for
//! invalid flags. Ctrl-C and SIGTERM stop a run gracefully; a second signal ends the process.

use std::process::ExitCode;

use clap::Parser as _;
use shoal_loadgen::{Command, CommandLine, LoadError, Plan, Summary};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code of clap for invalid flags.
const USAGE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Run(args) = CommandLine::parse().command;
    match run(*args).await {
        Ok(summary) => {
            println!("{}", summary.table());
            if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("shoal-loadgen: {error}");
            match error {
                LoadError::Usage(_) => ExitCode::from(USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(args: shoal_loadgen::RunArgs) -> Result<Summary, LoadError> {
    let plan = Plan::new(args)?;
    let (stop, stopped) = watch::channel(false);
    let running = shoal_loadgen::run(plan, stopped);
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => return ended,
        () = interruption() => {
            eprintln!("shoal-loadgen: stopping; a second signal ends the process");
            stop.send_replace(true);
        }
    }
    tokio::select! {
        ended = running => ended,
        () = interruption() => Err(LoadError::Task("ended by a second signal".to_owned())),
    }
}

/// Completes at Ctrl-C or SIGTERM.
async fn interruption() {
    let interrupted = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => tokio::select! {
            _ = interrupted => {}
            _ = terminated.recv() => {}
        },
        Err(_) => {
            // Without a handler for SIGTERM, Ctrl-C still stops the run gracefully.
            let _ = interrupted.await;
        }
    }
}
