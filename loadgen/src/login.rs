//! Token and TLS settings, the same for all connections of the process and of its attackers.

use std::ffi::OsString;
use std::sync::OnceLock;

use shoal_client::{ConnectOptions, LoginArgs};

use crate::error::LoadError;

static LOGIN: OnceLock<(LoginArgs, ConnectOptions)> = OnceLock::new();

/// Uses these settings for all later connections of the process.
///
/// # Errors
/// [`LoadError::Usage`] if the token file or the variable `SHOAL_TOKEN` has no valid token.
pub fn log_in(args: LoginArgs) -> Result<(), LoadError> {
    let (token, tls) = (args.token().map_err(LoadError::Usage)?, args.tls());
    let options = ConnectOptions { token, tls, ..ConnectOptions::default() };
    // An error means that they were set before.
    let _ = LOGIN.set((args, options));
    Ok(())
}

/// Options of a connection with the settings of the process.
#[must_use]
pub fn logged_in() -> ConnectOptions {
    LOGIN.get().map_or_else(ConnectOptions::default, |(_, options)| options.clone())
}

/// The settings as environment variables for another process, which inherits `SHOAL_TOKEN`.
#[must_use]
pub fn environment() -> Vec<(&'static str, OsString)> {
    let Some((args, _)) = LOGIN.get() else { return Vec::new() };
    let LoginArgs { token_file, tls_ca, tls_cert, tls_key, tls_name } = args.clone();
    let variables = [
        ("SHOAL_TOKEN_FILE", token_file.map(OsString::from)),
        ("SHOAL_TLS_CA", tls_ca.map(OsString::from)),
        ("SHOAL_TLS_CERT", tls_cert.map(OsString::from)),
        ("SHOAL_TLS_KEY", tls_key.map(OsString::from)),
        ("SHOAL_TLS_NAME", tls_name.map(OsString::from)),
    ];
    variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
