//! Starts, runs and shuts down a server.
//!
//! The caller binds the listeners, so that a port of 0 is known before anything is served. `run`
//! returns when `shutdown` has completed and everything accepted is acknowledged, within 10 s even
//! if peers never read. It installs no signal handler and no logger.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use shoal_codec::Aim;
use shoal_engine::{Clock, EngineOptions, Space};
use shoal_proto::raw::position_service_server::PositionServiceServer;
use shoal_proto::raw::subscription_service_server::SubscriptionServiceServer;
use shoal_proto::v1::fleet_service_server::FleetServiceServer;
use shoal_proto::v1::history_service_server::HistoryServiceServer;
use shoal_proto::v1::log_service_server::LogServiceServer;
use shoal_proto::v1::query_service_server::QueryServiceServer;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::layer::util::{Identity, Stack};
use tracing::{info, warn};

use crate::connections::Connections;
use crate::engine_choice::{EngineChoice, EngineFactory};
use crate::error::ServiceError;
use crate::fleet::{DEFAULT, FleetName, FleetSpec, Registry, SinkFactory, WallClock};
use crate::follower::{Replication, claim_role};
use crate::limits::{
    CONNECTION_WINDOW_BYTES, ENGINE_END_MS_MAX, FRAME_BYTES_MAX, HEADER_BYTES_MAX,
    KEEPALIVE_INTERVAL_MS, KEEPALIVE_TIMEOUT_MS, MESSAGE_BYTES_MAX, SHUTDOWN_GRACE_MS,
    SMALL_MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES, ServerLimits,
};
use crate::metrics::Metrics;
use crate::monitoring::{Monitored, serve_http, watch_health};
use crate::persistence::{DataFolder, HistoryKeep};
use crate::rpc::{ErrorDetails, MessageBudget, ServiceContext};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address for clients. [`run`] takes bound listeners; this is the address they were bound to.
    pub listen: SocketAddr,
    /// Address of `/metrics` and `/healthz`.
    pub metrics_listen: Option<SocketAddr>,
    /// Engine of the fleets.
    pub engine: EngineChoice,
    /// Bytes of the device that each fleet may take, if the engine runs on one; `None` for as much
    /// as all fleets may take together.
    pub gpu_fleet_memory_bytes: Option<u64>,
    /// Bytes of the device that runs of histories may take; `None` for a tenth.
    pub gpu_history_memory_bytes: Option<u64>,
    /// Space of the fleet `default`.
    pub default_space: Space,
    /// Clock of the fleet `default`.
    pub default_clock: Clock,
    /// Time to live of the fleet `default`, milliseconds.
    pub default_ttl_ms: Option<i64>,
    /// Consent to listen where other machines can connect.
    pub insecure: bool,
    /// Event times further beyond the server's clock than this are refused, milliseconds.
    pub time_ahead_max_ms: i64,
    /// Threads of the engines' shared pool, and of the runtime that the caller builds for this
    /// server; 0 means one per core. The first server of a process decides.
    pub threads: usize,
    /// Folder that keeps the fleets across restarts; without one a restart loses them.
    pub data: Option<PathBuf>,
    /// Write the history of the fleets; needs a data folder.
    pub history: Option<HistoryKeep>,
    /// Address of the leader that this server follows; needs a data folder.
    pub follow: Option<String>,
    /// What the blocks of plain rows in the log aim at.
    pub log_aim: Aim,
    /// Bounds of queues, buffers and counts.
    pub limits: ServerLimits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            metrics_listen: None,
            engine: EngineChoice::Auto,
            gpu_fleet_memory_bytes: None,
            gpu_history_memory_bytes: None,
            default_space: Space::geographic(),
            default_clock: Clock::System,
            default_ttl_ms: None,
            insecure: false,
            time_ahead_max_ms: 60_000,
            threads: 0,
            data: None,
            history: None,
            follow: None,
            log_aim: Aim::Fast,
            limits: ServerLimits::default(),
        }
    }
}

impl ServerOptions {
    /// Confirms that a server can run with these options.
    ///
    /// # Errors
    /// [`ServiceError::Insecure`], [`ServiceError::EngineUnavailable`],
    /// [`ServiceError::LimitRange`].
    pub fn check(&self) -> Result<(), ServiceError> {
        self.engine.check()?;
        self.limits.check()?;
        check_exposure(self.listen, self.insecure)?;
        self.metrics_listen.map_or(Ok(()), |address| check_exposure(address, self.insecure))
    }
}

/// Refuses an address that other machines can reach, unless the user consented.
fn check_exposure(address: SocketAddr, insecure: bool) -> Result<(), ServiceError> {
    if insecure || address.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(ServiceError::Insecure { address })
    }
}

/// The parts of a server that tests replace.
#[derive(Clone, Debug)]
pub struct Environment {
    /// System clock.
    pub wall: WallClock,
    /// Starts the engines.
    pub engines: EngineFactory,
    /// Opens a sink for each engine without a log, if any.
    pub sinks: Option<SinkFactory>,
    /// Keeps the fleets in place of the folder of the options.
    pub data: Option<DataFolder>,
    /// Notified once the fleets are recovered and calls are accepted.
    pub ready: Option<Arc<Notify>>,
}

impl Environment {
    /// The system clock, engines of a factory, no sinks.
    #[must_use]
    pub fn new(engines: EngineFactory) -> Self {
        Self { wall: WallClock::system(), engines, sinks: None, data: None, ready: None }
    }
}

/// Serves until `shutdown` completes.
///
/// # Errors
/// Those of [`ServerOptions::check`] (also for the addresses that the listeners are really bound
/// to), [`ServiceError::Io`], [`ServiceError::Transport`], [`ServiceError::DurabilityLost`].
pub async fn run(
    listener: TcpListener,
    metrics_listener: Option<TcpListener>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let engines = options.engine.factory(options.gpu_fleet_memory_bytes);
    run_in(Environment::new(engines), listener, metrics_listener, options, shutdown).await
}

/// As [`run`], in an environment.
///
/// # Errors
/// Those of [`run`].
pub async fn run_in(
    environment: Environment,
    listener: TcpListener,
    metrics_listener: Option<TcpListener>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    options.check()?;
    for listener in [Some(&listener), metrics_listener.as_ref()].into_iter().flatten() {
        check_exposure(local_address(listener)?, options.insecure)?;
    }
    EngineChoice::build_pool(options.threads);
    let metrics = Arc::new(Metrics::default());
    let ready = environment.ready.clone();
    let registry = open_registry(environment, &options, metrics.clone())?;
    let (stop, stopping) = watch::channel(false);
    let monitored = Monitored { registry: registry.clone(), metrics, stopping };
    let mut tasks = JoinSet::new();
    if let Some(listener) = metrics_listener {
        tasks.spawn(serve_http(listener, monitored.clone()));
    }
    let (health, health_service) = tonic_health::server::health_reporter();
    tasks.spawn(watch_health(health, monitored.clone()));
    let replication = Replication::new(registry.clone());
    let address = local_address(&listener)?;
    let context = ServiceContext::new(
        registry.clone(),
        replication.clone(),
        options.limits.clone(),
        monitored.metrics.clone(),
        monitored.stopping.clone(),
    );
    let routes = add_routes(Routes::new(health_service), context)?;
    let has_data = registry.has_data();
    if !has_data {
        open_fleets((&registry, &replication), address, &options, ready.as_deref()).await?;
    }
    // While fleets are recovered, health is served and calls fail with the reason.
    let recovering = async {
        if has_data {
            let opened =
                open_fleets((&registry, &replication), address, &options, ready.as_deref());
            if let Err(error) = opened.await {
                return error;
            }
        }
        std::future::pending().await
    };
    let served = serve(listener, &options.limits, monitored, routes, &stop, shutdown);
    let served = tokio::select! {
        served = served => served,
        // Ends only with an error; the fleets that were recovered are closed below.
        error = recovering => Err(error),
    };
    replication.stop().await;
    let end = Duration::from_millis(ENGINE_END_MS_MAX);
    if tokio::time::timeout(end, registry.shut_down()).await.is_err() {
        warn!("an engine did not finish its cycle in time; the server stops without it");
    }
    info!("the server has stopped");
    served.and(registry.check_durable())
}

fn open_registry(
    environment: Environment,
    options: &ServerOptions,
    metrics: Arc<Metrics>,
) -> Result<Arc<Registry>, ServiceError> {
    let Environment { wall, engines, sinks, data, .. } = environment;
    let (limits, ahead_ms) = (options.limits.clone(), options.time_ahead_max_ms);
    let data = match (data, &options.data) {
        (None, Some(folder)) => Some(DataFolder::open(folder)?),
        (data, _) => data,
    };
    if options.history.is_some() && data.is_none() {
        return Err(ServiceError::HistoryFolder);
    }
    claim_role(data.as_ref(), options.follow.as_deref())?;
    let leader = options.follow.as_deref().map(Arc::from);
    let (choice, memory_bytes) = (options.engine, options.gpu_history_memory_bytes);
    let history_device = options.history.and_then(|_| choice.history_device(memory_bytes));
    let engines = EngineFactory { log_aim: options.log_aim, history_device, ..engines };
    let registry = Registry::new(engines, sinks, data, limits, wall, ahead_ms, metrics);
    Ok(Arc::new(registry.following(leader).keeping_history(options.history)))
}

/// Recovers the fleets and creates `default` if it is missing; then calls are accepted.
async fn open_fleets(
    (registry, replication): (&Registry, &Arc<Replication>),
    address: SocketAddr,
    options: &ServerOptions,
    ready: Option<&Notify>,
) -> Result<(), ServiceError> {
    registry.recover().await?;
    replication.start(address);
    if registry.leader().is_some() {
        replication.first_copies().await;
    } else {
        open_default(registry, options).await?;
    }
    registry.set_ready();
    if let Some(ready) = ready {
        ready.notify_one();
    }
    Ok(())
}

async fn open_default(registry: &Registry, options: &ServerOptions) -> Result<(), ServiceError> {
    let name = FleetName::new("name", DEFAULT)?;
    if let Some(kept) = registry.list().iter().find(|fleet| *fleet.name() == name) {
        warn_of_ignored_settings(kept.options(), options);
        return Ok(());
    }
    let spec = FleetSpec {
        space: options.default_space,
        clock: options.default_clock,
        ttl_ms: options.default_ttl_ms,
        objects_max: options.limits.fleet_objects_max,
        durability: None,
    };
    match registry.create(name, spec).await {
        // A client created it in the meantime.
        Ok(_) | Err(ServiceError::FleetExists(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The fleet `default` of a data folder keeps the properties with which it was created.
fn warn_of_ignored_settings(kept: &EngineOptions, options: &ServerOptions) {
    for (setting, is_same) in [
        ("--space", kept.space == options.default_space),
        ("--clock", kept.clock == options.default_clock),
        ("--ttl", kept.ttl_ms == options.default_ttl_ms),
    ] {
        if !is_same {
            warn!("{setting} has no effect: the data folder has a fleet default already");
        }
    }
}

/// Serves gRPC. After `shutdown` calls have a grace period to end; then their connections are cut.
async fn serve(
    listener: TcpListener,
    limits: &ServerLimits,
    monitored: Monitored,
    routes: Routes,
    stop: &watch::Sender<bool>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let (cut_sender, cut) = watch::channel(false);
    let gauge = monitored.metrics.connections.clone();
    let connections = Connections::new(listener, limits.connections_max, gauge, cut);
    let mut stopping = monitored.stopping.clone();
    let stopped = async move {
        // An error means that the server has stopped.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let mut server = transport(limits, &monitored.metrics);
    let serving = server.add_routes(routes).serve_with_incoming_shutdown(connections, stopped);
    let mut serving = pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        () = shutdown => {}
    }
    info!("shutting down");
    stop.send_replace(true);
    let grace = Duration::from_millis(SHUTDOWN_GRACE_MS);
    let ended = tokio::time::timeout(grace, &mut serving).await;
    cut_sender.send_replace(true);
    match ended {
        Ok(ended) => Ok(ended?),
        Err(_) => {
            warn!("cut the connections that peers kept open after the grace period");
            Ok(())
        }
    }
}

/// Layers of every call, the outermost last.
type Layers = Stack<MessageBudget, Stack<ErrorDetails, Identity>>;

/// HTTP/2 with bounds for every window, count and wait.
fn transport(limits: &ServerLimits, metrics: &Metrics) -> Server<Layers> {
    let budget =
        MessageBudget::new(limits.message_bytes_in_flight_max, metrics.message_bytes.clone());
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.connection_calls_max)
        .max_frame_size(FRAME_BYTES_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(Duration::from_millis(KEEPALIVE_INTERVAL_MS)))
        .http2_keepalive_timeout(Some(Duration::from_millis(KEEPALIVE_TIMEOUT_MS)))
        .layer(ErrorDetails)
        .layer(budget)
}

fn add_routes(routes: Routes, context: ServiceContext) -> Result<Routes, ServiceError> {
    let small = SMALL_MESSAGE_BYTES_MAX;
    let positions = PositionServiceServer::new(context.clone());
    let fleets = FleetServiceServer::new(context.clone());
    let queries = QueryServiceServer::new(context.clone());
    let logs = LogServiceServer::new(context.clone());
    let histories = HistoryServiceServer::new(context.clone());
    let subscriptions = SubscriptionServiceServer::new(context);
    // The router prefers this path to that of the service: only reports may be large.
    let removals = positions.clone().max_decoding_message_size(small);
    let remove = "/shoal.v1.PositionService/Remove";
    let routes = Routes::from(routes.into_axum_router().route_service(remove, removals));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(shoal_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |error| ServiceError::Io {
        what: "reading the descriptors for reflection".into(),
        source: io::Error::other(error),
    };
    Ok(routes
        .add_service(positions.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(subscriptions.max_decoding_message_size(small))
        .add_service(fleets.max_decoding_message_size(small))
        .add_service(histories.max_decoding_message_size(small))
        .add_service(logs.max_decoding_message_size(small))
        .add_service(queries.max_decoding_message_size(small))
        .add_service(reflection().build_v1().map_err(broken)?)
        .add_service(reflection().build_v1alpha().map_err(broken)?))
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, ServiceError> {
    let what = || "reading the address of a listener".into();
    listener.local_addr().map_err(|source| ServiceError::Io { what: what(), source })
}
