//! The bytes of an HTTP connection: its first ones tell the version, and it is cut when the peer
//! takes none for too long.
//!
//! Otherwise a peer that does not read would hold its response and the place of its connection
//! indefinitely.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::activity::Activity;
use super::limits::HTTP_WRITE_STALL_MS_MAX;
use crate::address_places::AddressPlace;
use crate::connections::PREFACE;

/// A place within the total limit, and a place within the limit of the peer address.
pub(super) type Places = (OwnedSemaphorePermit, AddressPlace);

/// See the module documentation.
pub(super) struct Connection<S> {
    stream: S,
    /// First bytes that were read to learn the version, and are not passed on yet.
    first: Vec<u8>,
    activity: Activity,
    stalled: Option<Pin<Box<Sleep>>>,
    gauge: Gauge,
    _places: Places,
}

impl<S> Connection<S> {
    /// A connection; `activity` learns when it waits for the peer to take bytes.
    pub(super) fn new(stream: S, activity: Activity, gauge: Gauge, places: Places) -> Self {
        gauge.inc();
        Self { stream, first: Vec::new(), activity, stalled: None, gauge, _places: places }
    }

    /// Fails a pending write when the peer has taken no bytes for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.activity.waits_for_peer(false);
            }
            return written;
        }
        self.activity.waits_for_peer(true);
        let patience = Duration::from_millis(HTTP_WRITE_STALL_MS_MAX);
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> Connection<S> {
    /// Whether the peer begins with the preface of HTTP/2. Reads at most as many bytes as it has.
    ///
    /// # Errors
    /// That of the stream.
    pub(super) async fn is_http2(&mut self) -> io::Result<bool> {
        let mut first = [0; PREFACE.len()];
        let mut read = 0;
        while read < first.len() && first[..read] == PREFACE[..read] {
            let count = self.stream.read(&mut first[read..]).await?;
            if count == 0 {
                break;
            }
            read += count;
        }
        self.first = first[..read].to_vec();
        Ok(self.first == PREFACE)
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..count]);
        self.first.drain(..count);
        if self.first.is_empty() {
            self.first = Vec::new();
            // With what has arrived, the reader has the whole request at once: a reader that gets a
            // part takes a buffer of twice the size.
            if let Poll::Ready(Err(error)) = Pin::new(&mut self.stream).poll_read(context, buffer) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, closed)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt as _;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::address_places::AddressPlaces;

    fn connection<S>(stream: S, activity: Activity, gauge: Gauge) -> Connection<S> {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let of_address = AddressPlaces::new(1).take(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        Connection::new(stream, activity, gauge, (place, of_address))
    }

    #[tokio::test]
    async fn the_first_bytes_tell_the_version_and_are_read_again() {
        for (parts, is_http2) in [
            (&[PREFACE, b"rest"][..], true),
            (&[b"PRI * HT", b"TP/2.0\r\n\r\nSM\r\n\r\n", b"rest"], true),
            (&[b"P", b"RI * HTTP/1.1\r\n\r\n"], false),
            (&[b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"], false),
            (&[b"PRI"], false),
            (&[], false),
        ] {
            let (mut peer, stream) = tokio::io::duplex(100);
            let mut connection = connection(stream, Activity::default(), Gauge::default());
            let write = async {
                for part in parts {
                    peer.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
                drop(peer);
            };
            let (told, ()) = tokio::join!(connection.is_http2(), write);
            assert_eq!(told.unwrap(), is_http2, "{parts:?}");
            let mut read = Vec::new();
            let mut first = [0; 5];
            if let Ok(count) = connection.read(&mut first).await {
                read.extend_from_slice(&first[..count]);
            }
            connection.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, parts.concat());
        }
    }

    #[tokio::test]
    async fn the_reader_gets_a_whole_request_at_once() {
        let (mut peer, stream) = tokio::io::duplex(200);
        let mut connection = connection(stream, Activity::default(), Gauge::default());
        let request = [b'G'; 150];
        peer.write_all(&request).await.unwrap();
        assert!(!connection.is_http2().await.unwrap());
        assert_eq!(connection.read(&mut [0; 200]).await.unwrap(), request.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut() {
        let (_peer, stream) = tokio::io::duplex(10);
        let gauge = Gauge::default();
        let mut connection = connection(stream, Activity::default(), gauge.clone());
        assert_eq!(gauge.get(), 1);
        let error = connection.write_all(&[7; 11]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(gauge.get(), 0);
    }
}
