//! `shoal token`: makes secret tokens and their entries for the file of `shoal serve --tokens`.
//!
//! The token itself is written to standard output once and kept nowhere.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use shoal_service::access::{
    FleetPattern, Grant, Grants, Quotas, SecretDigest, TokenEntry, TokenFile, draw_secret,
};
use shoal_service::file_watch::read_bounded;
use shoal_service::limits::ACCESS_FILE_BYTES_MAX;
use shoal_service::right::Right;

use super::error::{CliError, Exit};
use super::output::stdout;
use super::values::span_above_zero;

/// From 1970 to the end of the year 9999.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

/// `shoal token`.
#[derive(Args, Debug)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token: prints it and its entry for a file of tokens, or adds the entry to a file
    New(NewArgs),
}

/// Flags of `shoal token new`.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// Name of the token, for logs and quotas
    pub name: String,
    /// Pattern of the fleets that it is for, with * for any characters; may be repeated
    #[arg(long = "fleet", value_name = "PATTERN", default_value = "*")]
    pub fleets: Vec<FleetPattern>,
    /// Right on these fleets: report, query, subscribe, history or admin; may be repeated
    #[arg(long = "right", value_name = "RIGHT", required = true, value_delimiter = ',')]
    pub rights: Vec<Right>,
    /// Time after which it is not valid any more, as in 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = span_above_zero)]
    pub expires_in: Option<Duration>,
    /// Add the entry to this file, which is made if there is none
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
}

/// Runs `shoal token`.
///
/// # Errors
/// An invalid name or file; errors of writing.
pub fn run(args: &TokenArgs) -> Result<Exit, CliError> {
    let TokenCommand::New(args) = &args.command;
    let secret = draw_secret()?;
    let entry = TokenEntry {
        name: args.name.clone(),
        sha256: SecretDigest::of(secret.expose()),
        not_before: None,
        expires: args.expires_in.map(expiry).transpose()?,
        grants: Grants::from_iter([Grant {
            fleets: args.fleets.clone(),
            rights: args.rights.iter().copied().collect(),
        }]),
        quotas: Quotas::default(),
    };
    let file = TokenFile { token: vec![entry] };
    file.check().map_err(CliError::Usage)?;
    let text = toml::to_string(&file).map_err(|error| CliError::Usage(error.to_string()))?;
    let mut out = stdout();
    if let Some(path) = &args.tokens {
        add(path, &text)?;
        writeln!(out, "{}", secret.expose())?;
    } else {
        writeln!(out, "{}\n\n{}", secret.expose(), text.trim_end())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Returns the time `span` from now; fails after the year 9999, which TOML cannot represent.
fn expiry(span: Duration) -> Result<SystemTime, CliError> {
    let moment = SystemTime::now().checked_add(span);
    let moment = moment.filter(|moment| *moment < UNIX_EPOCH + YEAR_10000);
    moment.ok_or_else(|| CliError::Usage("--expires-in: ends after the year 9999".to_owned()))
}

/// Adds entries to a file. It is replaced as a whole, so that a server never reads a part of it.
fn add(path: &Path, entries: &str) -> Result<(), CliError> {
    let invalid = |reason: String| CliError::Input { file: path.display().to_string(), reason };
    let before = if path.exists() {
        read_bounded(path, ACCESS_FILE_BYTES_MAX).map_err(invalid)?
    } else {
        String::new()
    };
    let gap = if before.is_empty() { "" } else { "\n" };
    let text = format!("{before}{gap}{entries}");
    let parsed: Result<TokenFile, _> = toml::from_str(&text);
    let parsed = parsed.map_err(|error| invalid(error.to_string().trim_end().to_owned()))?;
    parsed.check().map_err(invalid)?;
    replace(path, &text).map_err(|error| invalid(error.to_string()))
}

/// Replaces a file atomically, or creates one that only its owner can read.
pub(super) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mode = fs::metadata(path).map_or(0o600, |of| of.permissions().mode());
    // If the path is a symbolic link, its target is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut new = path.clone().into_os_string();
    new.push(format!(".new-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&new, &path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new);
    }
    renamed
}
