//! Log lines and messages of the server.
//!
//! Log lines go to standard error, as text or as one JSON object per line; messages for people go
//! to standard output. Both appear above a progress bar where one is drawn. The binary installs
//! logging once; libraries and tests never do.

use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr;
use std::sync::OnceLock;

use indicatif::ProgressBar;
use tracing_subscriber::EnvFilter;

use crate::cli::error::CliError;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The progress bar, once there is one.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Writes later lines above `bar`. A process draws one bar; the first is kept.
pub fn keep_below(bar: &ProgressBar) {
    // A second bar is not an error: lines may overwrite it.
    let _ = BAR.set(bar.clone());
}

/// Writes a line for people to standard output, above the bar if there is one. A closed output does
/// not stop the server.
pub fn say(text: &str) {
    let write = || drop(writeln!(io::stdout().lock(), "{text}"));
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Standard error, above the bar if there is one.
#[derive(Clone, Copy, Debug)]
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match BAR.get() {
            Some(bar) => bar.suspend(|| io::stderr().write(line)),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Parses a filter of `tracing`, such as `info` or `shoal_service=debug,warn`.
///
/// # Errors
/// [`CliError::Usage`] quotes it.
pub fn check(filter: &str) -> Result<EnvFilter, CliError> {
    EnvFilter::from_str(filter)
        .map_err(|error| CliError::Usage(format!("log filter `{filter}`: {error}")))
}

/// Starts logging lines that pass `filter` to standard error.
///
/// # Errors
/// [`CliError::Usage`] for an invalid filter, or when logging was installed before.
pub fn install(format: LogFormat, filter: &str) -> Result<(), CliError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(check(filter)?)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(|| LogWriter);
    let installed = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|error| CliError::Usage(format!("cannot start logging: {error}")))
}
