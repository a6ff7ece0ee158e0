//! Accepts HTTP connections, plain or TLS, and serves them, HTTP/1.1 and HTTP/2 alike.
//!
//! Connections beyond the limits are refused with the reason. Each ends after a while without calls
//! and after many of them; on a shutdown it ends with the calls in progress, and is cut after the
//! grace period.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tower::Service as _;
use tracing::{debug, warn};

use super::activity::Activity;
use super::app::App;
use super::connection::{Connection, Places};
use super::limits::{HTTP_CONNECTION_CALLS_MAX, HTTP_END_MS, HTTP_HEADER_MS_MAX};
use crate::access::Peer;
use crate::address_places::AddressPlaces;
use crate::connections::{ACCEPT_PAUSE, HANDSHAKE_PAUSE};
use crate::limits::{HEADER_BYTES_MAX, KEEPALIVE_INTERVAL_MS, KEEPALIVE_TIMEOUT_MS, ServerLimits};
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use crate::tls::{Certificates, Handshakes, Secured};
use crate::windows::Windows;

/// Answer to a connection beyond a limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n\
    {\"type\":\"urn:shoal:error:BUSY\",\"title\":\"Service Unavailable\",\"status\":503,\
    \"detail\":\"too many HTTP connections\",\"reason\":\"BUSY\",\"retry_after_ms\":1000}\n";

/// See the module documentation.
pub(crate) struct HttpListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    addresses: AddressPlaces,
    metrics: Arc<Metrics>,
    app: App,
    open: JoinSet<()>,
    refusals: Refusals,
    tls: Option<Tls>,
}

/// TLS of the listener.
struct Tls {
    handshakes: Handshakes<Accepted>,
    /// For refused connections, whose reason is an answer of HTTP/1.1.
    refusing: Certificates,
}

/// The peer of a connection, and its places.
type Accepted = (SocketAddr, Places);

/// What every connection gets.
#[derive(Clone)]
struct Serving {
    router: Router,
    upgrades: Upgrades,
}

/// Where connections continue that have left HTTP: an extension of requests. The listener waits for
/// them.
#[derive(Clone)]
pub(super) struct Upgrades {
    ends: Ends,
    _open: mpsc::Sender<Infallible>,
}

impl Upgrades {
    /// Runs what serves such a connection, until it is done or connections are cut.
    pub(super) async fn run(self, serving: impl Future<Output = ()>) {
        tokio::select! {
            () = serving => {}
            () = signalled(self.ends.cut.clone()) => {}
        }
    }
}

/// The signals of the server.
#[derive(Clone)]
pub(crate) struct Ends {
    /// Turns true when the server begins to shut down.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Turns true when connections are cut.
    pub(crate) cut: watch::Receiver<bool>,
}

/// Completes when a signal turns true.
pub(crate) async fn signalled(mut signal: watch::Receiver<bool>) {
    // An error means that the server has stopped.
    let _ = signal.wait_for(|signal| *signal).await;
}

impl HttpListener {
    /// Serves `app` on a listener, within the limits, over TLS if there are certificates.
    pub(crate) fn new(
        listener: TcpListener,
        certificates: Option<Certificates>,
        app: App,
        limits: &ServerLimits,
        metrics: Arc<Metrics>,
    ) -> Self {
        let all = limits.http_connections_max;
        Self {
            listener,
            places: Arc::new(Semaphore::new(all)),
            addresses: AddressPlaces::new(limits.address_connections_max.min(all)),
            metrics,
            app,
            open: JoinSet::new(),
            refusals: Refusals::default(),
            tls: certificates.map(|of| Tls {
                refusing: of.with_protocols(&["http/1.1"]),
                handshakes: Handshakes::new(of, limits.handshakes_max),
            }),
        }
    }

    /// Serves until the server stops and every connection has ended.
    pub(crate) async fn serve(mut self, ends: Ends) {
        let (open, mut upgraded) = mpsc::channel(1);
        let upgrades = Upgrades { ends: ends.clone(), _open: open };
        let serving = Serving { router: self.app.clone().router(), upgrades };
        loop {
            let has_place = self.tls.as_ref().is_none_or(|tls| tls.handshakes.has_place());
            tokio::select! {
                (stream, accepted) = secured(&mut self.tls) => {
                    self.begin(stream, accepted, &serving);
                }
                () = tokio::time::sleep(HANDSHAKE_PAUSE), if !has_place => {}
                accepted = self.listener.accept(), if has_place => match accepted {
                    Ok((stream, remote)) => self.admit(stream, remote, &serving),
                    Err(error) => {
                        warn!(%error, "cannot accept an HTTP connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },

                () = signalled(ends.stopping.clone()) => break,
            }
        }
        drop((self.listener, self.tls));
        while self.open.join_next().await.is_some() {}
        drop(serving);
        // Ends with the last connection that has left HTTP.
        let _ = upgraded.recv().await;
    }

    /// Takes the places of a connection, or refuses it. With TLS, begins the handshake.
    fn admit(&mut self, stream: TcpStream, remote: SocketAddr, serving: &Serving) {
        let place = self.places.clone().try_acquire_owned().ok();
        let places = place.and_then(|place| Some((place, self.addresses.take(remote.ip())?)));
        let Some(places) = places else {
            warn!(peer = %remote, "refused an HTTP connection beyond a limit");
            self.metrics.http_connections_refused.inc();
            let certificates = self.tls.as_ref().map(|tls| tls.refusing.clone());
            self.refusals.refuse(stream, certificates, Bytes::from_static(FULL));
            return;
        };
        // Sends small answers at once; a socket that refuses the option works too.
        let _ = stream.set_nodelay(true);
        let accepted = (remote, places);
        match &mut self.tls {
            None => self.begin(Secured::Plain(stream), accepted, serving),
            Some(tls) => {
                let closed = tls.handshakes.begin(stream, accepted);
                self.metrics.handshakes_closed.inc_by(closed);
            }
        }
    }

    /// Begins to serve the calls of a connection.
    fn begin(&mut self, stream: Secured, (remote, places): Accepted, serving: &Serving) {
        while self.open.try_join_next().is_some() {}
        let (activity, gauge) = (Activity::default(), self.metrics.http_connections.clone());
        let connection = Connection::new(stream, activity.clone(), gauge, places);
        self.open.spawn(serve_connection(connection, activity, remote, serving.clone()));
    }
}

/// The next connection whose handshake is complete; never completes without TLS.
async fn secured(tls: &mut Option<Tls>) -> (Secured, Accepted) {
    match tls {
        Some(tls) => poll_fn(|context| tls.handshakes.poll_complete(context)).await,
        None => pending().await,
    }
}

/// HTTP/1.1 with bounds for every size and wait.
fn http1() -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(HTTP_HEADER_MS_MAX))
        .max_buf_size(HEADER_BYTES_MAX as usize);
    protocol
}

/// HTTP/2 with bounds for every window, count and wait.
fn http2() -> http2::Builder<TokioExecutor> {
    let Windows { stream_bytes, connection_bytes, frame_bytes } = Windows::SMALL;
    let mut protocol = http2::Builder::new(TokioExecutor::new());
    protocol
        .timer(TokioTimer::new())
        .initial_stream_window_size(stream_bytes)
        .initial_connection_window_size(connection_bytes)
        .max_concurrent_streams(HTTP_CONNECTION_CALLS_MAX)
        .max_frame_size(frame_bytes)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(Some(Duration::from_millis(KEEPALIVE_INTERVAL_MS)))
        .keep_alive_timeout(Duration::from_millis(KEEPALIVE_TIMEOUT_MS));
    protocol
}

/// Serves the calls of a connection until it ends.
async fn serve_connection(
    mut connection: Connection<Secured>,
    activity: Activity,
    remote: SocketAddr,
    Serving { router, upgrades }: Serving,
) {
    let (ends, peer) = (upgrades.ends.clone(), Peer::new(remote));
    let is_http2 = tokio::select! {
        is_http2 = connection.is_http2() => is_http2,
        () = activity.over() => return,
        () = signalled(ends.stopping.clone()) => return,
    };
    let service = service_fn(|mut request: Request<Incoming>| {
        let call = activity.begin();
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(upgrades.clone());
        let answered = router.clone().call(request.map(Body::new));
        async move { answered.await.map(|response| call.answered(response)) }
    });
    let io = TokioIo::new(connection);
    let ended = match is_http2 {
        Ok(true) => {
            let served = http2().serve_connection(io, service);
            serve_until(served, |served| served.graceful_shutdown(), &activity, ends).await
        }
        Ok(false) => {
            let served = http1().serve_connection(io, service).with_upgrades();
            serve_until(served, |served| served.graceful_shutdown(), &activity, ends).await
        }
        Err(error) => return debug!(peer = %remote, %error, "an HTTP connection ended"),
    };
    if let Err(error) = ended {
        debug!(peer = %remote, %error, "an HTTP connection ended");
    }
}

/// Serves a connection until it ends by itself, has no more calls, or the server stops; `shut_down`
/// tells it to begin no more calls.
///
/// # Errors
/// That of the protocol.
async fn serve_until<C: Future<Output = hyper::Result<()>>>(
    served: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    activity: &Activity,
    ends: Ends,
) -> hyper::Result<()> {
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => return ended,
        () = activity.stalled() => return Ok(()),
        () = activity.over() => {}
        () = signalled(ends.stopping) => {}
    }
    shut_down(served.as_mut());
    let silent = activity.idle_for(Duration::from_millis(HTTP_END_MS));
    tokio::select! {
        ended = served.as_mut() => ended,
        () = activity.stalled() => Ok(()),
        () = silent => Ok(()),
        () = signalled(ends.cut) => Ok(()),
    }
}
