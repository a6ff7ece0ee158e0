//! An in-process server on a free port for one test, with its clients; stopped on drop.

use std::future::pending;
use std::net::SocketAddr;

use shoal_client::Secret;
use shoal_engine::Clock;
use shoal_proto::v1;
use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use shoal_service::follower::LeaderLink;
use shoal_service::server::Environment;
use shoal_service::{EngineChoice, Listeners, ServerOptions, ServiceError};
use shoal_testkit::server::{PATIENCE, Serving, bind, bind_any};
pub(crate) use shoal_testkit::server::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoRequest, Response, Status, Streaming};
use tonic_types::{RpcStatusExt as _, StatusExt as _};

use crate::subscriber::{Subscriber, subscribe};

/// 2020-01-01T00:00:00Z.
pub(crate) const START_MS: i64 = 1_577_836_800_000;

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) metrics_address: SocketAddr,
    pub(crate) http_address: SocketAddr,
    serving: Serving<ServiceError>,
}

/// Default test options, with an event clock for deterministic times. It follows every row: most
/// tests have few, far apart.
pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        default_clock: Clock::Event,
        default_event_clock_lead_ms: Some(i64::from(i32::MAX) * 10_000),
        leader_link: LeaderLink {
            replication_secret: Some(replication_secret()),
            ..LeaderLink::default()
        },
        ..ServerOptions::default()
    }
}

/// The replication secret of all servers.
pub(crate) fn replication_secret() -> Secret {
    "sixteen-or-more-characters".parse().unwrap()
}

/// The production environment with the CPU engine.
pub(crate) fn environment() -> Environment {
    Environment::new(EngineChoice::Cpu.factory(None))
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::start_with(options()).await
    }

    pub(crate) async fn start_with(options: ServerOptions) -> Self {
        Self::start_in(environment(), options).await
    }

    pub(crate) async fn start_in(environment: Environment, options: ServerOptions) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), environment, options).await
    }

    /// Starts a server at an address, port 0 for any.
    pub(crate) async fn start_at(
        address: SocketAddr,
        environment: Environment,
        options: ServerOptions,
    ) -> Self {
        let (clients, metrics, http) = (bind(address).await, bind_any().await, bind_any().await);
        let listeners = Listeners {
            clients: clients.listener,
            metrics: Some(metrics.listener),
            http: Some(http.listener),
        };
        let serving = Serving::start(|stopped| {
            shoal_service::server::run_in(environment, listeners, options, stopped.wait())
        });
        let running = Self {
            address: clients.address,
            metrics_address: metrics.address,
            http_address: http.address,
            serving,
        };
        // The listeners are bound; this waits for the recovery of the fleets.
        let mut fleets = running.fleets().await;
        until(async || match fleets.list_fleets(v1::ListFleetsRequest::default()).await {
            Ok(_) => true,
            // It has no token.
            Err(status) if status.code() == Code::Unauthenticated => true,
            Err(status) => {
                assert_refused(&status, "RECOVERING");
                false
            }
        })
        .await;
        running
    }

    /// Opens a separate connection. A call that is not answered fails in the end.
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.timeout(2 * PATIENCE).connect().await.unwrap()
    }

    pub(crate) async fn positions(&self) -> PositionServiceClient<Channel> {
        PositionServiceClient::new(self.channel().await)
    }

    pub(crate) async fn queries(&self) -> QueryServiceClient<Channel> {
        QueryServiceClient::new(self.channel().await)
    }

    pub(crate) async fn subscriptions(&self) -> SubscriptionServiceClient<Channel> {
        SubscriptionServiceClient::new(self.channel().await)
    }

    pub(crate) async fn fleets(&self) -> FleetServiceClient<Channel> {
        FleetServiceClient::new(self.channel().await)
    }

    /// Requests the server to stop.
    pub(crate) fn begin_stop(&mut self) {
        self.serving.begin_stop();
    }

    /// Stops the server.
    pub(crate) async fn stop(self) {
        self.serving.stop().await.unwrap();
    }

    pub(crate) async fn stopped(self) {
        self.serving.ended().await.unwrap();
    }

    /// Stops a server whose disk may have crashed.
    pub(crate) async fn abandon(self) {
        let _ = self.serving.stop().await;
    }

    /// Stops a server that cannot end in order, and returns its error.
    pub(crate) async fn stop_with_error(self) -> ServiceError {
        self.serving.stop().await.unwrap_err()
    }

    /// Status line and body of a path at the monitoring address.
    pub(crate) async fn http(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.metrics_address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// The description of a fleet by `GetFleet`.
    pub(crate) async fn fleet(&self, name: &str) -> v1::Fleet {
        let request = v1::GetFleetRequest { name: name.into() };
        self.fleets().await.get_fleet(request).await.unwrap().into_inner().fleet.unwrap()
    }

    /// Subscribes to regions of the fleet `default`.
    pub(crate) async fn subscriber(&self, regions: Vec<v1::RegionSubscription>) -> Subscriber {
        Subscriber::open(self.subscriptions().await, subscribe(regions)).await.unwrap()
    }

    /// One value of `/metrics`, by name and labels as printed.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let (_, text) = self.http("/metrics").await;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in\n{text}")).trim().parse().unwrap()
    }
}

/// Why a server does not start.
pub(crate) async fn refused_start(environment: Environment, options: ServerOptions) -> String {
    let run = shoal_service::server::run_in;
    let refused = run(environment, bind_any().await.listener, options, pending());
    within(refused).await.unwrap_err().to_string()
}

pub(crate) fn fix(object: u64, time_ms: i64, x: f64, y: f64) -> v1::Fix {
    v1::Fix { object, time_ms, x, y, ..v1::Fix::default() }
}

pub(crate) fn rows(fixes: Vec<v1::Fix>) -> v1::ReportRequest {
    let payload = Some(v1::report_request::Payload::Rows(v1::Rows { fixes }));
    v1::ReportRequest { payload, ..v1::ReportRequest::default() }
}

pub(crate) fn block(bytes: Vec<u8>) -> v1::ReportRequest {
    let payload = Some(v1::report_request::Payload::Block(bytes.into()));
    v1::ReportRequest { payload, ..v1::ReportRequest::default() }
}

/// Sends messages on one stream, closes it, and returns all acknowledgements.
pub(crate) async fn report(
    client: &mut PositionServiceClient<Channel>,
    messages: Vec<v1::ReportRequest>,
) -> Vec<v1::ReportAck> {
    let stream = client.report(tokio_stream::iter(messages)).await.unwrap().into_inner();
    let responses = within(collect(stream)).await.unwrap();
    responses.into_iter().map(|response| response.ack.unwrap()).collect()
}

/// Reports by the unary call.
pub(crate) trait ReportsOnce {
    async fn once(
        &mut self,
        request: impl IntoRequest<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportAck>, Status>;
}

impl ReportsOnce for PositionServiceClient<Channel> {
    async fn once(
        &mut self,
        request: impl IntoRequest<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportAck>, Status> {
        use v1::report_once_request::Payload as Once;
        use v1::report_request::Payload;
        let request = request.into_request().map(|request| {
            let v1::ReportRequest {
                fleet,
                producer,
                batch_seq,
                payload,
                durability,
                drop_invalid_measures,
                block_names,
            } = request;
            let payload = payload.map(|payload| match payload {
                Payload::Rows(rows) => Once::Rows(rows),
                Payload::Block(block) => Once::Block(block),
            });
            v1::ReportOnceRequest {
                fleet,
                producer,
                batch_seq,
                payload,
                durability,
                drop_invalid_measures,
                block_names,
            }
        });
        Ok(self.report_once(request).await?.map(|response| response.ack.unwrap()))
    }
}

/// Milliseconds as a protobuf duration.
pub(crate) fn millis(millis: u64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: (millis / 1_000) as i64,
        nanos: (millis % 1_000) as i32 * 1_000_000,
    }
}

/// The stable reason of an embedded status.
pub(crate) fn reason(status: Option<&tonic_types::Status>) -> String {
    let info = status.unwrap().get_error_details().error_info().cloned();
    info.expect("every status has ErrorInfo").reason
}

/// The text of an embedded status.
pub(crate) fn detail(status: Option<&tonic_types::Status>) -> &str {
    &status.unwrap().message
}

/// The violated field of an embedded status.
pub(crate) fn path(status: Option<&tonic_types::Status>) -> String {
    let details = status.unwrap().get_error_details();
    details.bad_request().expect("a field is wrong").field_violations[0].field.clone()
}

/// All messages of a stream.
pub(crate) async fn collect<T>(mut stream: Streaming<T>) -> Result<Vec<T>, Status> {
    let mut items = Vec::new();
    while let Some(item) = stream.message().await? {
        items.push(item);
    }
    Ok(items)
}

/// Sums of acknowledgements: applied rows, refused rows, failed messages. Confirms that the
/// acknowledged ranges are contiguous.
pub(crate) fn sums(acks: &[v1::ReportAck]) -> (u64, u64, u64) {
    let mut next = acks.first().map_or(1, |ack| ack.first_message);
    let mut sums = (0, 0, 0);
    for ack in acks {
        assert_eq!(ack.first_message, next, "acknowledgements have a gap");
        assert!(ack.last_message >= ack.first_message);
        next = ack.last_message + 1;
        let rows = ack.rows.unwrap_or_default();
        sums = (sums.0 + rows.applied, sums.1 + rows.refused, sums.2 + ack.failed_messages);
    }
    sums
}

/// A complete answer, assembled from its chunks.
pub(crate) struct Whole {
    pub(crate) header: v1::AnswerHeader,
    pub(crate) objects: Vec<u64>,
    pub(crate) fixes: Vec<v1::FixRecord>,
    pub(crate) distance_m: Vec<f64>,
    pub(crate) names: Vec<String>,
}

/// One message of an answer; `NearestResponse` has the fields of all others.
pub(crate) trait Chunk {
    fn widened(self) -> v1::NearestResponse;
}

impl Chunk for v1::GetResponse {
    fn widened(self) -> v1::NearestResponse {
        let Self { header, objects, fixes, names } = self;
        v1::NearestResponse { header, objects, fixes, names, ..Default::default() }
    }
}

impl Chunk for v1::RangeResponse {
    fn widened(self) -> v1::NearestResponse {
        let Self { header, objects, fixes, names } = self;
        v1::NearestResponse { header, objects, fixes, names, ..Default::default() }
    }
}

impl Chunk for v1::NearestResponse {
    fn widened(self) -> v1::NearestResponse {
        self
    }
}

pub(crate) async fn whole<T: Chunk>(stream: Streaming<T>) -> Result<Whole, Status> {
    let mut header = None;
    let (mut objects, mut fixes) = (Vec::new(), Vec::new());
    let (mut distance_m, mut names) = (Vec::new(), Vec::new());
    for (index, chunk) in within(collect(stream)).await?.into_iter().enumerate() {
        let chunk = chunk.widened();
        assert_eq!(chunk.header.is_some(), index == 0, "the header is in the first chunk");
        header = header.or(chunk.header);
        objects.extend(chunk.objects);
        fixes.extend(chunk.fixes);
        distance_m.extend(chunk.distance_m);
        names.extend(chunk.names);
    }
    Ok(Whole { header: header.unwrap(), objects, fixes, distance_m, names })
}

/// A rectangle.
pub(crate) fn rectangle(west: f64, south: f64, east: f64, north: f64) -> v1::Region {
    let sides = v1::Rectangle { west, south, east, north };
    v1::Region { kind: Some(v1::region::Kind::Rectangle(sides)) }
}

/// The whole world.
pub(crate) fn world() -> v1::Region {
    rectangle(-180.0, -90.0, 180.0, 90.0)
}

/// Ids of all objects in a region, at the epoch of a token or later.
pub(crate) async fn objects_in(
    client: &mut QueryServiceClient<Channel>,
    region: v1::Region,
    min_token: Vec<u8>,
) -> Vec<u64> {
    let options = v1::QueryOptions { min_token, ..v1::QueryOptions::default() };
    let request = v1::RangeRequest { options: Some(options), region: Some(region) };
    whole(client.range(request).await.unwrap().into_inner()).await.unwrap().objects
}

/// The single violated field of a request.
pub(crate) fn violated_field(status: &Status) -> String {
    let details = status.get_error_details();
    let violations =
        &details.bad_request().unwrap_or_else(|| panic!("{status:?}")).field_violations;
    assert_eq!(violations.len(), 1, "{status:?}");
    violations[0].field.clone()
}

/// The status code of every error reason in these tests.
const CODES: [(Code, &[&str]); 13] = [
    (Code::Aborted, &["FLEET_DELETED", "FOLLOWER_REPLACED", "SESSION_TAKEN_OVER"]),
    (Code::AlreadyExists, &["FLEET_EXISTS"]),
    (Code::DeadlineExceeded, &["DEADLINE"]),
    (
        Code::FailedPrecondition,
        &[
            "FENCED",
            "FOLLOWER",
            "LEADER_REACHABLE",
            "LOST",
            "NOT_FENCED",
            "NOT_FOLLOWER",
            "NO_LOG",
            "OUT_OF_ORDER",
            "PRODUCER_UNKNOWN",
            "SESSION_OTHER_FLEET",
            "TOKEN_TERM",
        ],
    ),
    (Code::Internal, &["FRAMING"]),
    (
        Code::InvalidArgument,
        &["BLOCK", "FIELD", "FLEET_NAME", "MALFORMED", "SPACE_MISMATCH", "TOKEN"],
    ),
    (Code::NotFound, &["DESCRIPTOR_UNKNOWN", "FLEET_UNKNOWN", "SERVICE_UNKNOWN", "SESSION_GONE"]),
    (Code::OutOfRange, &["MESSAGE_TOO_LARGE"]),
    (Code::PermissionDenied, &["PERMISSION_DENIED"]),
    (Code::ResourceExhausted, &["BUSY", "ENGINE_MEMORY", "LIMIT", "LOG_SPACE", "QUOTA"]),
    (Code::Unauthenticated, &["UNAUTHENTICATED"]),
    (
        Code::Unavailable,
        &[
            "ENGINE_DEVICE",
            "FLEET_FAILED",
            "FOLLOWER_BEHIND",
            "LOG_FAILED",
            "RECOVERING",
            "SHUTTING_DOWN",
        ],
    ),
    (Code::Unimplemented, &["COMPRESSION_UNSUPPORTED", "METHOD_UNKNOWN", "NO_REPLICATION"]),
];

/// Confirms the reason and the code of a status.
pub(crate) fn assert_refused(status: &Status, reason: &str) {
    let info = status.get_error_details().error_info().cloned();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
    assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "shoal"), "{status:?}");
    let code = CODES.iter().find(|(_, reasons)| reasons.contains(&reason)).unwrap().0;
    assert_eq!(status.code(), code, "{status:?}");
}

/// Confirms that a call fails for a reason, and returns its status.
pub(crate) fn refused<T>(result: Result<T, Status>, reason: &str) -> Status {
    let status = result.err().unwrap_or_else(|| panic!("not refused: {reason}"));
    assert_refused(&status, reason);
    status
}
