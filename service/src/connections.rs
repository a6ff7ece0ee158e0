//! The connections of a listener: accepts up to a limit, closes those beyond, and counts them.
//!
//! On a signal all are cut, so that a peer that never reads cannot delay the shutdown.

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

use crate::limits::PREFACE_MS_MAX;

/// Length of the HTTP/2 connection preface (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// Delay after a failed accept: a lack of file descriptors, for one, does not end at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    listener: TcpListener,
    places: Arc<Semaphore>,
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
        let places = Arc::new(Semaphore::new(connections_max));
        Self { listener, places, gauge, cut, pause: None }
    }

    fn connection(&self, stream: TcpStream) -> Option<Connection> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        // Sends small answers at once; a socket that refuses the option works too.
        let _ = stream.set_nodelay(true);
        self.gauge.inc();
        let mut cut = self.cut.clone();
        let cut = Box::pin(async move {
            // An error means that the server has stopped.
            let _ = cut.wait_for(|cut| *cut).await;
        });
        let end = tokio::time::sleep(Duration::from_millis(PREFACE_MS_MAX));
        let preface = Some(Preface { seen_bytes: 0, end: Box::pin(end) });
        Some(Connection { stream, cut, preface, gauge: self.gauge.clone(), _permit: permit })
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
                    None => warn!(%peer, "closed a connection beyond the limit"),
                },
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }
}

/// The preface that a new connection has not completed.
struct Preface {
    seen_bytes: usize,
    end: Pin<Box<Sleep>>,
}

/// One connection, counted.
pub(crate) struct Connection {
    stream: TcpStream,
    preface: Option<Preface>,
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(preface) = &mut self.preface else { return read };
        preface.seen_bytes += buffer.filled().len() - before;
        if preface.seen_bytes >= PREFACE_BYTES {
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
    use tokio_stream::StreamExt as _;

    use super::*;

    async fn connected() -> (TcpStream, Connection, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut_sender, cut) = watch::channel(false);
        let mut connections = Connections::new(listener, 1, Gauge::default(), cut);
        let client = TcpStream::connect(address).await.unwrap();
        let connection = connections.next().await.unwrap().unwrap();
        (client, connection, cut_sender)
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
    async fn a_cut_connection_ends() {
        let (mut client, mut connection, cut) = connected().await;
        client.write_all(&[7; PREFACE_BYTES]).await.unwrap();
        connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        assert!(connection.preface.is_none());
        cut.send_replace(true);
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
