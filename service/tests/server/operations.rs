//! Operations: health, reflection, metrics, and refusal of unprotected listen addresses.

use shoal_service::access::AccessOptions;
use shoal_service::tls::TlsOptions;
use shoal_service::{ServerOptions, ServiceError};
use tokio::net::TcpListener;
use tonic::Code;
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::running::{Running, START_MS, fix, objects_in, report, rows, until, within, world};

const SERVICES: [&str; 4] = [
    "shoal.v1.FleetService",
    "shoal.v1.PositionService",
    "shoal.v1.QueryService",
    "shoal.v1.SubscriptionService",
];

#[tokio::test(flavor = "multi_thread")]
async fn health_covers_the_server_and_each_service() {
    let server = Running::start().await;
    let mut client = HealthClient::new(server.channel().await);
    for service in SERVICES.into_iter().chain([""]) {
        let mut is_serving = async || {
            let request = HealthCheckRequest { service: service.into() };
            let status = client.check(request).await.unwrap().into_inner().status;
            status == ServingStatus::Serving as i32
        };
        let serving = async {
            while !is_serving().await {
                tokio::task::yield_now().await;
            }
        };
        within(serving).await;
    }
    let request = HealthCheckRequest { service: "shoal.v1.None".into() };
    assert_eq!(client.check(request).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(server.http("/healthz").await.1, "serving\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_lists_the_services() {
    let server = Running::start().await;
    let mut client = ServerReflectionClient::new(server.channel().await);
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let stream = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap();
    let response = stream.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = response.message_response else {
        panic!("{response:?}");
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for service in SERVICES.into_iter().chain(["grpc.health.v1.Health"]) {
        assert!(names.contains(&service), "{service} is not in {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_rows_and_requests() {
    let server = Running::start().await;
    let bad = fix(3, START_MS, f64::NAN, 0.0);
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0), fix(2, START_MS, 0.0, 0.0), bad]);
    let acks = report(&mut server.positions().await, vec![message]).await;
    let mut queries = server.queries().await;
    objects_in(&mut queries, world(), acks[0].token.clone()).await;
    let (status, text) = server.http("/metrics").await;
    assert!(status.contains("200"), "{status}");
    assert!(text.ends_with("# EOF\n"));
    for line in [
        r#"shoal_rows_total{fleet="default",outcome="applied"} 2"#,
        r#"shoal_rows_total{fleet="default",outcome="late"} 0"#,
        r#"shoal_rows_refused_total{fleet="default",reason="not_finite"} 1"#,
        r#"shoal_messages_total{fleet="default",outcome="applied"} 1"#,
        r#"shoal_queries_total{fleet="default",kind="range"} 1"#,
        r#"shoal_objects{fleet="default"} 2"#,
        r#"shoal_queue_rows{fleet="default"} 0"#,
        r#"shoal_ack_seconds_count{fleet="default"} 1"#,
        r#"shoal_query_seconds_count{fleet="default"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    for series in ["shoal_cycle_seconds_bucket", "shoal_memory_bytes", "shoal_connections "] {
        assert!(text.contains(series), "no {series} in\n{text}");
    }
    until(async || server.metric("shoal_streams").await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_beyond_loopback_requires_permission() {
    let options = ServerOptions { listen: ([0, 0, 0, 0], 0).into(), ..ServerOptions::default() };
    let error = options.check().unwrap_err();
    assert!(matches!(error, ServiceError::Insecure { .. }));
    assert!(error.to_string().contains("--insecure"), "{error}");
    ServerOptions { insecure: true, ..options }.check().unwrap();
    // HTTP has the same TLS and tokens as gRPC; monitoring has none.
    let everywhere = Some(([0, 0, 0, 0], 0).into());
    let access = AccessOptions { tokens: Some("tokens.toml".into()), ..Default::default() };
    let (certificate, key) = ("cert.pem".into(), "key.pem".into());
    let tls = Some(TlsOptions { certificate, key, client_ca: None });
    let open = ServerOptions { http_listen: everywhere, ..ServerOptions::default() };
    let with_tls = ServerOptions { tls, ..open.clone() };
    for options in [&open, &with_tls] {
        assert!(matches!(options.check(), Err(ServiceError::Insecure { .. })));
    }
    let guarded = ServerOptions { access, ..with_tls };
    guarded.check().unwrap();
    let monitored = ServerOptions { metrics_listen: everywhere, ..guarded };
    assert!(matches!(monitored.check(), Err(ServiceError::Insecure { .. })));
    // The bound address of the listener decides, not the options.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let run = shoal_service::run(listener, ServerOptions::default(), async {}).await;
    assert!(matches!(run, Err(ServiceError::Insecure { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_engine_is_named() {
    let engine = shoal_service::EngineChoice::Cuda;
    let error = ServerOptions { engine, ..ServerOptions::default() }.check().unwrap_err();
    assert!(matches!(error, ServiceError::EngineUnavailable { engine: "cuda", .. }), "{error}");
}
