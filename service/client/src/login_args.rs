//! Flags for token and TLS of programs that use this library, each with an environment variable.

use std::path::PathBuf;

use clap::Args;

use crate::secret::Secret;
use crate::tls::ClientTls;

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
    /// The problem, without the token.
    pub fn token(&self) -> Result<Option<Secret>, String> {
        if let Some(file) = &self.token_file {
            return Secret::read(file).map(Some);
        }
        match std::env::var_os("SHOAL_TOKEN") {
            None => Ok(None),
            Some(text) => {
                let token = text.to_str().and_then(|text| text.trim().parse().ok());
                let wrong = || "SHOAL_TOKEN: not a token".to_owned();
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
