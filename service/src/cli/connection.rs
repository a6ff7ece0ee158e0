//! Which server, which fleet, how long to wait?
//!
//! The flags that every client command shares, each also an environment variable.

use std::time::Duration;

use clap::Args;

use super::values::span_above_zero;

/// Where a client command goes.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// URL of the server
    #[arg(
        long,
        value_name = "URL",
        env = "SHOAL_TARGET",
        default_value = "http://127.0.0.1:7117",
        global = true
    )]
    pub target: String,
    /// Longest time to wait for an answer, or for the next sign of progress of a report
    #[arg(
        long,
        value_name = "TIME",
        env = "SHOAL_TIMEOUT",
        default_value = "30s",
        value_parser = span_above_zero,
        global = true
    )]
    pub timeout: Duration,
}

/// Which fleet a command means.
#[derive(Args, Clone, Debug)]
pub struct FleetArgs {
    /// Name of the fleet
    #[arg(long, value_name = "NAME", env = "SHOAL_FLEET", default_value = "default")]
    pub fleet: String,
}
