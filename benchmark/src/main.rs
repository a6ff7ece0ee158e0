//! The binary `shoal-bench`: compares each part of Shoal with its alternatives.
//!
//! One command per part. Every result states the machine, the commit and a hash of the answers, so
//! that it can be reproduced and wrong answers are detected.

mod codec;
mod engine;
mod error;
mod glfpp;
mod harness;
mod history;
mod index;
mod log;
mod pgrid;
mod region;
mod subscription;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures the parts of Shoal without the network.
#[derive(Parser)]
#[command(name = "shoal-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Rates of the engine alone: cycles of updates and queries, rows made before the clock starts.
    Engine(engine::Options),
    /// Times of single queries for large regions.
    Region(region::Options),
    /// Ratio and speed of Shoal's codec and others, on recorded positions and generated columns.
    Codec(codec::Options),
    /// The experiments of the G-LFPP paper, which compare the backends with the baseline PGrid.
    Glfpp(glfpp::Options),
    /// The cost of continuous queries: updates per second over the number of circles.
    Subscription(subscription::Options),
    /// Compare the tree over sorted keys with other structures, on CPU and device.
    Index(index::Options),
    /// Questions about a past of moving objects, and its size, on disk and in a device's memory.
    History(history::Options),
    /// The position log: append, read and recover, compared with the limit of the disk.
    Log(log::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Engine(options) => engine::run(&options),
        Command::Region(options) => region::run(&options),
        Command::Codec(options) => codec::run(&options),
        Command::Glfpp(options) => glfpp::run(&options),
        Command::Subscription(options) => subscription::run(&options),
        Command::Index(options) => index::run(&options),
        Command::History(options) => history::run(&options),
        Command::Log(options) => log::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shoal-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
