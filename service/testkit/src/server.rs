//! A server in the process of a test: starts and stops its task, and waits with a timeout.

use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Timeout of every wait; only a hang exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A listener, and the address at which it listens.
#[derive(Debug)]
pub struct FreePort {
    /// Bound and listening: connections wait until a server accepts them.
    pub listener: TcpListener,
    /// Its address, with the assigned port.
    pub address: SocketAddr,
}

/// A server that runs until it is stopped. Dropping it stops the server and panics if the server
/// returned an error.
#[derive(Debug)]
pub struct Serving<E: Debug> {
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<Result<(), E>>>,
}

/// Listens at an address; port 0 selects any free port.
///
/// # Panics
/// When the address cannot be bound.
pub async fn bind(address: SocketAddr) -> FreePort {
    let listener = TcpListener::bind(address).await.expect("the address is free");
    let address = listener.local_addr().expect("it listens");
    FreePort { listener, address }
}

/// Listens at any free port of loopback.
///
/// # Panics
/// When no port is free.
pub async fn bind_any() -> FreePort {
    bind(SocketAddr::from(([127, 0, 0, 1], 0))).await
}

/// Fails the test after [`PATIENCE`].
///
/// # Panics
/// If `future` is not ready by then.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("timed out")
}

/// Waits until a condition holds.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(polling).await;
}

impl<E: Debug + Send + 'static> Serving<E> {
    /// Spawns the future that `serve` returns. It must end after its [`Shutdown`] completes.
    pub fn start<F>(serve: impl FnOnce(Shutdown) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(Shutdown(stopped)));
        Self { stop: Some(stop), task: Some(task) }
    }

    /// Requests the server to stop.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until the server ends, and returns its result.
    ///
    /// # Panics
    /// If the server panicked.
    pub async fn ended(mut self) -> Result<(), E> {
        let task = self.task.take().expect("it is awaited once");
        within(task).await.expect("the server does not panic")
    }

    /// Stops the server, waits for its end and returns its result.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn stop(mut self) -> Result<(), E> {
        self.begin_stop();
        self.ended().await
    }
}

impl<E: Debug> Drop for Serving<E> {
    /// Confirms that the server stops without error, unless the test failed.
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(task) = self.task.take().filter(|_| !std::thread::panicking()) {
            let stopped = || Handle::current().block_on(within(task));
            let ended = tokio::task::block_in_place(stopped);
            ended.expect("the server does not panic").expect("the server ends in order");
        }
    }
}

/// Future that completes when the server must stop.
#[derive(Debug)]
pub struct Shutdown(oneshot::Receiver<()>);

impl Shutdown {
    /// Waits until the server must stop.
    pub async fn wait(self) {
        drop(self.0.await);
    }
}
