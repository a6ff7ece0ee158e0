//! The connections of a listener, plain or TLS. Accepts connections up to a total limit and a limit
//! for each peer address. Refuses and counts all others; a refused peer receives the reason.
//!
//! A signal cuts all connections, so that a peer that never reads cannot delay the shutdown.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Sleep;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;
use tracing::warn;

use crate::access::Peer;
use crate::address_places::{AddressPlace, AddressPlaces};
use crate::limits::{PREFACE_MS_MAX, READ_TURN_BYTES, ServerLimits};
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use crate::shares::PlacesPermit;
use crate::tls::{Certificates, Handshakes, Secured};
use crate::windows::LargeWindows;

/// The first bytes of a connection over HTTP/2 (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Delay after a failed accept, because its cause (such as a lack of file descriptors) may persist.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Delay before the next accept while no handshake can begin: about the time of one handshake step.
pub(crate) const HANDSHAKE_PAUSE: Duration = Duration::from_millis(1);

/// Frame types and an error code of HTTP/2 (RFC 9113, sections 6 and 7).
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
    addresses: AddressPlaces,
    full: Limit,
    address_full: Limit,
    refusals: Refusals,
    tls: Option<(Certificates, Handshakes<Accepted>)>,
    handshakes_closed: Counter,
    windows: LargeWindows,
    gauges: Gauges,
    cut: watch::Receiver<bool>,
    pause: Option<Pin<Box<Sleep>>>,
}

/// A limit of connections: the bytes that a refused connection receives, and the count of refusals.
#[derive(Debug)]
struct Limit {
    reason: Bytes,
    refused: Counter,
}

/// The bytes that refuse a connection: a SETTINGS frame, which HTTP/2 requires first, and a GOAWAY
/// frame with a text.
fn goaway(text: &str) -> Bytes {
    let frame = |kind: u8, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        // Three bytes of length; no flags; stream 0.
        [&length[1..], &[kind, 0], &[0; 4], payload].concat()
    };
    // The last processed stream is 0, which tells the client that it can repeat every call.
    let end = [&[0; 4], &ENHANCE_YOUR_CALM.to_be_bytes(), text.as_bytes()].concat();
    [frame(SETTINGS, &[]), frame(GOAWAY, &end)].concat().into()
}

impl Connections {
    /// Accepts as many connections at once as `limits` allow, over TLS if there are certificates.
    /// All connections end when `cut` becomes true.
    pub(crate) fn new(
        listener: TcpListener,
        certificates: Option<Certificates>,
        limits: &ServerLimits,
        metrics: &Metrics,
        cut: watch::Receiver<bool>,
    ) -> Self {
        let (all, of_address) = (limits.connections_max, limits.address_connections_max);
        let full = Limit {
            reason: goaway(&format!("the server holds its limit of {all} connections")),
            refused: metrics.connections_refused.clone(),
        };
        let text = format!("the server holds its limit of {of_address} connections of one address");
        let address_full =
            Limit { reason: goaway(&text), refused: metrics.address_connections_refused.clone() };
        Self {
            listener,
            places: Arc::new(Semaphore::new(all)),
            addresses: AddressPlaces::new(of_address),
            full,
            address_full,
            refusals: Refusals::default(),
            tls: certificates.map(|of| (of.clone(), Handshakes::new(of, limits.handshakes_max))),
            handshakes_closed: metrics.handshakes_closed.clone(),
            windows: LargeWindows::new(limits),
            gauges: Gauges {
                open: metrics.connections.clone(),
                with_large_windows: metrics.large_window_connections.clone(),
            },
            cut,
            pause: None,
        }
    }

    /// Takes the places of a connection, or refuses it. With TLS, begins the handshake and returns
    /// `None`.
    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let limit = match self.places.clone().try_acquire_owned() {
            Ok(place) => match self.addresses.take(peer.ip()) {
                Some(of_address) => return self.begin(stream, (peer, (place, of_address))),
                None => {
                    warn!(%peer, "refused a connection beyond the limit of its address");
                    &self.address_full
                }
            },
            Err(_) => {
                warn!(%peer, "refused a connection beyond the limit of the server");
                &self.full
            }
        };
        limit.refused.inc();
        let certificates = self.tls.as_ref().map(|(certificates, _)| certificates.clone());
        self.refusals.refuse(stream, certificates, limit.reason.clone());
        None
    }

    fn begin(&mut self, stream: TcpStream, accepted: Accepted) -> Option<Connection> {
        // Sends small answers at once; a socket that refuses the option works too.
        let _ = stream.set_nodelay(true);
        let Some((_, handshakes)) = &mut self.tls else {
            return Some(self.connection(Secured::Plain(stream), accepted));
        };
        self.handshakes_closed.inc_by(handshakes.begin(stream, accepted));
        None
    }

    /// Accepts connections until `stopped` completes. Sends each to the channel of its windows.
    pub(crate) async fn accept(
        mut self,
        (large, small): (mpsc::Sender<Connection>, mpsc::Sender<Connection>),
        stopped: impl Future<Output = ()>,
    ) {
        let accepting = async {
            while let Some(connection) = self.next().await {
                let server = if connection.large_windows.is_some() { &large } else { &small };
                // An error means that the server has stopped.
                let _ = server.send(connection).await;
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stopped => {}
        }
    }

    fn connection(&self, stream: Secured, (peer, places): Accepted) -> Connection {
        let (large_windows, gauges) = (self.windows.take(peer.ip()), self.gauges.clone());
        gauges.open.inc();
        if large_windows.is_some() {
            gauges.with_large_windows.inc();
        }
        let mut cut = self.cut.clone();
        let cut = Box::pin(async move {
            // An error means that the server has stopped.
            let _ = cut.wait_for(|cut| *cut).await;
        });
        let end = tokio::time::sleep(Duration::from_millis(PREFACE_MS_MAX));
        let preface = Some(Preface { seen_bytes: 0, end: Box::pin(end) });
        let peer = Peer::new(peer);
        Connection {
            stream,
            peer,
            preface,
            turn_bytes: 0,
            cut,
            large_windows,
            gauges,
            _places: places,
        }
    }
}

impl Stream for Connections {
    type Item = Connection;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some((_, handshakes)) = &mut self.tls
            && let Poll::Ready((stream, accepted)) = handshakes.poll_complete(context)
        {
            return Poll::Ready(Some(self.connection(stream, accepted)));
        }
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            if self.tls.as_ref().is_some_and(|(_, handshakes)| !handshakes.has_place()) {
                self.pause = Some(Box::pin(tokio::time::sleep(HANDSHAKE_PAUSE)));
                continue;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => {
                    if let Some(connection) = self.admit(stream, peer) {
                        return Poll::Ready(Some(connection));
                    }
                    if self.tls.is_some() {
                        // Looks at the handshakes again, and yields to other work.
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// State of a connection that has not sent its whole HTTP/2 preface yet.
struct Preface {
    seen_bytes: usize,
    end: Pin<Box<Sleep>>,
}

/// A place within the total limit, and a place within the limit of the peer address.
type Places = (OwnedSemaphorePermit, AddressPlace);
/// The peer of a connection, and its places.
type Accepted = (SocketAddr, Places);

/// One connection, counted.
pub(crate) struct Connection {
    stream: Secured,
    peer: Peer,
    preface: Option<Preface>,
    /// Bytes that it has read since others had a turn.
    turn_bytes: usize,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    large_windows: Option<PlacesPermit>,
    gauges: Gauges,
    _places: Places,
}

/// Counts of the connections.
#[derive(Clone, Debug)]
struct Gauges {
    open: Gauge,
    with_large_windows: Gauge,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.gauges.open.dec();
        if self.large_windows.take().is_some() {
            self.gauges.with_large_windows.dec();
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The HTTP/2 library always has a read pending, so it notices a cut at once.
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.turn_bytes >= READ_TURN_BYTES {
            self.turn_bytes = 0;
            // The connection continues after those that are ready now.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        self.turn_bytes = if read.is_pending() { 0 } else { self.turn_bytes + bytes };
        let Some(preface) = &mut self.preface else { return read };
        preface.seen_bytes += bytes;
        if preface.seen_bytes >= PREFACE.len() {
            self.preface = None;
        } else if read.is_pending() && preface.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn connected() -> (TcpStream, Connection, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut_sender, cut) = watch::channel(false);
        let (limits, metrics) = (ServerLimits::default(), Metrics::default());
        let mut connections = Connections::new(listener, None, &limits, &metrics, cut);
        let client = TcpStream::connect(address).await.unwrap();
        let connection = connections.next().await.unwrap();
        (client, connection, cut_sender)
    }

    #[test]
    fn a_refused_peer_receives_settings_and_the_end_with_a_text() {
        let mut expected = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
        expected.extend([0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]);
        expected.extend(b"full");
        assert_eq!(goaway("full"), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_a_preface_is_disconnected() {
        let (mut client, mut connection, _cut) = connected().await;
        client.write_all(b"PRI * HTTP").await.unwrap();
        let mut bytes = Vec::new();
        let error = connection.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(bytes, b"PRI * HTTP");
    }

    #[tokio::test]
    async fn a_connection_with_much_to_read_gives_others_turns() {
        const BYTES: usize = 4 * READ_TURN_BYTES;
        let (mut client, mut connection, _cut) = connected().await;
        let writing = tokio::spawn(async move { client.write_all(&[7; BYTES]).await });
        let (mut read_bytes, mut turns) = (0, 0);
        let mut space = vec![0; READ_TURN_BYTES / 4];
        while read_bytes < BYTES {
            let mut turn_bytes = 0;
            std::future::poll_fn(|context| {
                let mut buffer = ReadBuf::new(&mut space);
                while let Poll::Ready(read) =
                    Pin::new(&mut connection).poll_read(context, &mut buffer)
                {
                    read.unwrap();
                    turn_bytes += buffer.filled().len();
                    buffer.clear();
                }
                if turn_bytes > 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert!(turn_bytes < READ_TURN_BYTES + space.len());
            (read_bytes, turns) = (read_bytes + turn_bytes, turns + 1);
        }
        assert!(turns >= 4);
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_cut_connection_ends() {
        let (mut client, mut connection, cut) = connected().await;
        client.write_all(&[7; PREFACE.len()]).await.unwrap();
        connection.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
        assert!(connection.preface.is_none());
        cut.send_replace(true);
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
