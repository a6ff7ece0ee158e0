//! The sockets of a server, bound by its caller.

use tokio::net::TcpListener;

/// Bound listeners, each for one purpose.
#[derive(Debug)]
pub struct Listeners {
    /// gRPC.
    pub clients: TcpListener,
    /// `/metrics` and `/healthz`.
    pub metrics: Option<TcpListener>,
    /// HTTP.
    pub http: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    /// Listens for gRPC only.
    fn from(clients: TcpListener) -> Self {
        Self { clients, metrics: None, http: None }
    }
}
