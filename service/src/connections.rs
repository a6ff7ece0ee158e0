//! Who may connect, and how does a connection end when its peer does not let it?
//!
//! Accepts up to a number of connections and closes what comes beyond; counts them; cuts all of
//! them when told, so that a peer that never reads cannot keep the server from going down.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tracing::warn;

/// Out of file descriptors and the like passes; asking again at once does not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connections that a listener brings.
#[derive(Debug)]
pub(crate) struct Connections {
    listener: TcpListener,
    room: Arc<Semaphore>,
    gauge: Gauge,
    cut: watch::Receiver<bool>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Connections {
    /// At most `connections_max` at once; all end when `cut` turns true.
    pub(crate) fn new(
        listener: TcpListener,
        connections_max: usize,
        gauge: Gauge,
        cut: watch::Receiver<bool>,
    ) -> Self {
        let room = Arc::new(Semaphore::new(connections_max));
        Self { listener, room, gauge, cut, pause: None }
    }

    fn connection(&self, stream: TcpStream) -> Option<Connection> {
        let permit = self.room.clone().try_acquire_owned().ok()?;
        // Small answers should not wait for more to come; a socket that refuses works too.
        let _ = stream.set_nodelay(true);
        self.gauge.inc();
        let mut cut = self.cut.clone();
        let cut = Box::pin(async move {
            // An error means that whoever could cut is gone: so is the server.
            let _ = cut.wait_for(|cut| *cut).await;
        });
        Some(Connection { stream, cut, gauge: self.gauge.clone(), _permit: permit })
    }
}

impl Stream for Connections {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => match self.connection(stream) {
                    Some(connection) => return Poll::Ready(Some(Ok(connection))),
                    None => warn!(%peer, "connection closed: there are too many"),
                },
                Err(error) => {
                    warn!(%error, "accepting a connection failed");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// One connection, counted.
pub(crate) struct Connection {
    stream: TcpStream,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // HTTP/2 always reads, so a cut is seen at once.
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
