//! Flags that client commands share, each also an environment variable: server, timeout, fleet.

use std::time::Duration;

use clap::Args;
use shoal_client::{Client, ConnectOptions};

use super::error::CliError;
use super::values::span_above_zero;

/// The server of a client command.
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

impl ConnectionArgs {
    /// Connects.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect(&self) -> Result<Client, CliError> {
        let options = ConnectOptions { timeout: self.timeout, ..ConnectOptions::default() };
        Ok(Client::connect(&self.target, options).await?)
    }
}

/// The fleet of a command.
#[derive(Args, Clone, Debug)]
pub struct FleetArgs {
    /// Name of the fleet
    #[arg(long, value_name = "NAME", env = "SHOAL_FLEET", default_value = "default")]
    pub fleet: String,
}
