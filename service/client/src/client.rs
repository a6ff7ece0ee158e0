//! A connection to a server, and the calls with a single response.
//!
//! `connect` establishes the connection, so it fails if no server answers. Each call has the
//! timeout as its gRPC deadline.

use std::error::Error as _;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use shoal_proto::v1;
use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_proto::v1::log_service_client::LogServiceClient;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Response, Status, TimeoutExpired};

use crate::error::{Error, innermost};
use crate::secret::Secret;
use crate::tls::ClientTls;
use crate::transport::Transport;

/// Maximum number of objects in one `Remove` request.
const REMOVE_OBJECTS_MAX: usize = 65_536;

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The longest time to connect, to wait for a response, or for the next sign of progress of a
    /// stream.
    pub timeout: Duration,
    /// HTTP/2 flow-control window of one stream, in bytes: the maximum of unread data. `None` keeps
    /// the protocol's default of 65,535.
    pub stream_window_bytes: Option<u32>,
    /// HTTP/2 flow-control window of all streams together, in bytes.
    pub connection_window_bytes: Option<u32>,
    /// The largest HTTP/2 frame that the server may send, in bytes.
    pub frame_bytes_max: Option<u32>,
    /// The longest message that the client accepts, in bytes. The server sends at most 1 MiB, but
    /// more in a list of logs.
    pub message_bytes_max: usize,
    /// Sent with each call. Over `http://` everyone on the way can read it.
    pub token: Option<Secret>,
    /// Sent with each call; a server demands it for `LogService`.
    pub replication_secret: Option<Secret>,
    /// For targets with `https://`.
    pub tls: ClientTls,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            stream_window_bytes: None,
            connection_window_bytes: None,
            frame_bytes_max: None,
            message_bytes_max: 8 << 20,
            token: None,
            replication_secret: None,
            tls: ClientTls::default(),
        }
    }
}

/// A connection to a server. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    target: Arc<str>,
    options: ConnectOptions,
}

impl Client {
    /// Connects to `target`: `https://HOST:PORT`, `http://HOST:PORT`, or `HOST:PORT`, which is
    /// `http://`.
    ///
    /// # Errors
    /// [`Error::Target`] for a URL that cannot be used, [`Error::Connect`] if no server answers.
    pub async fn connect(target: &str, options: ConnectOptions) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Target { target: target.to_owned(), reason };
        let has_scheme = target.contains("://");
        let url = if has_scheme { target.to_owned() } else { format!("http://{target}") };
        let endpoint =
            Endpoint::from_shared(url.clone()).map_err(|error| wrong(error.to_string()))?;
        let endpoint = match url.starts_with("https://") {
            true => endpoint
                .tls_config(options.tls.config().map_err(wrong)?)
                .map_err(|error| wrong(innermost(&error).to_string()))?,
            false => endpoint,
        };
        let endpoint = endpoint
            .connect_timeout(options.timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(options.stream_window_bytes)
            .initial_connection_window_size(options.connection_window_bytes)
            .max_frame_size(options.frame_bytes_max);
        let connected = endpoint.connect().await;
        let channel = connected.map_err(|error| Error::Connect {
            target: url.clone(),
            reason: innermost(&error).to_string(),
        })?;
        let transport =
            Transport::new(channel, options.token.as_ref(), options.replication_secret.as_ref());
        Ok(Self { transport, target: url.into(), options })
    }

    /// Another connection to the same target.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn reconnect(&self) -> Result<Self, Error> {
        Self::connect(&self.target, self.options.clone()).await
    }

    /// The server's URL.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The settings of the connection.
    #[must_use]
    pub fn options(&self) -> &ConnectOptions {
        &self.options
    }

    /// The gRPC channel, for calls with a custom codec.
    #[must_use]
    pub fn channel(&self) -> Transport {
        self.transport.clone()
    }

    /// The generated client of the fleet service.
    #[must_use]
    pub fn fleet_service(&self) -> FleetServiceClient<Transport> {
        FleetServiceClient::new(self.channel())
            .max_decoding_message_size(self.options.message_bytes_max)
    }

    /// The generated client of the position service.
    #[must_use]
    pub fn position_service(&self) -> PositionServiceClient<Transport> {
        PositionServiceClient::new(self.channel())
            .max_decoding_message_size(self.options.message_bytes_max)
    }

    /// The generated client of the query service.
    #[must_use]
    pub fn query_service(&self) -> QueryServiceClient<Transport> {
        QueryServiceClient::new(self.channel())
            .max_decoding_message_size(self.options.message_bytes_max)
    }

    /// The generated client of the subscription service.
    #[must_use]
    pub fn subscription_service(&self) -> SubscriptionServiceClient<Transport> {
        SubscriptionServiceClient::new(self.channel())
            .max_decoding_message_size(self.options.message_bytes_max)
    }

    /// The generated client of the history service.
    #[must_use]
    pub fn history_service(&self) -> HistoryServiceClient<Transport> {
        HistoryServiceClient::new(self.channel())
            .max_decoding_message_size(self.options.message_bytes_max)
    }

    /// The generated client of the log service.
    #[must_use]
    pub fn log_service(&self) -> LogServiceClient<Transport> {
        LogServiceClient::new(self.channel())
            .max_decoding_message_size(self.options.message_bytes_max)
    }

    /// Makes a follower the leader; returns the new terms.
    ///
    /// # Errors
    /// Those of `LogService.Promote`.
    pub async fn promote(&self, force: bool) -> Result<Vec<v1::FleetTerm>, Error> {
        let mut service = self.log_service();
        let request = self.request(v1::PromoteRequest { force });
        self.call(service.promote(request)).await.map(|promoted| promoted.fleets)
    }

    /// Lets a fenced fleet take changes again.
    ///
    /// # Errors
    /// Those of the server.
    pub async fn unfence(&self, fleet: &str) -> Result<(), Error> {
        let mut service = self.log_service();
        let request = self.request(v1::UnfenceRequest { fleet: fleet.to_owned() });
        self.call(service.unfence(request)).await.map(drop)
    }

    /// Creates a fleet.
    ///
    /// # Errors
    /// Those of `FleetService.CreateFleet`.
    pub async fn create_fleet(&self, request: v1::CreateFleetRequest) -> Result<v1::Fleet, Error> {
        let mut service = self.fleet_service();
        let created = self.call(service.create_fleet(self.request(request))).await?;
        present(created.fleet, "fleet")
    }

    /// A fleet as it is now; an empty name means `default`.
    ///
    /// # Errors
    /// Those of `FleetService.GetFleet`: [`v1::ErrorReason::FleetUnknown`] if there is none.
    pub async fn get_fleet(&self, name: &str) -> Result<v1::Fleet, Error> {
        let request = v1::GetFleetRequest { name: name.to_owned() };
        let mut service = self.fleet_service();
        let found = self.call(service.get_fleet(self.request(request))).await?;
        present(found.fleet, "fleet")
    }

    /// All fleets in ascending order of name.
    ///
    /// # Errors
    /// Those of `FleetService.ListFleets`.
    pub async fn list_fleets(&self) -> Result<Vec<v1::Fleet>, Error> {
        let (mut fleets, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = v1::ListFleetsRequest { page_token, ..Default::default() };
            let mut service = self.fleet_service();
            let page = self.call(service.list_fleets(self.request(request))).await?;
            fleets.extend(page.fleets);
            if page.next_page_token.is_empty() {
                return Ok(fleets);
            }
            page_token = page.next_page_token;
        }
    }

    /// Gives a fleet another name.
    ///
    /// # Errors
    /// Those of `FleetService.RenameFleet`.
    pub async fn rename_fleet(&self, name: &str, new_name: &str) -> Result<v1::Fleet, Error> {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let request = v1::RenameFleetRequest { name, new_name };
        let request = self.request(request);
        let answer = self.call(self.fleet_service().rename_fleet(request)).await?;
        Ok(answer.fleet.unwrap_or_default())
    }

    /// Removes every object of a fleet.
    ///
    /// # Errors
    /// Those of `FleetService.ClearFleet`.
    pub async fn clear_fleet(&self, name: &str) -> Result<v1::ClearFleetResponse, Error> {
        let request = v1::ClearFleetRequest { name: name.to_owned() };
        self.call(self.fleet_service().clear_fleet(self.request(request))).await
    }

    /// Deletes a fleet with all its objects.
    ///
    /// # Errors
    /// Those of `FleetService.DeleteFleet`.
    pub async fn delete_fleet(&self, name: &str) -> Result<(), Error> {
        let request = v1::DeleteFleetRequest { name: name.to_owned() };
        self.call(self.fleet_service().delete_fleet(self.request(request))).await?;
        Ok(())
    }

    /// Reports one message.
    ///
    /// # Errors
    /// Those of `PositionService.ReportOnce`.
    pub async fn report_once(
        &self,
        request: v1::ReportOnceRequest,
    ) -> Result<v1::ReportAck, Error> {
        let mut service = self.position_service();
        let response = self.call(service.report_once(self.request(request))).await?;
        present(response.ack, "acknowledgement")
    }

    /// Removes objects from a fleet. More than 65,536 objects take several requests, which are
    /// several epochs; counts are their sums, epoch and token those of the last.
    ///
    /// # Errors
    /// Those of `PositionService.Remove`.
    pub async fn remove(&self, fleet: &str, objects: &[u64]) -> Result<v1::RemoveResponse, Error> {
        let requests = objects.chunks(REMOVE_OBJECTS_MAX).map(|objects| v1::RemoveRequest {
            fleet: fleet.to_owned(),
            objects: objects.to_vec(),
            ..Default::default()
        });
        self.remove_all(requests).await
    }

    /// As [`Client::remove`], of objects of a named fleet by their names.
    ///
    /// # Errors
    /// Those of `PositionService.Remove`.
    pub async fn remove_named(
        &self,
        fleet: &str,
        names: &[String],
    ) -> Result<v1::RemoveResponse, Error> {
        let requests = names.chunks(REMOVE_OBJECTS_MAX).map(|names| v1::RemoveRequest {
            fleet: fleet.to_owned(),
            names: names.to_vec(),
            ..Default::default()
        });
        self.remove_all(requests).await
    }

    async fn remove_all(
        &self,
        requests: impl Iterator<Item = v1::RemoveRequest>,
    ) -> Result<v1::RemoveResponse, Error> {
        let mut sum = v1::RemoveResponse::default();
        for request in requests {
            let mut service = self.position_service();
            let removed = self.call(service.remove(self.request(request))).await?;
            sum = v1::RemoveResponse {
                removed_count: sum.removed_count + removed.removed_count,
                missing_count: sum.missing_count + removed.missing_count,
                ..removed
            };
        }
        Ok(sum)
    }

    /// `message` with the timeout as its deadline.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.options.timeout);
        request
    }

    /// Waits for the response of a call.
    pub(crate) async fn call<T>(
        &self,
        response: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Error> {
        self.wait(response).await.map(Response::into_inner)
    }

    /// Waits for `answer`, at most the timeout.
    pub(crate) async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(self.options.timeout, answer).await {
            Ok(Err(status)) if is_timeout(&status) => Err(self.timed_out()),
            Ok(result) => result.map_err(Error::from),
            Err(_) => Err(self.timed_out()),
        }
    }

    /// The error for a server that was silent for the whole timeout.
    pub(crate) fn timed_out(&self) -> Error {
        Error::Timeout { target: self.target.to_string(), timeout: self.options.timeout }
    }
}

/// True if a timer of tonic, at the client or at the server, ended the call. A broken connection
/// also cancels calls; the status then has the connection error as its source.
fn is_timeout(status: &Status) -> bool {
    let is_timer = |error| innermost(error).is::<TimeoutExpired>();
    status.code() == Code::Cancelled && status.source().is_none_or(is_timer)
}

/// A field that every response of its call has.
fn present<T>(field: Option<T>, name: &str) -> Result<T, Error> {
    field.ok_or_else(|| Error::Protocol(format!("the response has no {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_timer_makes_a_cancelled_call_a_timeout() {
        assert!(is_timeout(&Status::cancelled("Timeout expired")));
        assert!(is_timeout(&Status::from_error(Box::new(TimeoutExpired(())))));
        let mut broken = Status::cancelled("operation was canceled");
        broken.set_source(Arc::new(std::io::Error::other("connection closed")));
        assert!(!is_timeout(&broken));
    }
}
