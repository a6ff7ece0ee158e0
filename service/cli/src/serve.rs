//! `shoal serve`: the settings of a server, and its life from binding to the last signal.
//!
//! A setting is one field of [`Settings`], which defines its flag, environment variable, key in the
//! configuration file and help. The first line on standard output is `listening on ADDR:PORT`, as
//! soon as the fleets are recovered and calls are accepted; scripts wait for it. Everything else on
//! standard output comes from a replay. Logs go to standard error.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use shoal_client::ConnectOptions;
use shoal_codec::Aim;
use shoal_engine::{Clock, Space};
use shoal_service::access::Access;
use shoal_service::http::{AllowedOrigin, MapTiles};
use shoal_service::limits::ListedLimit;
use shoal_service::server::{self, Environment};
use shoal_service::{EngineChoice, Listeners, ServerLimits};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};

use super::error::{CliError, Exit};
use super::values::{bytes, span};
use crate::config::ServeConfig;
use crate::input::InputArgs;
use crate::logs::{self, LogFormat};
use crate::output::stdout;
use crate::replay::{Addresses, Replayer};
use crate::stop_signal::stop_signal;

/// Connections that the system keeps until they are accepted, within its own limit: after a restart
/// many vehicles connect at once.
const WAITING_CONNECTIONS: u32 = 4096;
/// Flag that lists the limits.
const LIMITS: &str = "limits";

/// Settings of a server. A key of the configuration file is the name of a field.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(after_help = "\
Precedence: flag, environment variable, configuration file, default. The file is TOML; its keys \
are the names of the flags with _ for -, and a table [limits]. An unknown key is an error.")]
pub struct Settings {
    /// Address to listen on; port 0 picks one [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDR:PORT", env = "SHOAL_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Serve Prometheus /metrics and /healthz on this address [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", env = "SHOAL_METRICS_LISTEN")]
    pub metrics_listen: Option<SocketAddr>,
    /// Serve HTTP on this address: a JSON API, events and gRPC-Web; see docs/http.md [default:
    /// nowhere; with --replay on loopback, the port after that of --listen]
    #[arg(long, value_name = "ADDR:PORT", env = "SHOAL_HTTP_LISTEN")]
    pub http_listen: Option<SocketAddr>,
    /// Let web pages of these origins, as in https://HOST, call over HTTP; * lets all;
    /// may be repeated [default: only pages of the HTTP address itself]
    #[arg(long, value_name = "ORIGIN", env = "SHOAL_HTTP_ALLOW_ORIGIN", value_delimiter = ',')]
    pub http_allow_origin: Vec<AllowedOrigin>,
    /// Tiles below the objects of the map: FILE.pmtiles, or a URL of such a file or with {z}, {x}
    /// and {y} [default: coastlines and borders]
    #[arg(long, value_name = "FILE|URL", env = "SHOAL_MAP_TILES")]
    pub map_tiles: Option<MapTiles>,
    /// Engine of all fleets: auto, cpu or cuda [default: auto]
    #[arg(long, value_name = "ENGINE", env = "SHOAL_ENGINE")]
    pub engine: Option<EngineChoice>,
    /// Memory of the GPU that each fleet may take, as in 4GiB; all fleets together take at most
    /// 90 % of the card [default: as much as is left of that]
    #[arg(long, value_name = "BYTES", env = "SHOAL_GPU_FLEET_MEMORY", value_parser = bytes)]
    pub gpu_fleet_memory: Option<u64>,
    /// Objects of the fleet default have names instead of numbers [default: false]
    #[arg(long, env = "SHOAL_NAMED", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub named: Option<bool>,
    /// Space of the fleet default: geographic, planar:WIDTHxHEIGHT or planar:WIDTHxHEIGHT:QUANTUM
    /// in metres [default: geographic]
    #[arg(long, value_name = "SPACE", env = "SHOAL_SPACE")]
    pub space: Option<Space>,
    /// Clock of the fleet default: system, or event (the largest event time) [default: system,
    /// with --replay event]
    #[arg(long, value_name = "CLOCK", env = "SHOAL_CLOCK", value_parser = clock)]
    pub clock: Option<Clock>,
    /// Remove objects of the fleet default after this time without a report, as in 10m; 0 keeps
    /// them [default: 0]
    #[arg(long, value_name = "TIME", env = "SHOAL_TTL", value_parser = span)]
    pub ttl: Option<Duration>,
    /// How far the event clock of the fleet default may be ahead of a time that a second client
    /// confirms, as in 5s [default: 1s, with --replay 1m, or a tenth of --ttl if that is less]
    #[arg(long, value_name = "TIME", env = "SHOAL_EVENT_CLOCK_LEAD", value_parser = span)]
    pub event_clock_lead: Option<Duration>,
    /// Refuse event times further ahead of this machine's clock [default: 60s]
    #[arg(long, value_name = "TIME", env = "SHOAL_TIME_AHEAD", value_parser = span)]
    pub time_ahead: Option<Duration>,
    /// Serve gRPC and HTTP through TLS, with the certificate chain (PEM) in this file; needs
    /// --tls-key. Files of certificates, tokens and keys are read again when they change [default:
    /// plain]
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// The private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate that one of the authorities (PEM) in this file has
    /// signed; needs --tls-cert [default: accept all]
    #[arg(long, value_name = "FILE", env = "SHOAL_TLS_CLIENT_CA")]
    pub tls_client_ca: Option<PathBuf>,
    /// Accept only calls with a token: one that this file (TOML) lists; `shoal token new` makes
    /// them [default: accept all]
    #[arg(long, value_name = "FILE", env = "SHOAL_TOKENS")]
    pub tokens: Option<PathBuf>,
    /// Accept only calls with a token: a JWT that a key of this file (TOML) has signed [default:
    /// accept all]
    #[arg(long, value_name = "FILE", env = "SHOAL_JWT_KEYS")]
    pub jwt_keys: Option<PathBuf>,
    /// Write who did or tried what as JSON lines to this file: calls that need the right admin,
    /// and calls that were refused [default: to the log]
    #[arg(long, value_name = "FILE", env = "SHOAL_AUDIT_LOG")]
    pub audit_log: Option<PathBuf>,
    /// Describe the services by gRPC reflection [default: true]
    #[arg(long, env = "SHOAL_REFLECTION", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub reflection: Option<bool>,
    /// Allow addresses that other machines can reach without TLS and tokens
    #[arg(long, env = "SHOAL_INSECURE", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub insecure: Option<bool>,
    /// Keep the fleets in this folder, across restarts and crashes. A fleet takes 256 KiB or more,
    /// and 256 MiB of the disk stay free (limit log_reserve_bytes)
    /// [default: a restart loses them]
    #[arg(long, value_name = "DIR", env = "SHOAL_DATA")]
    pub data: Option<PathBuf>,
    /// Keep where the objects were, for queries over time; needs --data [default: false]
    #[arg(long, env = "SHOAL_HISTORY", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub history: Option<bool>,
    /// Drop the past of objects that is older than this, as in 30d; needs --history [default: keep
    /// it]
    #[arg(long, value_name = "TIME", env = "SHOAL_HISTORY_RETENTION", value_parser = span)]
    pub history_retention: Option<Duration>,
    /// Drop the oldest past of a fleet beyond this size, as in 500GiB; needs --history [default:
    /// keep it]
    #[arg(long, value_name = "BYTES", env = "SHOAL_HISTORY_BYTES", value_parser = bytes)]
    pub history_bytes: Option<u64>,
    /// Memory for the parts of the history that queries read often, of all fleets together, as in
    /// 4GiB; needs --history [default: an eighth of the machine's memory]
    #[arg(long, value_name = "BYTES", env = "SHOAL_HISTORY_MEMORY", value_parser = bytes)]
    pub history_memory: Option<u64>,
    /// Memory of the GPU for the history, where queries search what they use often, as in 8GiB;
    /// needs --history [default: a tenth of what fleets may take]
    #[arg(long, value_name = "BYTES", env = "SHOAL_GPU_HISTORY_MEMORY", value_parser = bytes)]
    pub gpu_history_memory: Option<u64>,
    /// Copy the fleets of the leader at this address, through TLS with https:// before it, and
    /// answer queries from the copy; needs --data and --replication-secret. `shoal promote` makes
    /// this server the leader [default: follow none]
    #[arg(long, value_name = "ADDR:PORT", env = "SHOAL_FOLLOW")]
    pub follow: Option<String>,
    /// File with the token for the leader, which needs the right admin on all fleets; also for the
    /// former leader after a promotion [default: none]
    #[arg(long, value_name = "FILE", env = "SHOAL_FOLLOW_TOKEN_FILE")]
    pub follow_token_file: Option<PathBuf>,
    /// File with the certificates (PEM) to trust when the leader answers through TLS [default:
    /// those of the system]
    #[arg(long, value_name = "FILE", env = "SHOAL_FOLLOW_TLS_CA")]
    pub follow_tls_ca: Option<PathBuf>,
    /// File with a secret of 16 characters or more that leader, followers and operators share;
    /// without it nobody copies, promotes or fences this server [default: none]
    #[arg(long, value_name = "FILE", env = "SHOAL_REPLICATION_SECRET")]
    pub replication_secret: Option<PathBuf>,
    /// Aim of the log's encoding of plain rows: fast; balanced, which saves 11 to 21 % of their
    /// bytes and takes 1.2 to 4 times as long; or small, fewer bytes still. Blocks are logged as
    /// sent [default: fast]
    #[arg(long, value_name = "AIM", env = "SHOAL_LOG_AIM")]
    pub log_aim: Option<Aim>,
    /// Threads of the network side, 0 for one per core [default: 0]
    #[arg(long, value_name = "N", env = "SHOAL_THREADS")]
    pub threads: Option<usize>,
    /// Set a limit, as in queue_rows_max=500000; may be repeated. `shoal serve --limits` lists all
    #[arg(long, value_name = "NAME=VALUE", env = "SHOAL_LIMIT", value_delimiter = ',',
          value_parser = limit)]
    pub limit: Vec<(String, i64)>,
    /// Read settings from this file
    #[arg(long, value_name = "FILE", env = "SHOAL_CONFIG")]
    pub config: Option<PathBuf>,
    /// Play this file, as of `shoal report`, into the fleet default in the order of its times, then
    /// keep serving
    #[arg(long, value_name = "FILE", env = "SHOAL_REPLAY")]
    pub replay: Option<PathBuf>,
    /// Event time over real time [default: chosen so that the file takes about a minute]
    #[arg(long, value_name = "N", env = "SHOAL_SPEEDUP", value_parser = speedup)]
    pub speedup: Option<f64>,
    /// Log filter, as in info or shoal_service=debug,warn [default: info]
    #[arg(long, value_name = "FILTER", env = "SHOAL_LOG")]
    pub log: Option<String>,
    /// Format of log lines: text or json [default: text]
    #[arg(long, value_name = "FORMAT", env = "SHOAL_LOG_FORMAT", hide_possible_values = true)]
    pub log_format: Option<LogFormat>,
    /// How the file of `--replay` is read.
    // Last, because its heading applies to all flags that follow.
    #[command(flatten)]
    pub input: InputArgs,
}

/// Flags and environment of `shoal serve`, to be applied on top of the configuration file.
#[derive(Clone, Debug)]
pub struct ServeArgs(pub(crate) ArgMatches);

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let limits = Arg::new(LIMITS).long(LIMITS).action(ArgAction::SetTrue);
        let limits =
            limits.help("List the limits in effect with their ranges and meanings, and end");
        Settings::augment_args(command.arg(limits))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Settings::augment_args_for_update(command)
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

/// `system` or `event`.
///
/// # Errors
/// Any other text.
pub fn clock(text: &str) -> Result<Clock, String> {
    match text {
        "system" => Ok(Clock::System),
        "event" => Ok(Clock::Event),
        _ => Err(format!("clock `{text}` is neither system nor event")),
    }
}

/// A finite factor above 0.
fn speedup(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(factor),
        _ => Err(format!("`{text}` is not a number above 0")),
    }
}

/// Name and value of `NAME=VALUE`.
fn limit(text: &str) -> Result<(String, i64), String> {
    let pair = text.split_once('=').and_then(|(name, value)| {
        let value = value.trim().parse().ok().filter(|value| *value >= 0)?;
        Some((name.trim().to_owned(), value))
    });
    pair.ok_or_else(|| format!("`{text}` is not NAME=VALUE with a whole number of 0 or more"))
}

/// Writes the limits in effect.
fn list_limits(limits: &ServerLimits) -> Result<Exit, CliError> {
    let mut out = stdout();
    for ListedLimit { name, value, range, meaning } in limits.list() {
        let (least, most) = range.into_inner();
        // Links of the documentation are plain text here.
        let meaning = meaning.trim().replace("[`", "").replace("`]", "").replace('`', "");
        writeln!(out, "{name} = {value}  ({least} to {most})\n    {meaning}")?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// An invalid setting, an address that cannot be bound, a failure of the server.
pub fn run(args: &ServeArgs) -> Result<Exit, CliError> {
    let config = ServeConfig::new(args)?;
    if args.0.get_flag(LIMITS) {
        return list_limits(&config.options.limits);
    }
    logs::install(config.log_format, &config.log)?;
    config.log_effective();
    let mut builder = Builder::new_multi_thread();
    if config.options.threads > 0 {
        builder.worker_threads(config.options.threads);
    }
    let runtime = builder.enable_all().build().map_err(CliError::local("starting threads"))?;
    runtime.block_on(serve(config))?;
    Ok(Exit::Done)
}

async fn serve(config: ServeConfig) -> Result<(), CliError> {
    let ServeConfig { options, replay, is_http_optional, .. } = config;
    let replay = replay.map(Replayer::open).transpose()?;
    let stop = stop_signal()?;
    let listener = bind(options.listen)?;
    let metrics = bind_optional("metrics", options.metrics_listen)?;
    let http = match bind_optional("http", options.http_listen) {
        Err(error) if is_http_optional => {
            tracing::warn!(%error, "HTTP is not served");
            None
        }
        bound => bound?,
    };
    let http_address = http.as_ref().and_then(|listener| listener.local_addr().ok());
    let address =
        listener.local_addr().map_err(CliError::local("reading the listener's address"))?;
    let listeners = Listeners { clients: listener, metrics, http };
    let (sender, stopped) = watch::channel(false);
    let ready = Arc::new(Notify::new());
    let engines = options.engine.factory(options.gpu_fleet_memory_bytes);
    let access = Access::open(options.access.clone())?;
    let token = access.is_enforced().then(|| access.process_token().clone());
    let own = ConnectOptions { token, ..ConnectOptions::default() };
    let environment = Environment {
        ready: Some(ready.clone()),
        access: Some(access),
        ..Environment::new(engines)
    };
    let started = async move {
        ready.notified().await;
        logs::say(&format!("listening on {address}"));
        if let Some(replay) = replay {
            // A command without a token would be refused.
            let http_address = http_address.filter(|_| own.token.is_none());
            let addresses = Addresses { grpc: address, http: http_address };
            replay.run(addresses, own, stopped).await;
        }
        std::future::pending::<Infallible>().await
    };
    let shutdown = async move {
        stop.await;
        tracing::info!("stopping; a second signal ends the process at once");
        // An error means that there is no replay.
        let _ = sender.send(true);
    };
    tokio::select! {
        served = server::run_in(environment, listeners, options, shutdown) => Ok(served?),
        never = started => match never {},
    }
}

/// Binds an address, if given, and logs the bound address under `name`.
fn bind_optional(name: &str, address: Option<SocketAddr>) -> Result<Option<TcpListener>, CliError> {
    let Some(address) = address else { return Ok(None) };
    let listener = bind(address)?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "{name}");
    }
    Ok(Some(listener))
}

/// Binds an address. At most [`WAITING_CONNECTIONS`] wait to be accepted.
fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    let bind = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // As `TcpListener::bind`: a new server takes the address while connections of the one
        // before end. On Windows the option would share the address of a running server.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(WAITING_CONNECTIONS)
    };
    bind().map_err(CliError::local(format!("cannot listen on {address}")))
}
