//! How does a command reach its server?
//!
//! One channel, connected eagerly so that an absent server is said at once. Every unary request
//! carries the timeout as its gRPC deadline. Holds no state besides.

use std::future::Future;
use std::time::Duration;

use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::cli::connection::ConnectionArgs;
use crate::cli::error::CliError;

/// A server that answered.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    target: String,
    timeout: Duration,
}

impl Connection {
    /// Connects to the server that the flags name.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a URL that cannot be, [`CliError::Connect`] when nobody answers.
    pub async fn open(args: &ConnectionArgs) -> Result<Self, CliError> {
        Self::to(&args.target, args.timeout).await
    }

    /// Connects to `target`, a URL with scheme http.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn to(target: &str, timeout: Duration) -> Result<Self, CliError> {
        let url = with_scheme(target)?;
        let endpoint = Endpoint::from_shared(url.clone())
            .map_err(|error| CliError::Usage(format!("--target {target}: {error}")))?;
        let endpoint = endpoint.connect_timeout(timeout).tcp_nodelay(true);
        let channel = endpoint.connect().await.map_err(|error| CliError::Connect {
            target: url.clone(),
            reason: root_cause(&error),
        })?;
        Ok(Self { channel, target: url, timeout })
    }

    /// The server's URL.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Longest wait for an answer.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Its fleet service.
    #[must_use]
    pub fn fleets(&self) -> FleetServiceClient<Channel> {
        FleetServiceClient::new(self.channel.clone())
    }

    /// Its position service.
    #[must_use]
    pub fn positions(&self) -> PositionServiceClient<Channel> {
        PositionServiceClient::new(self.channel.clone())
    }

    /// Its query service.
    #[must_use]
    pub fn queries(&self) -> QueryServiceClient<Channel> {
        QueryServiceClient::new(self.channel.clone())
    }

    /// Its subscription service.
    #[must_use]
    pub fn subscriptions(&self) -> SubscriptionServiceClient<Channel> {
        SubscriptionServiceClient::new(self.channel.clone())
    }

    /// `message` with the timeout as its deadline.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }

    /// Waits for `answer`, at most the timeout.
    ///
    /// # Errors
    /// [`CliError::Silent`] when it does not come, [`CliError::Refused`] when it is a refusal.
    pub async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, CliError> {
        match tokio::time::timeout(self.timeout, answer).await {
            // So does tonic's own timer end a call; nobody else cancels one of ours.
            Ok(Err(status)) if status.code() == Code::Cancelled => Err(self.silent()),
            Ok(result) => result.map_err(CliError::from),
            Err(_) => Err(self.silent()),
        }
    }

    /// The error for a server that said nothing for the whole timeout.
    #[must_use]
    pub fn silent(&self) -> CliError {
        CliError::Silent { target: self.target.clone(), timeout_s: self.timeout.as_secs_f64() }
    }
}

/// `HOST:PORT` means http; TLS is refused by name because this build has none.
fn with_scheme(target: &str) -> Result<String, CliError> {
    if target.starts_with("https://") {
        let reason = format!("--target {target}: this client has no TLS yet; use http://");
        return Err(CliError::Usage(reason));
    }
    if target.contains("://") { Ok(target.to_owned()) } else { Ok(format!("http://{target}")) }
}

/// The innermost reason: the outer ones only say "transport error".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
