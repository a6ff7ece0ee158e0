//! Log lines and messages of the server.
//!
//! Log lines go to standard error, as text or as one JSON object per line; messages for people go
//! to standard output. Both appear above a progress bar where one is drawn. Nothing here waits for
//! an output: each has a queue and a thread, which also draws the bar. The binary installs logging
//! once; libraries and tests never do.

mod call_site_limit;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::panic::{self, PanicHookInfo};
use std::str::FromStr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use indicatif::ProgressBar;
use serde_json::{Map, Value};
use shoal_service::limits::OUTPUT_END_MS_MAX;
use shoal_service::line_queue::{LineQueue, NoticeCause, lines_lost};
use shoal_table::printable_lines;
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, fmt};

use self::call_site_limit::{CallSiteLimit, Suppressed};
use crate::error::CliError;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The queues of lines to standard error and standard output. They exist once logging is installed.
#[derive(Debug)]
struct Outputs {
    errors: LineQueue,
    messages: LineQueue,
}

static OUTPUTS: OnceLock<Outputs> = OnceLock::new();
/// The progress bar, once there is one.
static BAR: OnceLock<ProgressBar> = OnceLock::new();

/// Writes later lines above `bar`. A process draws one bar; the first is kept.
pub fn keep_below(bar: &ProgressBar) {
    // A second bar is not an error: lines may overwrite it.
    let _ = BAR.set(bar.clone());
}

/// Queues a change of the bar. A change that is replaced before it is drawn is skipped.
pub fn draw(change: impl FnOnce() + Send + 'static) {
    if let Some(outputs) = OUTPUTS.get() {
        outputs.errors.draw(change);
    }
}

/// Writes a line for people to standard output. A closed or full output does not stop the server.
/// Characters that control a terminal are escaped, since texts may come from others.
pub fn say(text: &str) {
    let text = printable_lines(text);
    match OUTPUTS.get() {
        Some(outputs) => outputs.messages.push(format!("{text}\n").as_bytes()),
        None => drop(writeln!(io::stdout(), "{text}")),
    }
}

/// Writes a line that is not part of the log to standard error, as [`say`] does.
pub fn note(text: &str) {
    let text = printable_lines(text);
    match OUTPUTS.get() {
        Some(outputs) => outputs.errors.push(format!("{text}\n").as_bytes()),
        None => drop(writeln!(io::stderr(), "{text}")),
    }
}

/// On drop, also after a panic, waits a bounded time until queued lines are written.
#[derive(Debug)]
#[must_use]
pub struct LastLines;

impl Drop for LastLines {
    fn drop(&mut self) {
        if let Some(outputs) = OUTPUTS.get() {
            let end = Instant::now() + Duration::from_millis(OUTPUT_END_MS_MAX);
            outputs.errors.drain(end);
            outputs.messages.drain(end);
        }
    }
}

/// The writer of `tracing`, which passes a whole line at a time.
#[derive(Clone, Debug)]
struct LogWriter(LineQueue);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

/// Starts logging lines that pass `filter` to standard error, panics among them.
///
/// # Errors
/// [`CliError::Usage`] for an invalid filter, or when logging was installed before;
/// [`CliError::Serve`] if the system refuses a thread.
pub fn install(format: LogFormat, filter: &str) -> Result<(), CliError> {
    let limit = CallSiteLimit::default();
    let notices = {
        let limit = limit.clone();
        move |cause| notices(format, cause, &limit)
    };
    let errors = LineQueue::start("stderr", lines_lost(), write_errors, notices)?;
    let messages = LineQueue::start("stdout", lines_lost(), write_messages, lost_messages)?;
    let writer = LogWriter(errors.clone());
    let has_color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt::layer().with_ansi(has_color).with_writer(move || writer.clone());
    let registry = tracing_subscriber::registry().with(check(filter)?).with(limit);
    let installed = match format {
        LogFormat::Text => registry.with(lines.with_target(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    let refused = |error: TryInitError| CliError::Usage(format!("cannot start logging: {error}"));
    installed.map_err(refused)?;
    // The default panic hook would block on standard error.
    panic::set_hook(Box::new({
        let errors = errors.clone();
        move |panic| errors.push(panic_line(format, panic).as_bytes())
    }));
    // Only one call reaches this.
    let _ = OUTPUTS.set(Outputs { errors, messages });
    Ok(())
}

/// Writes to standard error, above the bar if there is one.
fn write_errors(text: &[u8]) -> io::Result<()> {
    above_the_bar(|| io::stderr().write_all(text))
}

/// Writes to standard output, above the bar if both are on a terminal.
fn write_messages(text: &[u8]) -> io::Result<()> {
    let write = || {
        let mut output = io::stdout().lock();
        output.write_all(text)?;
        output.flush()
    };
    if io::stdout().is_terminal() { above_the_bar(write) } else { write() }
}

fn above_the_bar<T>(write: impl FnOnce() -> T) -> T {
    match BAR.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Notices about lines that were suppressed or dropped.
fn notices(format: LogFormat, cause: NoticeCause, limit: &CallSiteLimit) -> String {
    let mut text = String::new();
    if cause.lost > 0 {
        let fields = [("lost", cause.lost.into())];
        text += &line(format, Level::WARN, "standard error did not take lines in time", fields);
    }
    for of in limit.take_suppressed(Instant::now(), cause.is_last) {
        let Suppressed { level, message, fleet, count } = of;
        let fields = [("fleet", fleet.into()), ("suppressed", count.into())];
        text += &line(format, level, &message, fields);
    }
    text
}

fn lost_messages(cause: NoticeCause) -> String {
    match cause.lost {
        0 => String::new(),
        lost => format!("{lost} lines are missing: standard output did not take them in time\n"),
    }
}

fn panic_line(format: LogFormat, panic: &PanicHookInfo<'_>) -> String {
    let location = panic.location().map(ToString::to_string);
    let message = format!("panic: {}", panic.payload_as_str().unwrap_or("without a text"));
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let fields = [
        ("thread", thread::current().name().into()),
        ("location", location.into()),
        ("backtrace", is_captured.then(|| backtrace.to_string()).into()),
    ];
    line(format, Level::ERROR, &message, fields)
}

/// A log line as `tracing` formats it; fields without a value are left out.
fn line<const FIELDS: usize>(
    format: LogFormat,
    level: Level,
    message: &str,
    fields: [(&str, Value); FIELDS],
) -> String {
    let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    match format {
        LogFormat::Text => {
            let mut text = format!("{time} {level:>5} {message}");
            for (name, value) in fields {
                // Writing to a string cannot fail.
                let _ = match value.as_str() {
                    Some(value) => write!(text, " {name}={value}"),
                    None => write!(text, " {name}={value}"),
                };
            }
            text + "\n"
        }
        LogFormat::Json => {
            let head = [
                ("timestamp", time.into()),
                ("level", level.to_string().into()),
                ("message", message.into()),
            ];
            let fields = head.into_iter().chain(fields);
            let object: Map<_, _> = fields.map(|(name, value)| (name.to_owned(), value)).collect();
            format!("{}\n", Value::Object(object))
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn notices_look_like_lines_of_the_log() {
        let fields = || [("fleet", Value::Null), ("suppressed", 7.into())];
        let text = line(LogFormat::Text, Level::WARN, "full", fields());
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(humantime::parse_rfc3339(time).is_ok());
        assert_eq!(rest, " WARN full suppressed=7\n");
        let json = line(LogFormat::Json, Level::ERROR, "a \"quote\"", fields());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["level"], "ERROR");
        assert_eq!(json["message"], "a \"quote\"");
        assert_eq!(json["suppressed"], 7);
        assert_eq!(json.get("fleet"), None);
    }
}
