//! The binary `shoal-loadgen`: flags in, table out.
//!
//! Exit code 0 if all answers are correct (`hostile`: if the well-behaved client was served), 1 for
//! a mismatch, a failure or an interruption, 2 for invalid flags. Ctrl-C and SIGTERM stop a run
//! gracefully; a second signal ends the process.

use std::process::ExitCode;

use clap::Parser as _;
use shoal_loadgen::{
    CommandLine, HostileArgs, LoadCommand, LoadError, RunArgs, RunPlan, attack, login::log_in,
    run_hostile,
};
use shoal_table::printable_lines;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code of clap for invalid flags.
const USAGE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let CommandLine { command, login } = CommandLine::parse();
    let done = match (log_in(login), command) {
        (Err(error), _) => Err(error),
        (Ok(()), LoadCommand::Run(args)) => run(*args).await,
        (Ok(()), LoadCommand::Hostile(args)) => hostile(*args).await,
        (Ok(()), LoadCommand::Attack(args)) => attack(args).await.map(|()| true),
    };
    match done {
        Ok(is_good) => ExitCode::from(u8::from(!is_good)),
        Err(error) => {
            eprintln!("{}", printable_lines(&format!("shoal-loadgen: {error}")));
            match error {
                LoadError::Usage(_) => ExitCode::from(USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Prints the results of a run; returns whether they are good.
async fn run(args: RunArgs) -> Result<bool, LoadError> {
    let plan = RunPlan::new(args)?;
    let summary = interruptible(|stop| shoal_loadgen::run(plan, stop)).await?;
    println!("{}", printable_lines(&summary.table()));
    Ok(summary.is_good())
}

/// Prints the results of attacks; returns whether they are good.
async fn hostile(args: HostileArgs) -> Result<bool, LoadError> {
    let summary = interruptible(|stop| run_hostile(args, stop)).await?;
    println!("{}", printable_lines(&summary.table()));
    Ok(summary.is_good())
}

/// Stops a command at the first signal, and abandons it at the second.
async fn interruptible<T, F>(
    command: impl FnOnce(watch::Receiver<bool>) -> F,
) -> Result<T, LoadError>
where
    F: Future<Output = Result<T, LoadError>>,
{
    let (stop, stopped) = watch::channel(false);
    let running = command(stopped);
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
