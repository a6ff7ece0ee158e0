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

use crate::limits::GREETING_MS_MAX;

/// What an HTTP/2 client says first is so long (RFC 9113, section 3.4).
const GREETING_BYTES: usize = 24;
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
        let end = tokio::time::sleep(Duration::from_millis(GREETING_MS_MAX));
        let greeting = Some(Greeting { seen_bytes: 0, end: Box::pin(end) });
        Some(Connection { stream, cut, greeting, gauge: self.gauge.clone(), _permit: permit })
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

/// What is still awaited of a new connection, and until when.
struct Greeting {
    seen_bytes: usize,
    end: Pin<Box<Sleep>>,
}

/// One connection, counted.
pub(crate) struct Connection {
    stream: TcpStream,
    greeting: Option<Greeting>,
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
        let Some(greeting) = &mut self.greeting else { return read };
        greeting.seen_bytes += buffer.filled().len() - before;
        if greeting.seen_bytes >= GREETING_BYTES {
            self.greeting = None;
        } else if read.is_pending() && greeting.end.as_mut().poll(context).is_ready() {
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
    async fn a_client_that_says_nothing_is_left() {
        let (mut client, mut connection, _cut) = connected().await;
        client.write_all(b"PRI * HTTP").await.unwrap();
        let mut bytes = Vec::new();
        let error = connection.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(bytes, b"PRI * HTTP");
    }

    #[tokio::test]
    async fn a_connection_that_is_cut_ends() {
        let (mut client, mut connection, cut) = connected().await;
        client.write_all(&[7; GREETING_BYTES]).await.unwrap();
        connection.read_exact(&mut [0; GREETING_BYTES]).await.unwrap();
        assert!(connection.greeting.is_none());
        cut.send_replace(true);
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
