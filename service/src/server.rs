//! Starts, runs and shuts down a server.
//!
//! The caller binds the listeners, so that it knows the port chosen for port 0 before anything is
//! served. After `shutdown` completes, `run` returns once everything accepted is acknowledged,
//! within 10 s even if peers never read. It installs no signal handler and no logger.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use shoal_history::PageMemory;
use shoal_proto::raw::position_service_server::PositionServiceServer;
use shoal_proto::raw::subscription_service_server::SubscriptionServiceServer;
use shoal_proto::v1::fleet_service_server::FleetServiceServer;
use shoal_proto::v1::history_service_server::HistoryServiceServer;
use shoal_proto::v1::log_service_server::LogServiceServer;
use shoal_proto::v1::query_service_server::QueryServiceServer;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::Layer;
use tower::layer::util::{Identity, Stack};
use tracing::{info, warn};

use crate::access::Access;
use crate::connections::Connections;
use crate::cycle::{DEFAULT, FleetName, FleetSpec, SinkFactory, WallClock};
use crate::engine_choice::{EngineChoice, EngineFactory};
use crate::error::ServiceError;
use crate::fleet::{Fleet, Registry};
use crate::follower::{Replication, claim_role};
use crate::http::{App, Ends, HttpListener, Origins, Tiles, signalled};
use crate::limits::{
    CONTROL_MESSAGE_BYTES_MAX, ENGINE_END_MS_MAX, HEADER_BYTES_MAX, HISTORY_MEMORY_SHARE,
    KEEPALIVE_INTERVAL_MS, KEEPALIVE_TIMEOUT_MS, MESSAGE_BYTES_MAX, SHUTDOWN_GRACE_MS,
    SMALL_MESSAGE_BYTES_MAX, ServerLimits,
};
use crate::listeners::Listeners;
use crate::metrics::Metrics;
use crate::monitoring::{Monitored, serve_http, watch_health};
use crate::persistence::DataFolder;
use crate::rpc::{Layers, ServiceContext, Services, call_layers};
pub use crate::server_options::ServerOptions;
use crate::tls::{Certificates, TlsOptions};
use crate::windows::Windows;

/// The parts of a server that tests replace.
#[derive(Clone, Debug)]
pub struct Environment {
    /// System clock.
    pub wall: WallClock,
    /// Starts the engines.
    pub engines: EngineFactory,
    /// Opens a sink for each fleet without a log; `None` for no sinks.
    pub sinks: Option<SinkFactory>,
    /// Data folder to use instead of the one in the options.
    pub data: Option<DataFolder>,
    /// Notified once the fleets are recovered and calls are accepted.
    pub ready: Option<Arc<Notify>>,
    /// Access control to use instead of the files in the options.
    pub access: Option<Access>,
}

impl Environment {
    /// An environment with the system clock, the given engines and no other replacements.
    #[must_use]
    pub fn new(engines: EngineFactory) -> Self {
        let wall = WallClock::system();
        Self { wall, engines, sinks: None, data: None, ready: None, access: None }
    }
}

/// Serves until `shutdown` completes.
///
/// # Errors
/// Those of [`ServerOptions::check`], also for the addresses to which the listeners are
/// bound, [`ServiceError::Io`], [`ServiceError::Transport`], [`ServiceError::DurabilityLost`].
pub async fn run(
    listeners: impl Into<Listeners>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let engines = options.engine.factory(options.gpu_fleet_memory_bytes);
    run_in(Environment::new(engines), listeners, options, shutdown).await
}

/// As [`run`], in an environment.
///
/// # Errors
/// Those of [`run`].
pub async fn run_in(
    environment: Environment,
    listeners: impl Into<Listeners>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    options.check()?;
    let Listeners { clients, metrics: metrics_listener, http } = listeners.into();
    for listener in std::iter::once(&clients).chain(&http) {
        options.check_exposure(local_address(listener)?)?;
    }
    if let Some(listener) = &metrics_listener {
        options.check_plain_exposure(local_address(listener)?)?;
    }
    let guards = Guards::open(&environment, &options)?;
    EngineChoice::build_pool(options.threads);
    let metrics = Arc::new(Metrics::default());
    let ready = environment.ready.clone();
    let registry = open_registry(environment, &options, metrics.clone())?;
    let (stop, stopping) = watch::channel(false);
    let monitored = Monitored { registry: registry.clone(), metrics, stopping };
    let mut tasks = JoinSet::new();
    guards.watch_files(&mut tasks);
    if let Some(listener) = metrics_listener {
        tasks.spawn(serve_http(listener, monitored.clone()));
    }
    let (health, health_service) = tonic_health::server::health_reporter();
    tasks.spawn(watch_health(health, monitored.clone()));
    let replication = Replication::new(registry.clone(), options.leader_link.clone());
    let address = local_address(&clients)?;
    let context = ServiceContext::new(
        registry.clone(),
        replication.clone(),
        options.limits.clone(),
        monitored.metrics.clone(),
        monitored.stopping.clone(),
    )?;
    let routes = add_routes(Routes::new(health_service), context, options.reflection)?;
    let has_data = registry.has_data();
    if !has_data {
        open_fleets(&registry, &replication, address, &options, ready.as_deref()).await?;
    }
    // While fleets are being recovered, health checks are answered and other calls fail with
    // [`ServiceError::Recovering`].
    let recovering = async {
        if has_data {
            let opened = open_fleets(&registry, &replication, address, &options, ready.as_deref());
            if let Err(error) = opened.await {
                return error;
            }
        }
        std::future::pending().await
    };
    let access = guards.access.clone();
    let served = serve((clients, http), guards, routes, &options, &monitored, &stop, shutdown);
    let served = tokio::select! {
        served = served => served,
        // `recovering` completes only with an error. The fleets recovered so far are closed below.
        error = recovering => Err(error),
    };
    replication.end().await;
    let end = Duration::from_millis(ENGINE_END_MS_MAX);
    if tokio::time::timeout(end, registry.shut_down()).await.is_err() {
        warn!("an engine did not finish its cycle in time; the server stops without it");
    }
    // An error means that the runtime ends.
    let _ = tokio::task::spawn_blocking(move || access.drain_audit()).await;
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
    let page_bytes = options.history_memory_bytes.unwrap_or_else(history_memory_bytes);
    let history_pages = PageMemory::new(usize::try_from(page_bytes).unwrap_or(usize::MAX));
    let log_aim = options.log_aim;
    let engines = EngineFactory { log_aim, history_device, history_pages, ..engines };
    let registry = Registry::new(engines, sinks, data, limits, wall, ahead_ms, metrics);
    Ok(Arc::new(registry.following(leader).keeping_history(options.history)))
}

/// The default memory for pages of histories: a share of the machine's memory, or of the limit of
/// the control group if that is less.
fn history_memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = (system.totalram as u64).saturating_mul(u64::from(system.mem_unit));
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    // The text "max" means no limit.
    let group = group.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    machine.min(group) / HISTORY_MEMORY_SHARE
}

/// Recovers the fleets. A leader then creates `default` if it is missing; a follower waits for its
/// first copies. Then calls are accepted.
async fn open_fleets(
    registry: &Registry,
    replication: &Arc<Replication>,
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
    if let Some(kept) = registry.list().iter().find(|fleet| fleet.name() == name) {
        warn_of_ignored_settings(kept, options);
        return Ok(());
    }
    let spec = FleetSpec {
        kind: options.default_kind,
        space: options.default_space,
        clock: options.default_clock,
        ttl_ms: options.default_ttl_ms,
        objects_max: options.limits.fleet_objects_max,
        durability: None,
        event_clock_lead_ms: options.default_event_clock_lead_ms,
    };
    match registry.create(name, spec).await {
        // A client created it in the meantime.
        Ok(_) | Err(ServiceError::FleetExists(_)) => Ok(()),
        Err(error @ ServiceError::Limit { .. }) => {
            warn!(%error, "there is no fleet `default`");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Warns of settings that differ from those of the existing fleet `default`, which keeps the
/// properties with which it was created.
fn warn_of_ignored_settings(fleet: &Fleet, options: &ServerOptions) {
    let (kept, lead_ms) = (fleet.options(), options.default_event_clock_lead_ms);
    let ignored: Vec<_> = [
        ("--named", fleet.kind() != options.default_kind),
        ("--space", kept.space != options.default_space),
        ("--clock", kept.clock != options.default_clock),
        ("--ttl", kept.ttl_ms != options.default_ttl_ms),
        (
            "--event-clock-lead",
            lead_ms.is_some_and(|lead_ms| lead_ms != fleet.event_clock_lead_ms()),
        ),
    ]
    .into_iter()
    .filter_map(|(setting, is_ignored)| is_ignored.then_some(setting))
    .collect();
    if !ignored.is_empty() {
        let settings = ignored.join(", ");
        warn!("without effect: {settings}: the data folder has a fleet default already");
    }
}

/// Serves gRPC and HTTP. After `shutdown`, calls have a grace period to end; then the remaining
/// connections are closed.
async fn serve(
    (clients, http): (TcpListener, Option<TcpListener>),
    guards: Guards,
    routes: Routes,
    options: &ServerOptions,
    monitored: &Monitored,
    stop: &watch::Sender<bool>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    let (limits, metrics) = (&options.limits, &monitored.metrics);
    let (cut_sender, cut) = watch::channel(false);
    let Guards { access, certificates } = guards;
    let http_tls = certificates.as_ref().map(|of| of.with_protocols(&["h2", "http/1.1"]));
    let layers = call_layers(limits, metrics, access.clone());
    let services = layers.layer(routes.clone());
    let http =
        http.map(|http| http_listener((http, http_tls), services, access, options, monitored));
    let http = http.transpose()?;
    let ends = Ends { stopping: monitored.stopping.clone(), cut: cut.clone() };
    let connections = Connections::new(clients, certificates, limits, metrics, cut);
    let stopped = || signalled(monitored.stopping.clone());
    let grpc = |windows| {
        let (sender, connections) = mpsc::channel(1);
        let connections = ReceiverStream::new(connections).map(Ok::<_, io::Error>);
        let mut transport = transport(limits, layers.clone(), windows);
        let server = transport.add_routes(routes.clone());
        (sender, server.serve_with_incoming_shutdown(connections, stopped()))
    };
    let (large_sender, large) = grpc(Windows::LARGE);
    let (small_sender, small) = grpc(Windows::SMALL);
    let accept = async {
        connections.accept((large_sender, small_sender), stopped()).await;
        Ok(())
    };
    let http = async {
        if let Some(http) = http {
            http.serve(ends).await;
        }
        Ok(())
    };
    let serving = async { tokio::try_join!(accept, large, small, http).map(|_| ()) };
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

/// Configures HTTP/2 with limits for windows, counts and waiting times.
fn transport(
    limits: &ServerLimits,
    layers: Layers,
    windows: Windows,
) -> Server<Stack<Layers, Identity>> {
    let Windows { stream_bytes, connection_bytes, frame_bytes } = windows;
    Server::builder()
        .initial_stream_window_size(stream_bytes)
        .initial_connection_window_size(connection_bytes)
        .max_concurrent_streams(limits.connection_calls_max)
        .max_frame_size(frame_bytes)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(Duration::from_millis(KEEPALIVE_INTERVAL_MS)))
        .http2_keepalive_timeout(Some(Duration::from_millis(KEEPALIVE_TIMEOUT_MS)))
        .layer(layers)
}

/// Serves the services over HTTP.
fn http_listener(
    (listener, certificates): (TcpListener, Option<Certificates>),
    services: Services,
    access: Access,
    options: &ServerOptions,
    monitored: &Monitored,
) -> Result<HttpListener, ServiceError> {
    let is_loopback = local_address(&listener)?.ip().to_canonical().is_loopback();
    let origins = Origins::new(options.http_allow_origin.clone(), is_loopback);
    let tiles = Tiles::open(options.map_tiles.as_ref())?;
    let app = App::new(services, access, origins, tiles, &options.limits, monitored.clone());
    let (limits, metrics) = (&options.limits, monitored.metrics.clone());
    Ok(HttpListener::new(listener, certificates, app, limits, metrics))
}

/// Access control and certificates.
#[derive(Clone, Debug)]
struct Guards {
    access: Access,
    certificates: Option<Certificates>,
}

impl Guards {
    fn open(environment: &Environment, options: &ServerOptions) -> Result<Self, ServiceError> {
        let access = match &environment.access {
            Some(access) => access.clone(),
            None => Access::open(options.access.clone())?,
        };
        let open = |tls: &TlsOptions| Certificates::open(tls.clone(), &["h2"]);
        let certificates = options.tls.as_ref().map(open).transpose()?;
        Ok(Self { access, certificates })
    }

    /// Spawns tasks that reload the files when they change.
    fn watch_files(&self, tasks: &mut JoinSet<()>) {
        tasks.spawn(self.access.clone().watch());
        if let Some(certificates) = self.certificates.clone() {
            tasks.spawn(certificates.watch_files());
        }
    }
}

fn add_routes(
    routes: Routes,
    context: ServiceContext,
    has_reflection: bool,
) -> Result<Routes, ServiceError> {
    let small = SMALL_MESSAGE_BYTES_MAX;
    let positions = PositionServiceServer::new(context.clone());
    let fleets = FleetServiceServer::new(context.clone());
    let queries = QueryServiceServer::new(context.clone());
    let logs = LogServiceServer::new(context.clone());
    let histories = HistoryServiceServer::new(context.clone());
    let subscriptions = SubscriptionServiceServer::new(context);
    // The router prefers this path to the service's path, so that `Remove` has the limit of small
    // messages: only the reports of `PositionService` may be large.
    let removals = positions.clone().max_decoding_message_size(small);
    let remove = "/shoal.v1.PositionService/Remove";
    let routes = Routes::from(routes.into_axum_router().route_service(remove, removals));
    let routes = routes
        .add_service(positions.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(subscriptions.max_decoding_message_size(small))
        .add_service(fleets.max_decoding_message_size(small))
        .add_service(histories.max_decoding_message_size(small))
        .add_service(logs.max_decoding_message_size(CONTROL_MESSAGE_BYTES_MAX))
        .add_service(queries.max_decoding_message_size(small));
    if has_reflection { add_reflection(routes) } else { Ok(routes) }
}

fn add_reflection(routes: Routes) -> Result<Routes, ServiceError> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(shoal_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let broken = |error| ServiceError::Io {
        what: "reading the descriptors for reflection".into(),
        source: io::Error::other(error),
    };
    let v1 = reflection().build_v1().map_err(broken)?;
    let v1alpha = reflection().build_v1alpha().map_err(broken)?;
    Ok(routes
        .add_service(v1.max_decoding_message_size(CONTROL_MESSAGE_BYTES_MAX))
        .add_service(v1alpha.max_decoding_message_size(CONTROL_MESSAGE_BYTES_MAX)))
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, ServiceError> {
    let what = || "reading the address of a listener".into();
    listener.local_addr().map_err(|source| ServiceError::Io { what: what(), source })
}
