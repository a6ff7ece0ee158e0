//! Where do lines go that the server writes, and in which form?
//!
//! Log lines go to standard error, so that standard output stays what scripts read; as text or as
//! one JSON object a line. What people are offered goes to standard output. Both go above a
//! progress bar where one is drawn. Installed once, by the binary, never by libraries or tests.

use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr;
use std::sync::OnceLock;

use indicatif::ProgressBar;
use tracing_subscriber::EnvFilter;

use crate::cli::error::CliError;

/// Form of a log line.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The bar that lines are written above, once there is one.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Writes log lines above `bar` from now on. The first bar stays; a process draws one.
pub fn keep_below(bar: &ProgressBar) {
    // A second bar is not an error: its lines are only less tidy.
    let _ = BAR.set(bar.clone());
}

/// Writes a line for people to standard output, above the bar if there is one. That nobody reads it
/// is no reason to stop serving.
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

/// Confirms that `filter` is one of tracing's, such as `info` or `shoal_service=debug,warn`.
///
/// # Errors
/// [`CliError::Usage`] quotes it.
pub fn check(filter: &str) -> Result<EnvFilter, CliError> {
    EnvFilter::from_str(filter)
        .map_err(|error| CliError::Usage(format!("log filter `{filter}`: {error}")))
}

/// Sends the lines that pass `filter` to standard error from now on.
///
/// # Errors
/// [`CliError::Usage`] for a filter that cannot be read, or when logging was installed before.
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
