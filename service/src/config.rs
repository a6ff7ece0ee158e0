//! What is a server told when it starts, and by whom?
//!
//! Three voices, in this order: flag, environment variable (clap merges those two), configuration
//! file; then the default. A key that the file should not have is an error that names it. The
//! result is validated once and logged; nothing reads a setting anywhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use shoal_engine::{Clock, Space};
use shoal_table::SpeedUnit;

use crate::cli::error::CliError;
use crate::cli::serve::{ServeArgs, clock, limit_pair, speedup};
use crate::cli::values::{bytes, millis, span};
use crate::logs::{self, LogFormat};
use crate::{EngineChoice, ServerLimits, ServerOptions};

/// Where clients connect unless told otherwise.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7117";
/// What is logged unless told otherwise.
pub const LOG_DEFAULT: &str = "info";

/// A configuration file: TOML with the names of the flags, `_` for `-`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// See `--listen`.
    pub listen: Option<String>,
    /// See `--metrics-listen`.
    pub metrics_listen: Option<String>,
    /// See `--engine`.
    pub engine: Option<EngineChoice>,
    /// See `--gpu-fleet-memory`.
    pub gpu_fleet_memory: Option<String>,
    /// See `--space`.
    pub space: Option<String>,
    /// See `--clock`.
    pub clock: Option<String>,
    /// See `--ttl`.
    pub ttl: Option<String>,
    /// See `--time-ahead`.
    pub time_ahead: Option<String>,
    /// See `--insecure`.
    pub insecure: Option<bool>,
    /// See `--threads`.
    pub threads: Option<usize>,
    /// See `--replay`; relative to where the server is started.
    pub replay: Option<PathBuf>,
    /// See `--speedup`.
    pub speedup: Option<f64>,
    /// See `--speed-unit`.
    pub speed_unit: Option<String>,
    /// See `--log`.
    pub log: Option<String>,
    /// See `--log-format`.
    pub log_format: Option<LogFormat>,
    /// Table of limits; names as in [`ServerLimits`], each optional.
    pub limits: toml::Table,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CliError::Input`] with line and key when it cannot be read or has a key that it should
    /// not.
    pub fn read(file: &Path) -> Result<Self, CliError> {
        let wrong = |reason: String| CliError::Input { file: file.display().to_string(), reason };
        let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))
    }
}

/// A recorded day to be played into the fleet `default`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// CSV, plain or gzip.
    pub file: PathBuf,
    /// Event time over real time; `None` makes the file last about a minute.
    pub speedup: Option<f64>,
    /// Unit of the column `speed`.
    pub speed_unit: SpeedUnit,
}

/// Everything that `shoal serve` was told.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// For the server.
    pub options: ServerOptions,
    /// What to play, if anything.
    pub replay: Option<ReplayConfig>,
    /// Log filter.
    pub log: String,
    /// Form of log lines.
    pub log_format: LogFormat,
}

impl ServeConfig {
    /// The effective configuration: flags and environment in `args`, then the file they name.
    ///
    /// # Errors
    /// [`CliError::Usage`] and [`CliError::Input`] name the setting that cannot be.
    pub fn new(args: &ServeArgs) -> Result<Self, CliError> {
        let file =
            args.config.as_deref().map_or_else(|| Ok(ConfigFile::default()), ConfigFile::read)?;
        let replay = replay(args, &file)?;
        let clock_default = if replay.is_some() { Clock::Event } else { Clock::System };
        let of_file = |name, text: &Option<String>, parse: fn(&str) -> Result<Duration, String>| {
            setting(name, text, parse)
        };
        let ttl = args.ttl.map_or_else(|| of_file("ttl", &file.ttl, span), |ttl| Ok(Some(ttl)))?;
        let ahead = match args.time_ahead {
            Some(ahead) => Some(ahead),
            None => setting("time_ahead", &file.time_ahead, span)?,
        };
        let listen = or_file(args.listen, "listen", &file.listen)?;
        let listen_default = || LISTEN_DEFAULT.parse().expect("the default is an address");
        let of_server = ServerOptions::default();
        let options = ServerOptions {
            listen: listen.unwrap_or_else(listen_default),
            metrics_listen: or_file(args.metrics_listen, "metrics_listen", &file.metrics_listen)?,
            engine: args.engine.or(file.engine).unwrap_or_default(),
            gpu_fleet_memory_bytes: match args.gpu_fleet_memory {
                Some(bytes) => Some(bytes),
                None => setting("gpu_fleet_memory", &file.gpu_fleet_memory, bytes)?,
            },
            default_space: or_file(args.space, "space", &file.space)?
                .unwrap_or_else(Space::geographic),
            default_clock: match args.clock {
                Some(clock) => clock,
                None => setting("clock", &file.clock, clock)?.unwrap_or(clock_default),
            },
            default_ttl_ms: ttl.map(millis).filter(|ttl_ms| *ttl_ms > 0),
            insecure: args.insecure.or(file.insecure).unwrap_or(false),
            time_ahead_max_ms: ahead.map_or(of_server.time_ahead_max_ms, millis),
            threads: args.threads.or(file.threads).unwrap_or(of_server.threads),
            limits: limits(&args.limit, file.limits)?,
        };
        options.check().map_err(|error| CliError::Usage(error.to_string()))?;
        let log = args.log.clone().or(file.log).unwrap_or_else(|| LOG_DEFAULT.to_owned());
        logs::check(&log)?;
        let log_format = args.log_format.or(file.log_format).unwrap_or_default();
        Ok(Self { options, replay, log, log_format })
    }

    /// Logs what is in effect, each value under its name.
    pub fn log_effective(&self) {
        let options = &self.options;
        tracing::info!(
            listen = %options.listen,
            metrics_listen = ?options.metrics_listen,
            engine = options.engine.engine_name(),
            gpu_fleet_memory_bytes = ?options.gpu_fleet_memory_bytes,
            space = %options.default_space,
            clock = ?options.default_clock,
            ttl_ms = ?options.default_ttl_ms,
            time_ahead_max_ms = options.time_ahead_max_ms,
            insecure = options.insecure,
            threads = options.threads,
            replay = ?self.replay,
            limits = ?options.limits,
            "configuration in effect"
        );
        if let (_, Some(cause)) = options.engine.resolve() {
            tracing::info!("--engine auto takes the cpu: {cause}");
        }
        if options.gpu_fleet_memory_bytes.is_some() && options.engine.engine_name() != "cuda" {
            tracing::warn!("--gpu-fleet-memory has no effect: fleets run on the cpu");
        }
        if options.insecure {
            tracing::warn!(
                "--insecure: whoever reaches {} can read and write every position; nothing is \
                 encrypted and nobody is asked who they are",
                options.listen
            );
        }
    }
}

/// The value of a text in the file.
fn setting<T, E: std::fmt::Display>(
    name: &str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, CliError> {
    let parsed = text.as_deref().map(parse).transpose();
    parsed.map_err(|error| CliError::Usage(format!("configuration file, {name}: {error}")))
}

/// The value given by flag or environment, else that of the file.
fn or_file<T: FromStr<Err: std::fmt::Display>>(
    value: Option<T>,
    name: &str,
    text: &Option<String>,
) -> Result<Option<T>, CliError> {
    match value {
        Some(value) => Ok(Some(value)),
        None => setting(name, text, T::from_str),
    }
}

/// What to replay.
fn replay(args: &ServeArgs, file: &ConfigFile) -> Result<Option<ReplayConfig>, CliError> {
    let speed_unit = or_file(args.speed_unit, "speed_unit", &file.speed_unit)?;
    let of_file = file.speedup.map(|factor| speedup(&factor.to_string())).transpose();
    let of_file = of_file
        .map_err(|error| CliError::Usage(format!("configuration file, speedup: {error}")))?;
    let factor = args.speedup.or(of_file);
    match args.replay.clone().or_else(|| file.replay.clone()) {
        Some(file) => Ok(Some(ReplayConfig {
            file,
            speedup: factor,
            speed_unit: speed_unit.unwrap_or_default(),
        })),
        None if factor.is_some() || speed_unit.is_some() => {
            Err(CliError::Usage("--speedup and --speed-unit go with --replay FILE".to_owned()))
        }
        None => Ok(None),
    }
}

/// The limits of the file with those of `--limit` on top.
fn limits(pairs: &[String], mut table: toml::Table) -> Result<ServerLimits, CliError> {
    for pair in pairs {
        let (name, value) = limit_pair(pair).map_err(CliError::Usage)?;
        table.insert(name, toml::Value::Integer(value));
    }
    ServerLimits::deserialize(table)
        .map_err(|error| CliError::Usage(format!("limits: {}", error.to_string().trim_end())))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn config(file: &str, flags: &[&str]) -> Result<ServeConfig, CliError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shoal.toml");
        fs::write(&path, file).unwrap();
        let mut line = vec!["shoal", "serve", "--config", path.to_str().unwrap()];
        line.extend(flags);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Serve(args) => ServeConfig::new(&args),
            _ => unreachable!("the line says serve"),
        }
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let file =
            "listen = '127.0.0.1:1'\nttl = '5m'\n[limits]\nfleets_max = 7\nstreams_max = 9\n";
        let of_file = config(file, &[]).unwrap().options;
        assert_eq!(of_file.listen.port(), 1);
        assert_eq!(of_file.default_ttl_ms, Some(300_000));
        assert_eq!((of_file.limits.fleets_max, of_file.limits.streams_max), (7, 9));
        let flags = ["--listen", "127.0.0.1:2", "--ttl", "0", "--limit", "fleets_max=8"];
        let of_flag = config(file, &flags).unwrap().options;
        assert_eq!(of_flag.listen.port(), 2);
        assert_eq!(of_flag.default_ttl_ms, None);
        assert_eq!((of_flag.limits.fleets_max, of_flag.limits.streams_max), (8, 9));
        let memory = "gpu_fleet_memory = '2GiB'";
        assert_eq!(config(memory, &[]).unwrap().options.gpu_fleet_memory_bytes, Some(2 << 30));
        let flags = ["--gpu-fleet-memory", "512MiB"];
        let of_flag = config(memory, &flags).unwrap().options;
        assert_eq!(of_flag.gpu_fleet_memory_bytes, Some(512 << 20));
        let default = config("", &[]).unwrap();
        assert_eq!(default.options.gpu_fleet_memory_bytes, None);
        assert_eq!(default.options.listen.to_string(), LISTEN_DEFAULT);
        assert_eq!(default.options.default_clock, Clock::System);
        assert_eq!(default.options.limits, ServerLimits::default());
    }

    #[test]
    fn keys_and_values_that_cannot_be_are_named() {
        for (file, named) in [
            ("lissten = '127.0.0.1:1'", "lissten"),
            ("[limits]\nfleet_max = 1", "fleet_max"),
            ("[limits]\nfleets_max = 0", "fleets_max"),
            ("listen = 'here'", "listen"),
            ("space = 'flat'", "space"),
            ("clock = 'sun'", "clock"),
            ("ttl = '5'", "ttl"),
            ("engine = 'fpga'", "fpga"),
            ("gpu_fleet_memory = 'much'", "gpu_fleet_memory"),
            ("gpu_fleet_memory = '0GiB'", "gpu_fleet_memory"),
            ("listen = '0.0.0.0:1'", "--insecure"),
            ("speedup = 5.0", "--replay"),
            ("replay = 'a.csv'\nspeedup = -5.0", "speedup"),
            ("log = 'x=y=z'", "log"),
        ] {
            let error = config(file, &[]).unwrap_err().to_string();
            assert!(error.contains(named), "{file}: {error}");
        }
        let error = config("", &["--limit", "fleet_max=3"]).unwrap_err().to_string();
        assert!(error.contains("fleet_max"), "{error}");
    }

    #[test]
    fn a_replay_runs_on_the_event_clock_unless_told_otherwise() {
        let replay = config("replay = 'day.csv'", &[]).unwrap();
        assert_eq!(replay.options.default_clock, Clock::Event);
        assert_eq!(replay.replay.unwrap().speedup, None);
        let told = config("replay = 'day.csv'\nclock = 'system'", &[]).unwrap();
        assert_eq!(told.options.default_clock, Clock::System);
    }
}
