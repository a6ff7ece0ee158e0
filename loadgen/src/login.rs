//! Token and TLS settings, the same for all connections of the process and of its attackers.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args;
use shoal_client::{ClientTls, ConnectOptions, Secret};

use crate::error::LoadError;

static LOGIN: OnceLock<(TargetLoginArgs, ConnectOptions)> = OnceLock::new();

/// How the load generator identifies itself, and whom it trusts.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Token and TLS")]
pub struct TargetLoginArgs {
    /// File with the token to send with each call.
    #[arg(long, value_name = "FILE", env = "SHOAL_TOKEN_FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) to trust in place of those of the system, for https://.
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_CA", global = true)]
    pub tls_ca: Option<PathBuf>,
    /// Certificate chain (PEM) of this client.
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_CERT", requires = "tls_key", global = true)]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_KEY", requires = "tls_cert", global = true)]
    pub tls_key: Option<PathBuf>,
}

impl TargetLoginArgs {
    /// Uses these settings for all later connections of the process.
    ///
    /// # Errors
    /// [`LoadError::Usage`] without a token in its file.
    pub fn log_in(self) -> Result<(), LoadError> {
        let token = self.token_file.as_deref().map(Secret::read).transpose();
        let identity = self.tls_cert.clone().zip(self.tls_key.clone());
        let tls = ClientTls { ca: self.tls_ca.clone(), identity, server_name: None };
        let token = token.map_err(LoadError::Usage)?;
        let options = ConnectOptions { token, tls, ..ConnectOptions::default() };
        // An error means that they were set before.
        let _ = LOGIN.set((self, options));
        Ok(())
    }
}

/// Options of a connection with the settings of the process.
#[must_use]
pub fn logged_in() -> ConnectOptions {
    LOGIN.get().map_or_else(ConnectOptions::default, |(_, options)| options.clone())
}

/// The settings as environment variables for another process.
#[must_use]
pub fn environment() -> Vec<(&'static str, PathBuf)> {
    let Some((args, _)) = LOGIN.get() else { return Vec::new() };
    let TargetLoginArgs { token_file, tls_ca, tls_cert, tls_key } = args.clone();
    let variables = [
        ("SHOAL_TOKEN_FILE", token_file),
        ("SHOAL_TLS_CA", tls_ca),
        ("SHOAL_TLS_CERT", tls_cert),
        ("SHOAL_TLS_KEY", tls_key),
    ];
    variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
