//! The effective configuration of a server: flags and environment, then the configuration file,
//! then defaults.
//!
//! The keys of the file are the fields of [`Settings`]. clap parses its values as it parses flags.
//! The result is validated once and logged; nothing reads a setting anywhere else.

use std::error::Error as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::input::InputArgs;
use clap::builder::Resettable;
use clap::{Args as _, Command, FromArgMatches as _};
use serde::Deserialize as _;
use shoal_client::Secret;
use shoal_engine::Clock;
use shoal_service::ServiceError;
use shoal_service::access::AccessOptions;
use shoal_service::cycle::{FleetKind, event_clock_lead_ms};
use shoal_service::file_watch::without_mark;
use shoal_service::follower::LeaderLink;
use shoal_service::limits::REPLICATION_SECRET_BYTES_MIN;
use shoal_service::persistence::HistoryKeep;
use shoal_service::tls::TlsOptions;
use shoal_service::{ServerLimits, ServerOptions};

use crate::error::CliError;
use crate::logs::{self, LogFormat};
use crate::serve::{ServeArgs, Settings};
use crate::values::millis;

/// Default address of a server, as text.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7117";
/// Default log filter.
const LOG_DEFAULT: &str = "info";
/// Settings that only flags and environment have.
const NOT_IN_FILE: [&str; 2] = ["config", "limit"];

/// A recorded day to be played into the fleet `default`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayConfig {
    /// A file as of `shoal report`.
    pub file: PathBuf,
    /// Event time over real time; `None` makes the file take about a minute.
    pub speedup: Option<f64>,
    /// How the file is read.
    pub input: InputArgs,
}

/// The effective configuration of `shoal serve`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Options of the server.
    pub options: ServerOptions,
    /// The file to play, if any.
    pub replay: Option<ReplayConfig>,
    /// Whether nobody asked for HTTP, so that the server starts without it if its port is taken.
    pub is_http_optional: bool,
    /// Log filter.
    pub log: String,
    /// Format of log lines.
    pub log_format: LogFormat,
}

impl ServeConfig {
    /// Merges flags, environment and the file that they name.
    ///
    /// # Errors
    /// [`CliError::Usage`] and [`CliError::Input`] name the setting that is invalid.
    pub fn new(args: &ServeArgs) -> Result<Self, CliError> {
        let file = args.0.get_one::<PathBuf>("config").map(|file| read(file)).transpose()?;
        let (mut settings, limits) = file.unwrap_or_default();
        let merged = settings.update_from_arg_matches(&args.0);
        merged.map_err(|error| CliError::Usage(error.to_string()))?;
        let replay = replay(&settings)?;
        let clock_default = if replay.is_some() { Clock::Event } else { Clock::System };
        let default = ServerOptions::default();
        let time_ahead_max_ms = settings.time_ahead.map_or(default.time_ahead_max_ms, millis);
        let history = history_keep(&settings)?;
        let default_ttl_ms = settings.ttl.map(millis).filter(|ttl_ms| *ttl_ms > 0);
        let lead_ms = settings.event_clock_lead.map(millis);
        // In a replay that is faster than real time, the event times of successive cycles are
        // further apart than the usual lead.
        let lead_default_ms = replay.is_some().then(|| event_clock_lead_ms(60_000, default_ttl_ms));
        let tls = tls_options(&settings)?;
        let leader_link = leader_link(&settings, tls.as_ref())?;
        let listen = settings.listen.unwrap_or(default.listen);
        let http_default = replay.as_ref().and_then(|_| http_beside(listen));
        let is_http_optional = settings.http_listen.is_none();
        let options = ServerOptions {
            listen,
            metrics_listen: settings.metrics_listen,
            http_listen: settings.http_listen.or(http_default),
            http_allow_origin: settings.http_allow_origin,
            map_tiles: settings.map_tiles,
            engine: settings.engine.unwrap_or_default(),
            gpu_fleet_memory_bytes: settings.gpu_fleet_memory,
            history_memory_bytes: settings.history_memory,
            gpu_history_memory_bytes: settings.gpu_history_memory,
            default_kind: named(settings.named.unwrap_or_default()),
            default_space: settings.space.unwrap_or(default.default_space),
            default_clock: settings.clock.unwrap_or(clock_default),
            default_ttl_ms,
            default_event_clock_lead_ms: lead_ms.or(lead_default_ms),
            insecure: settings.insecure.unwrap_or(default.insecure),
            tls,
            access: AccessOptions {
                tokens: settings.tokens,
                jwt_keys: settings.jwt_keys,
                audit_log: settings.audit_log,
            },
            reflection: settings.reflection.unwrap_or(default.reflection),
            time_ahead_max_ms,
            threads: settings.threads.unwrap_or(default.threads),
            data: settings.data,
            history,
            follow: settings.follow,
            leader_link,
            log_aim: settings.log_aim.unwrap_or(default.log_aim),
            limits: merge_limits(limits, settings.limit)?,
        };
        if replay.is_some() && options.tls.is_some() {
            // The replay connects to its own server by an address that certificates do not contain.
            return Err(CliError::Usage("--replay cannot be combined with --tls-cert".to_owned()));
        }
        options.check().map_err(|error| CliError::Usage(error.to_string()))?;
        let log = settings.log.unwrap_or_else(|| LOG_DEFAULT.to_owned());
        logs::check(&log)?;
        let log_format = settings.log_format.unwrap_or_default();
        Ok(Self { options, replay, is_http_optional, log, log_format })
    }

    /// Logs the configuration, each value under its name.
    pub fn log_effective(&self) {
        let options = &self.options;
        tracing::info!(
            listen = %options.listen,
            metrics_listen = ?options.metrics_listen,
            http_listen = ?options.http_listen,
            http_allow_origin = ?options.http_allow_origin,
            map_tiles = options.map_tiles.as_ref().map(tracing::field::display),
            engine = options.engine.engine_name(),
            gpu_fleet_memory_bytes = ?options.gpu_fleet_memory_bytes,
            history_memory_bytes = ?options.history_memory_bytes,
            gpu_history_memory_bytes = ?options.gpu_history_memory_bytes,
            kind = ?options.default_kind,
            space = %options.default_space,
            clock = ?options.default_clock,
            ttl_ms = ?options.default_ttl_ms,
            event_clock_lead_ms = ?options.default_event_clock_lead_ms,
            time_ahead_max_ms = options.time_ahead_max_ms,
            insecure = options.insecure,
            tls = ?options.tls,
            access = ?options.access,
            reflection = options.reflection,
            threads = options.threads,
            data = ?options.data,
            history = ?options.history,
            follow = ?options.follow,
            leader_link = ?options.leader_link,
            log_aim = %options.log_aim,
            replay = ?self.replay,
            limits = ?options.limits,
            "configuration in effect"
        );
        if let (_, Some(cause)) = options.engine.resolve() {
            tracing::info!("--engine auto selects the cpu: {cause}");
        }
        if options.gpu_fleet_memory_bytes.is_some() && options.engine.engine_name() != "cuda" {
            tracing::warn!("--gpu-fleet-memory has no effect: fleets run on the cpu");
        }
        if options.gpu_history_memory_bytes.is_some() && options.engine.engine_name() != "cuda" {
            tracing::warn!("--gpu-history-memory has no effect: the cpu searches the history");
        }
        if options.insecure && !options.access.is_enforced() {
            tracing::warn!(
                "--insecure without tokens: every machine that reaches {} can read and write \
                 every position",
                options.listen
            );
        }
        if options.insecure && options.access.is_enforced() && options.tls.is_none() {
            tracing::warn!("--insecure without TLS: everyone on the way can read tokens");
        }
    }
}

/// Returns `Named` if objects have names, otherwise `Numeric`.
pub(crate) fn named(has_names: bool) -> FleetKind {
    if has_names { FleetKind::Named } else { FleetKind::Numeric }
}

/// The settings of a configuration file, and its table of limits.
fn read(file: &Path) -> Result<(Settings, toml::Table), CliError> {
    let invalid = |reason: String| CliError::Input { file: file.display().to_string(), reason };
    let text = fs::read_to_string(file).map_err(|error| invalid(error.to_string()))?;
    let table: Result<toml::Table, _> = toml::from_str(&without_mark(text));
    let mut table = table.map_err(|error| invalid(error.to_string().trim_end().to_owned()))?;
    let limits = match table.remove("limits") {
        Some(toml::Value::Table(limits)) => limits,
        Some(_) => return Err(invalid("limits: not a table".into())),
        None => toml::Table::new(),
    };
    let command = Settings::augment_args(Command::new("file").no_binary_name(true));
    // The environment has precedence over the file and is applied later.
    let command = command.mut_args(|arg| arg.env(Resettable::Reset));
    let mut settings = Settings::default();
    for (key, value) in table {
        let is_known = command.get_arguments().any(|arg| arg.get_id() == key.as_str());
        if !is_known || NOT_IN_FILE.contains(&key.as_str()) {
            return Err(invalid(format!("unknown key `{key}`")));
        }
        let value = match value {
            toml::Value::String(text) => text,
            value => value.to_string(),
        };
        let flag = format!("--{}={value}", key.replace('_', "-"));
        let parsed = command.clone().try_get_matches_from([flag]);
        let parsed = parsed.and_then(|matches| settings.update_from_arg_matches(&matches));
        parsed.map_err(|error| invalid(format!("{key}: {}", reason(&error))))?;
    }
    Ok((settings, limits))
}

/// Returns the reason why a value is invalid, without clap's mention of a flag.
fn reason(error: &clap::Error) -> String {
    match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Returns the file to play, if any; fails if another replay setting has no `--replay`.
fn replay(settings: &Settings) -> Result<Option<ReplayConfig>, CliError> {
    let (speedup, input) = (settings.speedup, settings.input.clone());
    match &settings.replay {
        Some(file) => Ok(Some(ReplayConfig { file: file.clone(), speedup, input })),
        None if speedup.is_some() || input != InputArgs::default() => {
            Err(CliError::Usage("--speedup and how a file is read need --replay FILE".to_owned()))
        }
        None => Ok(None),
    }
}

/// The address of HTTP beside that of gRPC, for trials on this machine: the next port.
fn http_beside(listen: SocketAddr) -> Option<SocketAddr> {
    let port = if listen.port() == 0 { 0 } else { listen.port().checked_add(1)? };
    listen.ip().is_loopback().then(|| SocketAddr::new(listen.ip(), port))
}

/// The certificates of the listener.
fn tls_options(settings: &Settings) -> Result<Option<TlsOptions>, CliError> {
    let client_ca = settings.tls_client_ca.clone();
    match (settings.tls_cert.clone(), settings.tls_key.clone()) {
        (Some(certificate), Some(key)) => Ok(Some(TlsOptions { certificate, key, client_ca })),
        (None, None) if client_ca.is_none() => Ok(None),
        _ => Err(CliError::Usage(
            "TLS needs both --tls-cert and --tls-key; --tls-client-ca needs them too".to_owned(),
        )),
    }
}

/// Credentials of this server for its leader. If the leader requires a client certificate, the
/// server presents its own.
fn leader_link(settings: &Settings, tls: Option<&TlsOptions>) -> Result<LeaderLink, CliError> {
    let replication_secret = settings.replication_secret.as_deref().map(replication_secret);
    Ok(LeaderLink {
        replication_secret: replication_secret.transpose()?,
        token_file: settings.follow_token_file.clone(),
        tls_ca: settings.follow_tls_ca.clone(),
        identity: tls.map(|tls| (tls.certificate.clone(), tls.key.clone())),
    })
}

/// Reads the replication secret from a file.
///
/// # Errors
/// [`CliError::Usage`] if the file does not hold a valid secret; the error does not quote it.
pub(crate) fn replication_secret(file: &Path) -> Result<Secret, CliError> {
    let secret = Secret::read(file).map_err(CliError::Usage)?;
    if secret.expose().len() < REPLICATION_SECRET_BYTES_MIN {
        return Err(CliError::Usage(format!(
            "{}: a replication secret has {REPLICATION_SECRET_BYTES_MIN} characters or more",
            file.display()
        )));
    }
    Ok(secret)
}

/// Returns the history options. Fails if `--history` has no `--data`, or another history setting
/// has no `--history`.
fn history_keep(settings: &Settings) -> Result<Option<HistoryKeep>, CliError> {
    let (age, bytes_max) = (settings.history_retention, settings.history_bytes);
    let memories = [settings.history_memory, settings.gpu_history_memory];
    let has_memory = memories.iter().any(Option::is_some);
    match (settings.history.unwrap_or_default(), &settings.data) {
        (true, Some(_)) => Ok(Some(HistoryKeep { age_ms: age.map(millis), bytes_max })),
        (true, None) => Err(CliError::Usage(ServiceError::HistoryFolder.to_string())),
        (false, _) if age.is_some() || bytes_max.is_some() || has_memory => Err(CliError::Usage(
            "--history-retention, --history-bytes, --history-memory and --gpu-history-memory need \
                 --history"
                .to_owned(),
        )),
        (false, _) => Ok(None),
    }
}

/// Merges the limits of the file with those of `--limit`, which take precedence.
fn merge_limits(
    mut table: toml::Table,
    pairs: Vec<(String, i64)>,
) -> Result<ServerLimits, CliError> {
    table.extend(pairs.into_iter().map(|(name, value)| (name, toml::Value::Integer(value))));
    ServerLimits::deserialize(table)
        .map_err(|error| CliError::Usage(format!("limits: {}", error.to_string().trim_end())))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{Cli, Command as Subcommand};

    fn parse(line: &[&str]) -> ServeArgs {
        let line = ["shoal", "serve"].iter().chain(line);
        match Cli::try_parse_from(line).unwrap().command {
            Subcommand::Serve(args) => *args,
            _ => unreachable!("the line says serve"),
        }
    }

    fn config(file: &str, flags: &[&str]) -> Result<ServeConfig, CliError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shoal.toml");
        fs::write(&path, file).unwrap();
        let line = [&["--config", path.to_str().unwrap()], flags].concat();
        ServeConfig::new(&parse(&line))
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
    fn invalid_keys_and_values_are_named() {
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
            ("history = true", "--data"),
            ("tls_cert = 'x'", "--tls-key"),
            ("tls_client_ca = 'x'", "--tls-cert"),
            ("listen = '0.0.0.0:1'\ntokens = 'x'", "--tls-cert"),
            ("listen = '0.0.0.0:1'\ntls_cert = 'x'\ntls_key = 'x'", "--tokens"),
            ("data = 'x'\nhistory_bytes = '1GiB'", "--history"),
            ("data = 'x'\nhistory_memory = '1GiB'", "--history"),
            ("data = 'x'\ngpu_history_memory = '1GiB'", "--history"),
        ] {
            let error = config(file, &[]).unwrap_err().to_string();
            assert!(error.contains(named), "{file}: {error}");
        }
        let error = config("", &["--limit", "fleet_max=3"]).unwrap_err().to_string();
        assert!(error.contains("fleet_max"), "{error}");
    }

    #[test]
    fn a_replay_runs_on_the_event_clock_by_default() {
        let replay = config("replay = 'day.csv'", &[]).unwrap();
        assert_eq!(replay.options.default_clock, Clock::Event);
        assert_eq!(replay.options.default_event_clock_lead_ms, Some(60_000));
        assert_eq!(replay.replay.unwrap().speedup, None);
        let chosen = config("replay = 'day.csv'\nclock = 'system'", &[]).unwrap();
        assert_eq!(chosen.options.default_clock, Clock::System);
    }

    /// Each setting of the file with a value, as TOML.
    const FILE: &str = "listen = '127.0.0.1:9'\nmetrics_listen = '127.0.0.1:8'\nengine = 'cpu'
        http_listen = '127.0.0.1:7'\nhttp_allow_origin = 'https://a.example,http://b.example:8'
        map_tiles = 'austin.pmtiles'
        gpu_fleet_memory = '2GiB'\nnamed = true\nspace = 'planar:10x20'\nclock = 'event'\nttl = '5m'
        event_clock_lead = '2s'
        time_ahead = '1s'\ninsecure = true\ntls_cert = 'cert.pem'\ntls_key = 'key.pem'
        tls_client_ca = 'ca.pem'\ntokens = 'tokens.toml'\njwt_keys = 'keys.toml'
        reflection = false\naudit_log = 'audit.jsonl'\nfollow_token_file = 'token'
        follow_tls_ca = 'leader.pem'\ndata = 'shoal-data'\nhistory = true
        history_retention = '7d'\nhistory_bytes = '4GiB'
        history_memory = '512MiB'\ngpu_history_memory = '1GiB'\nfollow = '127.0.0.1:7'\nreplication_secret = 'secret'
        log_aim = 'small'\nthreads = 3\nreplay = 'day.csv'\nspeedup = 2.5
        column = 'object=mmsi,lat=north'\ndelimiter = ';'\ntime_unit = 'us'
        time_format = '%s'\nobject = '7'\nname_prefix = 'bus-'\naltitude_unit = 'ft'\nstrict = true
        speed_unit = 'knots'\nlog = 'debug'\nlog_format = 'json'";

    #[test]
    fn every_setting_is_a_flag_a_variable_and_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shoal.toml");
        let lines: Vec<_> =
            FILE.lines().map(|line| line.trim().split_once(" = ").unwrap()).collect();
        let serve = Settings::augment_args(Command::new("serve"));
        for arg in serve.get_arguments() {
            let id = arg.get_id().as_str();
            let flag = id.replace('_', "-");
            assert_eq!(arg.get_long().unwrap(), flag);
            let variable = format!("SHOAL_{}", id.to_uppercase());
            assert_eq!(arg.get_env().unwrap().to_str().unwrap(), variable);
            assert!(arg.get_help().is_some(), "{id} has no help");
            if NOT_IN_FILE.contains(&id) {
                continue;
            }
            let line = lines.iter().find(|(key, _)| *key == id);
            let (_, value) = line.unwrap_or_else(|| panic!("FILE lacks {id}"));
            fs::write(&path, format!("{id} = {value}")).unwrap();
            let by_file = read(&path).unwrap().0;
            let flag = format!("--{flag}={}", value.trim_matches('\''));
            let mut by_flag = Settings::default();
            by_flag.update_from_arg_matches(&parse(&[&flag]).0).unwrap();
            assert_eq!(by_file, by_flag, "{id}");
            assert_ne!(by_file, Settings::default(), "{id}");
        }
    }
}
