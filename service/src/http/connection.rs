//! The bytes of an HTTP connection: counted, and cut when the peer takes none for too long.
//!
//! Otherwise a peer that does not read would hold its response and the place of its connection
//! indefinitely.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::limits::HTTP_WRITE_STALL_MS_MAX;
use crate::address_places::AddressPlace;

/// A place within the total limit, and a place within the limit of the peer address.
pub(super) type Places = (OwnedSemaphorePermit, AddressPlace);

/// See the module documentation.
pub(super) struct Connection<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    gauge: Gauge,
    _places: Places,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, gauge: Gauge, places: Places) -> Self {
        gauge.inc();
        Self { stream, stalled: None, gauge, _places: places }
    }

    /// Fails a pending write when the peer has taken no bytes for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = Duration::from_millis(HTTP_WRITE_STALL_MS_MAX);
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
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

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut() {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let of_address = AddressPlaces::new(1).take(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let (_peer, stream) = tokio::io::duplex(10);
        let gauge = Gauge::default();
        let mut connection = Connection::new(stream, gauge.clone(), (place, of_address));
        assert_eq!(gauge.get(), 1);
        let error = connection.write_all(&[7; 11]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(gauge.get(), 0);
    }
}
