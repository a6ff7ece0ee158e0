//! How fast is each piece, and against what? The binary `shoal-bench`.
//!
//! One command per piece. Every figure comes with the machine, the commit and a hash of the
//! answers, so that a number can be repeated and a fast wrong answer is seen.

mod answer_hash;
mod answered;
mod codec;
mod cycle_times;
mod drive;
mod engine;
mod error;
mod experiments;
mod glfpp;
mod machine;
mod pgrid;
mod rows;
mod source;
mod subscription;
mod svg;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Shoal's pieces without the network.
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
    /// Ratio and speed of the codec beside others, on real positions and what the thesis generates.
    Codec(codec::Options),
    /// The experiments of the G-LFPP paper, the baseline PGrid beside the backends.
    Glfpp(glfpp::Options),
    /// What standing regions cost: updates over the number of circles that are told who comes and
    /// goes.
    Subscription(subscription::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Engine(options) => engine::run(&options),
        Command::Codec(options) => codec::run(&options),
        Command::Glfpp(options) => glfpp::run(&options),
        Command::Subscription(options) => subscription::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shoal-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
