//! Runs the TLS handshakes of a listener. Their number and time are bounded.
//!
//! A step of a handshake takes up to a millisecond of a core. Steps take turns, one at a time, so
//! that a flood of connections leaves the other cores, and between two steps the same core, to the
//! calls of others. When all places are taken, the oldest handshake that waits for its peer is
//! aborted for a new one, so that slow peers keep nobody out. If no handshake waits for its peer,
//! connections stay in the listener's queue.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::{Accept, TlsAcceptor};

use super::certificates::Certificates;
use super::secured::Secured;
use crate::limits::HANDSHAKE_MS_MAX;

/// The handshakes in progress, each with the places (`P`) that its connection holds. Dropping this
/// ends them.
#[derive(Debug)]
pub(crate) struct Handshakes<P> {
    certificates: Certificates,
    under_way: JoinSet<(u64, Option<(Secured, P)>)>,
    /// For each handshake, its abort handle and whether it waits for its peer; the oldest first.
    handles: BTreeMap<u64, (AbortHandle, Arc<AtomicBool>)>,
    last: u64,
    handshakes_max: usize,
}

impl<P: Send + 'static> Handshakes<P> {
    /// Accepts at most `handshakes_max` handshakes at a time.
    pub(crate) fn new(certificates: Certificates, handshakes_max: usize) -> Self {
        let (under_way, handles) = (JoinSet::new(), BTreeMap::new());
        Self { certificates, under_way, handles, last: 0, handshakes_max }
    }

    /// Whether a handshake can begin: a place is free, or a handshake waits for its peer.
    pub(crate) fn has_place(&self) -> bool {
        self.handles.len() < self.handshakes_max || self.oldest_waiting().is_some()
    }

    /// Begins a handshake; [`Handshakes::has_place`] must be true. Returns how many older
    /// handshakes were aborted for it.
    pub(crate) fn begin(&mut self, stream: TcpStream, places: P) -> u64 {
        let mut closed = 0;
        while self.handles.len() >= self.handshakes_max
            && let Some((handle, _)) = self.oldest_waiting().and_then(|it| self.handles.remove(&it))
        {
            handle.abort();
            closed += 1;
        }
        self.last += 1;
        let number = self.last;
        let paced = accept(&self.certificates, stream);
        let waits = paced.waits.clone();
        let handle = self.under_way.spawn(async move {
            let time = Duration::from_millis(HANDSHAKE_MS_MAX);
            match tokio::time::timeout(time, paced).await {
                Ok(Ok(stream)) => (number, Some((stream, places))),
                // The peer is too slow, does not speak TLS, or was refused: the connection is
                // closed.
                Ok(Err(_)) | Err(_) => (number, None),
            }
        });
        self.handles.insert(number, (handle, waits));
        closed
    }

    fn oldest_waiting(&self) -> Option<u64> {
        let waits = |waits: &AtomicBool| waits.load(Ordering::Relaxed);
        self.handles.iter().find(|(_, (_, it))| waits(it)).map(|(number, _)| *number)
    }

    /// Returns the next connection whose handshake is complete, with its places.
    pub(crate) fn poll_complete(&mut self, context: &mut Context<'_>) -> Poll<(Secured, P)> {
        loop {
            match ready!(self.under_way.poll_join_next(context)) {
                Some(Ok((number, complete))) => {
                    self.handles.remove(&number);
                    if let Some(complete) = complete {
                        return Poll::Ready(complete);
                    }
                }
                // The handshake was aborted for a newer one.
                Some(Err(_)) => {}
                None => return Poll::Pending,
            }
        }
    }
}

/// A turn among the steps of all handshakes.
struct Turn {
    turns: Arc<Semaphore>,
    waiting: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
}

impl Turn {
    fn new(turns: Arc<Semaphore>) -> Self {
        Self { turns, waiting: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        if self.waiting.is_none()
            && let Ok(permit) = self.turns.clone().try_acquire_owned()
        {
            return Poll::Ready(Some(permit));
        }
        let turns = &self.turns;
        let waiting = self.waiting.get_or_insert_with(|| {
            let turns = turns.clone();
            Box::pin(async move { turns.acquire_owned().await.ok() })
        });
        let permit = ready!(waiting.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(permit)
    }
}

/// Begins a handshake. Its steps take turns with the steps of all other handshakes.
pub(crate) fn accept(certificates: &Certificates, stream: TcpStream) -> Paced {
    let accept = TlsAcceptor::from(certificates.config()).accept(stream);
    Paced { accept, turn: Turn::new(certificates.turn()), waits: Arc::default() }
}

/// A handshake. Its steps take turns with the steps of other handshakes.
pub(crate) struct Paced {
    accept: Accept<TcpStream>,
    turn: Turn,
    /// Whether the handshake waits for data from its peer.
    waits: Arc<AtomicBool>,
}

impl Future for Paced {
    type Output = io::Result<Secured>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Secured>> {
        let this = &mut *self;
        this.waits.store(false, Ordering::Relaxed);
        let _turn = ready!(this.turn.poll(context));
        let accepted = Pin::new(&mut this.accept).poll(context);
        this.waits.store(accepted.is_pending(), Ordering::Relaxed);
        accepted.map_ok(|stream| Secured::Tls(Box::new(stream)))
    }
}
