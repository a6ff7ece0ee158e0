//! Flags that client commands share, each with an environment variable: server, timeout, token,
//! TLS and fleet.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shoal_client::{Client, ConnectOptions, LoginArgs, Secret};

use super::error::CliError;
use super::values::span_above_zero;
use crate::config::replication_secret;

/// The server of a client command.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// URL of the server, http:// or https://
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
    /// Token and TLS.
    #[command(flatten)]
    pub login: LoginArgs,
}

impl ConnectionArgs {
    /// Connects.
    ///
    /// # Errors
    /// As [`Client::connect`]; [`CliError::Usage`] if the token file has no valid token.
    pub async fn connect(&self) -> Result<Client, CliError> {
        self.connect_with(None).await
    }

    /// Connects with an optional replication secret.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_with(&self, secret: Option<Secret>) -> Result<Client, CliError> {
        let token = self.login.token().map_err(CliError::Usage)?;
        let (timeout, tls, replication_secret) = (self.timeout, self.login.tls(), secret);
        let options =
            ConnectOptions { timeout, token, tls, replication_secret, ..Default::default() };
        Ok(Client::connect(&self.target, options).await?)
    }
}

/// The secret of commands that change the leader.
#[derive(Args, Clone, Debug)]
pub struct ReplicationArgs {
    /// File with the replication secret of the server
    #[arg(long, value_name = "FILE", env = "SHOAL_REPLICATION_SECRET")]
    pub replication_secret: Option<PathBuf>,
}

impl ReplicationArgs {
    /// The secret in the file.
    ///
    /// # Errors
    /// [`CliError::Usage`].
    pub fn secret(&self) -> Result<Option<Secret>, CliError> {
        self.replication_secret.as_deref().map(replication_secret).transpose()
    }
}

/// The fleet of a command.
#[derive(Args, Clone, Debug)]
pub struct FleetArgs {
    /// Name of the fleet
    #[arg(long, value_name = "NAME", env = "SHOAL_FLEET", default_value = "default")]
    pub fleet: String,
}
