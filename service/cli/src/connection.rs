//! Flags that client commands share, each with an environment variable: server, profile, timeout,
//! token, TLS and fleet.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shoal_client::{Client, ConnectOptions, LoginArgs, Secret};

use super::error::CliError;
use super::profile::{DEFAULT_PROFILE, Profile, profile_name};
use super::values::span_above_zero;
use crate::config::replication_secret;

/// Where a server listens by default.
const DEFAULT_TARGET: &str = "http://127.0.0.1:7117";

/// The server of a client command.
#[derive(Args, Clone, Debug)]
pub struct ConnectionArgs {
    /// URL of the server, http:// or https:// [default: that of the profile, or
    /// http://127.0.0.1:7117]
    #[arg(long, value_name = "URL", env = "SHOAL_TARGET", global = true)]
    pub target: Option<String>,
    /// Profile of `shoal login`: its token and TLS settings apply to its target
    #[arg(
        long,
        value_name = "NAME",
        env = "SHOAL_PROFILE",
        default_value = DEFAULT_PROFILE,
        value_parser = profile_name,
        global = true
    )]
    pub profile: String,
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
    /// As [`Client::connect`]; [`CliError::Usage`] if the token file has no valid token;
    /// [`CliError::Input`] for a wrong profile.
    pub async fn connect(&self) -> Result<Client, CliError> {
        self.connect_with(None).await
    }

    /// Connects with an optional replication secret.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_with(&self, secret: Option<Secret>) -> Result<Client, CliError> {
        let mut token = self.login.token().map_err(CliError::Usage)?;
        let Some(profile) = self.profile()? else {
            return self.connect_to(self.own_target(), &self.login, token, secret).await;
        };
        let mut login = self.login.clone();
        profile.complete(&mut login);
        if token.is_none() {
            token = profile.token()?;
        }
        self.connect_to(&profile.target, &login, token, secret).await
    }

    /// The target without a profile.
    fn own_target(&self) -> &str {
        self.target.as_deref().unwrap_or(DEFAULT_TARGET)
    }

    /// The target to log in to, with its TLS settings. Without a given target it is that of the
    /// profile, whose token is renewed then.
    pub(super) fn to_log_in(&self) -> Result<(String, LoginArgs), CliError> {
        let mut login = self.login.clone();
        let profile = if self.target.is_none() { Profile::read(&self.profile)? } else { None };
        match profile {
            None => Ok((self.own_target().to_owned(), login)),
            Some(profile) => {
                profile.complete(&mut login);
                Ok((profile.target, login))
            }
        }
    }

    /// The profile, if there is one and it applies: its target is that of the command.
    fn profile(&self) -> Result<Option<Profile>, CliError> {
        let is_named = self.profile != DEFAULT_PROFILE;
        let wrong = |problem: String| CliError::Usage(format!("{:?}: {problem}", self.profile));
        let Some(profile) = Profile::read(&self.profile)? else {
            let missing = || wrong("no such profile; `shoal login --profile` makes one".into());
            return if is_named { Err(missing()) } else { Ok(None) };
        };
        match &self.target {
            Some(target) if url(target) != url(&profile.target) => {
                let own = &profile.target;
                let other = || wrong(format!("a profile of {own}, not of {target}"));
                if is_named { Err(other()) } else { Ok(None) }
            }
            _ => Ok(Some(profile)),
        }
    }

    /// Connects to a target with these settings.
    pub(super) async fn connect_to(
        &self,
        target: &str,
        login: &LoginArgs,
        token: Option<Secret>,
        replication_secret: Option<Secret>,
    ) -> Result<Client, CliError> {
        let (timeout, tls) = (self.timeout, login.tls());
        let options =
            ConnectOptions { timeout, token, tls, replication_secret, ..Default::default() };
        Ok(Client::connect(target, options).await?)
    }
}

/// The URL of a target, by which targets are compared.
fn url(target: &str) -> String {
    let target = target.trim_end_matches('/').to_ascii_lowercase();
    if target.contains("://") { target } else { format!("http://{target}") }
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
