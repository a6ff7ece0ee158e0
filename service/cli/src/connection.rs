//! Flags that client commands share, each with an environment variable: server, timeout, token,
//! TLS and fleet.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shoal_client::{Client, ClientTls, ConnectOptions, Secret};

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

/// How a client identifies itself, and whom it trusts.
#[derive(Args, Clone, Debug, Default)]
pub struct LoginArgs {
    /// File with the token to send with each call; SHOAL_TOKEN may have the token itself
    #[arg(long, value_name = "FILE", env = "SHOAL_TOKEN_FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// File with the certificates (PEM) to trust in place of those of the system
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_CA", global = true)]
    pub tls_ca: Option<PathBuf>,
    /// File with the certificate chain (PEM) of this client, for servers that require one
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_CERT", requires = "tls_key", global = true)]
    pub tls_cert: Option<PathBuf>,
    /// File with the private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_KEY", requires = "tls_cert", global = true)]
    pub tls_key: Option<PathBuf>,
    /// Name in the certificate of the server, if not the host of the URL
    #[arg(long, value_name = "NAME", env = "SHOAL_TLS_NAME", global = true)]
    pub tls_name: Option<String>,
}

impl LoginArgs {
    /// The token: that of the file, or of the variable `SHOAL_TOKEN`.
    ///
    /// # Errors
    /// [`CliError::Usage`], without the token.
    pub fn token(&self) -> Result<Option<Secret>, CliError> {
        if let Some(file) = &self.token_file {
            return Secret::read(file).map(Some).map_err(CliError::Usage);
        }
        match std::env::var_os("SHOAL_TOKEN") {
            None => Ok(None),
            Some(text) => {
                let token = text.to_str().and_then(|text| text.trim().parse().ok());
                let wrong = || CliError::Usage("SHOAL_TOKEN: not a token".to_owned());
                Ok(Some(token.ok_or_else(wrong)?))
            }
        }
    }

    /// The TLS settings.
    #[must_use]
    pub fn tls(&self) -> ClientTls {
        ClientTls {
            ca: self.tls_ca.clone(),
            identity: self.tls_cert.clone().zip(self.tls_key.clone()),
            server_name: self.tls_name.clone(),
        }
    }
}

impl ConnectionArgs {
    /// Connects.
    ///
    /// # Errors
    /// As [`Client::connect`]; [`CliError::Usage`] without a token in its file.
    pub async fn connect(&self) -> Result<Client, CliError> {
        self.connect_with(None).await
    }

    /// Connects with an optional replication secret.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_with(&self, secret: Option<Secret>) -> Result<Client, CliError> {
        let (token, tls, replication_secret) = (self.login.token()?, self.login.tls(), secret);
        let timeout = self.timeout;
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
