//! Runs the command line and turns the result into an exit code. Only this file prints errors.

use clap::Parser as _;
use tokio::runtime::Builder;

use super::command::{Cli, ClientCommand, Command};
use super::error::{CliError, Exit};
use super::{
    cert, codec, fleets, history, log, login, names, promote, query, remove, report, serve, stats,
    token, unfence, watch,
};
use crate::logs::{self, LastLines};

/// Runs the command; prints its error to standard error and gives the exit code.
#[must_use]
pub fn run() -> Exit {
    let _last_lines = LastLines;
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Codec(args) => codec::run(&args),
        Command::Log(args) => log::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Cert(args) => cert::run(&args),
        Command::Logout(args) => login::log_out(&args),
        Command::Client(command) => run_client(*command),
    };
    result.unwrap_or_else(|error| {
        let exit = error.exit();
        if exit != Exit::Done {
            print(&error);
        }
        exit
    })
}

/// Runs a client command. Wrong arguments and files are found before a server is contacted.
fn run_client(command: ClientCommand) -> Result<Exit, CliError> {
    // A client needs one thread; reading files has its own.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::local("starting a runtime"))?;
    let ended = runtime.block_on(async {
        match command {
            ClientCommand::Login(of) => login::log_in(&of.connection).await,
            ClientCommand::Get(of) => query::get(&of.connection.connect().await?, &of.args).await,
            ClientCommand::Range(of) => {
                let region = of.args.region.region()?;
                query::range(&of.connection.connect().await?, &of.args, region).await
            }
            ClientCommand::Nearest(of) => {
                query::nearest(&of.connection.connect().await?, &of.args).await
            }
            ClientCommand::Names(of) => names::run(&of.connection.connect().await?, &of.args).await,
            ClientCommand::Report(of) => {
                let source = of.args.source()?;
                report::run(&of.connection.connect().await?, &of.args.sending, source).await
            }
            ClientCommand::Remove(of) => {
                remove::run(&of.connection.connect().await?, &of.args).await
            }
            ClientCommand::Fleets(of) => {
                fleets::run(&of.connection.connect().await?, &of.args).await
            }
            ClientCommand::Watch(of) => {
                let request = of.args.request()?;
                watch::run(&of.connection.connect().await?, &of.args, request).await
            }
            ClientCommand::History(of) => {
                let request = of.args.request()?;
                history::run(&of.connection.connect().await?, &of.args, request).await
            }
            ClientCommand::Promote(of) => {
                let secret = of.args.replication.secret()?;
                promote::run(&of.connection.connect_with(secret).await?, &of.args).await
            }
            ClientCommand::Unfence(of) => {
                let secret = of.args.replication.secret()?;
                unfence::run(&of.connection.connect_with(secret).await?, &of.args).await
            }
            ClientCommand::Stats(of) => stats::run(&of.connection.connect().await?, &of.args).await,
        }
    });
    // A thread that waits for standard input does not end.
    runtime.shutdown_background();
    ended
}

/// Prints the error and what to do.
fn print(error: &CliError) {
    logs::note(&format!("error: {error}"));
    if let Some(hint) = error.hint() {
        logs::note(&format!(" help: {hint}"));
    }
}
