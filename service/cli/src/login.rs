//! `shoal login` and `shoal logout`: store and delete a profile, so that commands need no flags for
//! target, trust and token.
//!
//! The token is checked by a call before it is stored. It is read from a file, a variable, standard
//! input or the terminal, never from the command line, which other users of the machine can see.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use clap::Args;
use shoal_client::{Secret, is_on_this_machine};

use super::connection::ConnectionArgs;
use super::error::{CliError, Exit};
use super::logs::note;
use super::output::stdout;
use super::profile::{DEFAULT_PROFILE, Profile, profile_name};

/// Longest line with a token that is read from standard input, in bytes.
const TOKEN_LINE_BYTES_MAX: u64 = 16 << 10;

/// Flags of `shoal login`; the connection has all of them.
#[derive(Args, Debug)]
pub struct LoginCommandArgs {}

/// Flags of `shoal logout`.
#[derive(Args, Debug)]
pub struct LogoutArgs {
    /// Profile to delete
    #[arg(
        long,
        value_name = "NAME",
        env = "SHOAL_PROFILE",
        default_value = DEFAULT_PROFILE,
        value_parser = profile_name
    )]
    pub profile: String,
}

/// Runs `shoal login`.
///
/// # Errors
/// As [`ConnectionArgs::connect`]; the server refuses the token; the profile cannot be written.
pub async fn log_in(connection: &ConnectionArgs) -> Result<Exit, CliError> {
    let (target, login) = connection.to_log_in()?;
    let given = connection.login.token().map_err(CliError::Usage)?;
    let token = if given.is_some() { given } else { ask()? };
    if token.is_some() && !target.starts_with("https://") && !is_on_this_machine(&target) {
        note("warning: without https everyone on the way to the server can read the token");
    }
    let client = connection.connect_to(&target, &login, token.clone(), None).await?;
    let fleets = client.list_fleets().await?;
    let profile = Profile::new(client.target(), &login, token.as_ref())?;
    let path = profile.write(&connection.profile)?;
    let mut out = stdout();
    writeln!(out, "logged in to {}, fleets: {}", client.target(), fleets.len())?;
    writeln!(out, "{}", path.display())?;
    out.flush()?;
    Ok(Exit::Done)
}

/// Reads the token from the terminal, without echo, or from the first line of standard input.
fn ask() -> Result<Option<Secret>, CliError> {
    let line = if io::stdin().is_terminal() {
        let prompt = "Token (empty if the server asks for none): ";
        rpassword::prompt_password(prompt).map_err(CliError::local("reading the token"))?
    } else {
        let mut line = String::new();
        let read = io::stdin().lock().take(TOKEN_LINE_BYTES_MAX).read_line(&mut line);
        read.map_err(CliError::local("reading the token from standard input"))?;
        line
    };
    match line.trim() {
        "" => Ok(None),
        token => token.parse().map(Some).map_err(|error: shoal_client::SecretError| {
            CliError::Usage(format!("standard input: {error}"))
        }),
    }
}

/// Runs `shoal logout`.
///
/// # Errors
/// There is no such profile, or it cannot be deleted.
pub fn log_out(args: &LogoutArgs) -> Result<Exit, CliError> {
    let Some(path) = Profile::delete(&args.profile)? else {
        return Err(CliError::Usage(format!("no profile {:?}", args.profile)));
    };
    let mut out = stdout();
    writeln!(out, "deleted {}", path.display())?;
    out.flush()?;
    Ok(Exit::Done)
}
