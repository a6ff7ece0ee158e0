//! `shoal token`: makes, lists and revokes secret tokens in the file of `shoal serve --tokens`.
//!
//! The token itself is written to standard output once and kept nowhere.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use shoal_service::access::{
    FleetPattern, Grant, Grants, Quotas, SecretDigest, TokenEntry, TokenFile, draw_secret,
};
use shoal_service::file_watch::read_bounded;
use shoal_service::limits::ACCESS_FILE_BYTES_MAX;
use shoal_service::right::Right;

use toml_edit::{DocumentMut, Item};

use super::error::{CliError, Exit};
use super::file_edit::{lock_folder, replace};
use super::output::{plain_table, stdout};
use super::values::{moment, moment_of, span_above_zero};

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
    /// Show the tokens of a file: names, validity, grants and quotas
    List(ListArgs),
    /// Remove tokens from a file; a server that uses it ends their calls within a second
    Revoke(RevokeArgs),
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
    /// Quota, as in rows_per_second=1000: connections, streams, rows_per_second,
    /// queries_per_second, answer_bytes_per_second, regions or fleets; may be repeated
    #[arg(long = "quota", value_name = "NAME=N", value_parser = quota, value_delimiter = ',')]
    pub quotas: Vec<(String, u64)>,
    /// Time before which it is not valid [default: valid at once]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub not_before: Option<SystemTime>,
    /// Time after which it is not valid any more, as in 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = span_above_zero)]
    pub expires_in: Option<Duration>,
    /// Add the entry to this file, which is made if there is none
    #[arg(long, value_name = "FILE", env = "SHOAL_TOKENS")]
    pub tokens: Option<PathBuf>,
}

/// Flags of `shoal token list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// File of tokens
    #[arg(long, value_name = "FILE", env = "SHOAL_TOKENS")]
    pub tokens: PathBuf,
    /// Write JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Flags of `shoal token revoke`.
#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// Names of the tokens
    #[arg(required = true)]
    pub names: Vec<String>,
    /// File of tokens
    #[arg(long, value_name = "FILE", env = "SHOAL_TOKENS")]
    pub tokens: PathBuf,
}

/// Runs `shoal token`.
///
/// # Errors
/// An invalid name or file; errors of writing.
pub fn run(args: &TokenArgs) -> Result<Exit, CliError> {
    match &args.command {
        TokenCommand::New(args) => new(args)?,
        TokenCommand::List(args) => list(args)?,
        TokenCommand::Revoke(args) => revoke(args)?,
    }
    Ok(Exit::Done)
}

fn new(args: &NewArgs) -> Result<(), CliError> {
    let secret = draw_secret()?;
    let entry = TokenEntry {
        name: args.name.clone(),
        sha256: SecretDigest::of(secret.expose()),
        not_before: args.not_before,
        expires: args.expires_in.map(expiry).transpose()?,
        grants: Grants::from_iter([Grant {
            fleets: args.fleets.clone(),
            rights: args.rights.iter().copied().collect(),
        }]),
        quotas: quotas(&args.quotas)?,
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
    Ok(out.flush()?)
}

/// `NAME=N`.
fn quota(text: &str) -> Result<(String, u64), String> {
    let pair = text.split_once('=');
    let pair = pair.and_then(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
    pair.ok_or_else(|| "it must be NAME=N, as in rows_per_second=1000".to_owned())
}

/// The quotas with these names, which are those of a token file.
fn quotas(named: &[(String, u64)]) -> Result<Quotas, CliError> {
    let object: Map<_, _> = named.iter().map(|(name, n)| (name.clone(), (*n).into())).collect();
    let quotas = serde_json::from_value(object.into());
    quotas.map_err(|error| CliError::Usage(format!("--quota: {error}")))
}

/// Returns the time `span` from now; fails after the year 9999, which TOML cannot represent.
fn expiry(span: Duration) -> Result<SystemTime, CliError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let moment = now.checked_add(span).and_then(moment_of);
    moment.ok_or_else(|| CliError::Usage("--expires-in: ends after the year 9999".to_owned()))
}

/// For `map_err`: an error of the file of tokens.
fn wrong<E: ToString>(path: &Path) -> impl Fn(E) -> CliError {
    let file = path.display().to_string();
    move |error| CliError::Input { file: file.clone(), reason: error.to_string().trim_end().into() }
}

/// The content of a file of tokens, and the same content as text.
fn read(path: &Path) -> Result<(TokenFile, String), CliError> {
    let text = read_bounded(path, ACCESS_FILE_BYTES_MAX).map_err(wrong(path))?;
    Ok((parse(path, &text)?, text))
}

fn parse(path: &Path, text: &str) -> Result<TokenFile, CliError> {
    let file: TokenFile = toml::from_str(text).map_err(wrong(path))?;
    file.check().map_err(wrong(path))?;
    Ok(file)
}

/// Adds entries to a file.
fn add(path: &Path, entries: &str) -> Result<(), CliError> {
    let _turn = lock_folder(path).map_err(wrong(path))?;
    let before = if path.exists() { read(path)?.1 } else { String::new() };
    let gap = if before.is_empty() { "" } else { "\n" };
    let text = format!("{before}{gap}{entries}");
    parse(path, &text)?;
    replace(path, &text).map_err(wrong(path))
}

fn revoke(args: &RevokeArgs) -> Result<(), CliError> {
    let path = &args.tokens;
    let _turn = lock_folder(path).map_err(wrong(path))?;
    let (file, text) = read(path)?;
    let is_listed = |name: &&String| file.token.iter().any(|entry| entry.name == **name);
    if let Some(name) = args.names.iter().find(|name| !is_listed(name)) {
        return Err(wrong(path)(format!("no token {name:?}; `shoal token list` shows all")));
    }
    // The rest of the file keeps its order and comments.
    let mut document: DocumentMut = text.parse().map_err(wrong::<toml_edit::TomlError>(path))?;
    let is_kept =
        |name: Option<&str>| name.is_none_or(|name| args.names.iter().all(|it| it != name));
    match document.get_mut("token") {
        Some(Item::ArrayOfTables(entries)) => {
            entries.retain(|entry| is_kept(entry.get("name").and_then(Item::as_str)));
        }
        Some(Item::Value(toml_edit::Value::Array(entries))) => entries.retain(|entry| {
            let entry = entry.as_inline_table();
            is_kept(entry.and_then(|entry| entry.get("name")).and_then(toml_edit::Value::as_str))
        }),
        _ => {}
    }
    let text = document.to_string();
    let left = parse(path, &text)?.token.len();
    replace(path, &text).map_err(wrong(path))?;
    let mut out = stdout();
    for name in &args.names {
        writeln!(out, "revoked {name}")?;
    }
    writeln!(out, "tokens left: {left}")?;
    Ok(out.flush()?)
}

fn list(args: &ListArgs) -> Result<(), CliError> {
    let now = SystemTime::now();
    let (file, _) = read(&args.tokens)?;
    let mut out = stdout();
    if args.json {
        for entry in &file.token {
            writeln!(out, "{}", entry_json(entry, now))?;
        }
        return Ok(out.flush()?);
    }
    let header = ["token", "state", "from", "until", "fleets", "rights", "quotas"];
    let mut table = plain_table(&header, &header);
    for entry in &file.token {
        let grants = entry.grants.iter();
        let (fleets, rights): (Vec<_>, Vec<_>) = grants.map(grant_text).unzip();
        let quotas = serde_json::to_value(entry.quotas).unwrap_or_default();
        let quotas = quotas.as_object().into_iter().flatten();
        let quotas: Vec<_> = quotas.map(|(name, limit)| format!("{name}={limit}")).collect();
        table.add_row([
            entry.name.clone(),
            state(entry, now).to_owned(),
            entry.not_before.map_or_else(String::new, time_text),
            entry.expires.map_or_else(String::new, time_text),
            fleets.join("\n"),
            rights.join("\n"),
            quotas.join("\n"),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(out.flush()?)
}

fn entry_json(entry: &TokenEntry, now: SystemTime) -> Value {
    json!({
        "name": entry.name,
        "state": state(entry, now),
        "not_before": entry.not_before.map(time_text),
        "expires": entry.expires.map(time_text),
        "grants": entry.grants,
        "quotas": entry.quotas,
    })
}

/// `valid`, `expired` or `not yet valid`.
fn state(entry: &TokenEntry, now: SystemTime) -> &'static str {
    match entry {
        TokenEntry { expires: Some(end), .. } if now >= *end => "expired",
        TokenEntry { not_before: Some(begin), .. } if now < *begin => "not yet valid",
        _ => "valid",
    }
}

fn time_text(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// The patterns of a grant and its rights, each joined by commas.
fn grant_text(grant: &Grant) -> (String, String) {
    let fleets: Vec<_> = grant.fleets.iter().map(ToString::to_string).collect();
    let rights: Vec<_> = grant.rights.iter().map(Right::name).collect();
    (fleets.join(","), rights.join(","))
}
