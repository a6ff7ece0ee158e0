//! What a token may take: single calls beyond a quota are refused with the time to wait, streams
//! are served more slowly, and other tokens do not notice.

use std::time::Duration;

use prost::Message as _;
use shoal_client::{Client, ConnectOptions, Error, Payload, ReportOptions};
use shoal_proto::v1;
use shoal_service::ServerOptions;

use crate::running::{Running, START_MS, fix, options, rectangle, until, within, world};
use crate::token_maker::{ALL, TokenMaker, entry};

/// A server with the tokens `root`, `other` and `limited`, which has these quotas.
async fn limited(quotas: &str) -> (Running, TokenMaker) {
    let entries = [
        entry("root", &["*"], ALL, ""),
        entry("other", &["*"], ALL, ""),
        entry("limited", &["*"], ALL, &format!("[token.quotas]\n{quotas}\n")),
    ];
    let tokens = TokenMaker::new(&entries.concat());
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    (server, tokens)
}

async fn client(server: &Running, token: &str) -> Client {
    let token = Some(token.parse().unwrap());
    let options = ConnectOptions { token, ..ConnectOptions::default() };
    Client::connect(&server.address.to_string(), options).await.unwrap()
}

/// Confirms that a call fails because of a quota, and says when to try again.
fn over<T>(result: Result<T, Error>, quota: &str) {
    let Err(error) = result else { panic!("{quota} is not exceeded") };
    let error = error.server().unwrap_or_else(|| panic!("{error}")).clone();
    assert_eq!(error.reason_name, "QUOTA", "{error}");
    assert_eq!(error.metadata["quota"], quota);
    assert!(error.retry_after.is_some() && error.is_transient(), "{error}");
}

fn once(count: u64) -> v1::ReportOnceRequest {
    let fixes = (1..=count).map(|object| fix(object, START_MS, 1.0, 1.0)).collect();
    let payload = Some(v1::report_once_request::Payload::Rows(v1::Rows { fixes }));
    v1::ReportOnceRequest { payload, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_beyond_the_quota_wait_or_are_refused() {
    let (server, _tokens) = limited("rows_per_second = 50").await;
    let client = client(&server, "limited").await;
    client.report_once(once(200)).await.unwrap();
    over(client.report_once(once(1)).await, "rows_per_second");
    over(client.remove("", &[1]).await, "rows_per_second");
    // A stream waits for some seconds, and then all is applied.
    let mut stream = client.report(ReportOptions::unnumbered(""));
    let v1::report_once_request::Payload::Rows(sent) = once(10).payload.unwrap() else { panic!() };
    for _ in 0..5 {
        stream.send(Payload::Rows(sent.fixes.clone())).await.unwrap();
    }
    let totals = within(stream.finish()).await.unwrap();
    assert_eq!(totals.rows_total(), 50);
    // Others are not affected.
    let other = self::client(&server, "other").await;
    for _ in 0..10 {
        other.report_once(once(100)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_beyond_the_quota_wait_or_are_refused() {
    let (server, _tokens) = limited("queries_per_second = 20").await;
    let client = client(&server, "limited").await;
    let count =
        |regions| v1::CountRegionsRequest { regions: vec![world(); regions], ..Default::default() };
    let mut queries = client.query_service();
    queries.count_regions(count(60)).await.unwrap();
    let refused = queries.count_regions(count(1)).await.map_err(Error::from);
    over(refused, "queries_per_second");
    let range =
        v1::BatchQuery { kind: Some(v1::batch_query::Kind::Range(rectangle(0.0, 0.0, 1.0, 1.0))) };
    let request = v1::BatchRequest { queries: vec![range; 10], ..Default::default() };
    let messages = tokio_stream::iter(vec![request; 3]);
    let mut answers = queries.batch(messages).await.unwrap().into_inner();
    let mut results = 0;
    while let Some(answer) = within(answers.message()).await.unwrap() {
        assert_eq!(answer.error, None);
        results += answer.results.len();
    }
    assert_eq!(results, 30);
    let other = self::client(&server, "other").await;
    other.query_service().count_regions(count(1_000)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_connections_are_counted_while_they_are_open() {
    let (server, tokens) = limited("streams = 2\nconnections = 2").await;
    let first = client(&server, "limited").await;
    let subscribe = async |client: &Client| {
        let request = v1::SubscribeRequest::default();
        client.subscription_service().subscribe(request).await.map_err(Error::from)
    };
    let one = subscribe(&first).await.unwrap();
    let second = client(&server, "limited").await;
    let two = subscribe(&second).await.unwrap();
    over(subscribe(&first).await, "streams");
    let third = client(&server, "limited").await;
    over(third.list_fleets().await, "connections");
    // A connection without the token does not count.
    client(&server, "other").await.list_fleets().await.unwrap();
    drop((one, second, two));
    until(async || third.list_fleets().await.is_ok()).await;
    until(async || subscribe(&first).await.is_ok()).await;
    // A raised quota holds for the connections that exist.
    let raised = entry("limited", &["*"], ALL, "[token.quotas]\nconnections = 50\n");
    tokens.set_tokens(&raised);
    let mut more = Vec::new();
    until(async || {
        let client = client(&server, "limited").await;
        let is_served = client.list_fleets().await.is_ok();
        more.push(client);
        is_served
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_find_or_change_nothing_count_too() {
    let (server, _tokens) = limited("rows_per_second = 50\nqueries_per_second = 20").await;
    let (root, client) = (client(&server, "root").await, client(&server, "limited").await);
    let kind = v1::FleetKind::Named.into();
    let named = v1::CreateFleetRequest { name: "named".into(), kind, ..Default::default() };
    root.create_fleet(named).await.unwrap();
    let mut queries = client.query_service();
    let resolve = v1::ResolveRequest { fleet: "named".into(), names: vec!["a".into()] };
    let ask = v1::NamesRequest { fleet: "named".into(), objects: vec![1] };
    let refused = loop {
        let resolved = queries.resolve(resolve.clone()).await.map(drop);
        let Err(status) = resolved.and(queries.names(ask.clone()).await.map(drop)) else {
            continue;
        };
        break Err::<(), _>(Error::from(status));
    };
    over(refused, "queries_per_second");
    let unknown = v1::RemoveRequest {
        fleet: "named".into(),
        names: (0..200).map(|name| format!("none-{name}")).collect(),
        ..Default::default()
    };
    let mut positions = client.position_service();
    positions.remove(unknown.clone()).await.unwrap();
    over(positions.remove(unknown).await.map_err(Error::from), "rows_per_second");
    let refused = loop {
        if let Err(error) = client.report_once(once(0)).await {
            break Err::<(), _>(error);
        }
    };
    over(refused, "rows_per_second");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_without_regions_count_as_one_each() {
    let (server, _tokens) = limited("regions = 2").await;
    let client = client(&server, "limited").await;
    let mut service = client.subscription_service();
    let open = v1::SubscribeRequest::default();
    let mut first = service.subscribe(open.clone()).await.unwrap().into_inner();
    let opened = within(first.message()).await.unwrap().unwrap();
    let Some(v1::subscribe_response::Kind::Opened(opened)) = opened.kind else { panic!() };
    // The stream ends, the session stays.
    drop(first);
    let _second = service.subscribe(open.clone()).await.unwrap();
    over(service.subscribe(open.clone()).await.map_err(Error::from), "regions");
    let modify = v1::ModifyRequest { session: opened.session, ..Default::default() };
    let add = |id| v1::ModifyRequest { add: vec![region(id)], ..modify.clone() };
    assert!(service.modify(add(1)).await.unwrap().into_inner().errors.is_empty());
    assert_eq!(service.modify(add(2)).await.unwrap().into_inner().errors.len(), 1);
    let remove = v1::ModifyRequest { remove: vec![1], ..modify.clone() };
    assert!(service.modify(remove).await.unwrap().into_inner().errors.is_empty());
    over(service.subscribe(open.clone()).await.map_err(Error::from), "regions");
    service.modify(v1::ModifyRequest { close: true, ..modify }).await.unwrap();
    service.subscribe(open).await.unwrap();
}

fn region(region_id: u64) -> v1::RegionSubscription {
    let region = Some(rectangle(0.0, 0.0, 1.0, 1.0));
    v1::RegionSubscription { region_id, region, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_of_all_sessions_are_counted() {
    let (server, _tokens) = limited("regions = 5").await;
    let client = client(&server, "limited").await;
    let mut service = client.subscription_service();
    let open = |regions: std::ops::Range<u64>| v1::SubscribeRequest {
        regions: regions.map(region).collect(),
        ..Default::default()
    };
    let mut first = service.subscribe(open(0..3)).await.unwrap().into_inner();
    over(service.subscribe(open(0..3)).await.map_err(Error::from), "regions");
    let second = service.subscribe(open(0..2)).await.unwrap();
    let opened = within(first.message()).await.unwrap().unwrap();
    let Some(v1::subscribe_response::Kind::Opened(opened)) = opened.kind else { panic!() };
    let modify = v1::ModifyRequest { session: opened.session, ..Default::default() };
    let add = v1::ModifyRequest { add: vec![region(9)], ..modify.clone() };
    let errors = service.modify(add.clone()).await.unwrap().into_inner().errors;
    assert_eq!(errors.len(), 1);
    let remove = v1::ModifyRequest { remove: vec![1], ..modify.clone() };
    assert!(service.modify(remove).await.unwrap().into_inner().errors.is_empty());
    assert!(service.modify(add).await.unwrap().into_inner().errors.is_empty());
    // Another token has its own, and cannot use the session.
    let other = self::client(&server, "other").await;
    let mut others = other.subscription_service();
    others.subscribe(open(0..100)).await.unwrap();
    let close = v1::ModifyRequest { close: true, ..modify };
    let stolen = others.modify(close.clone()).await.map_err(Error::from).unwrap_err();
    assert_eq!(stolen.server().unwrap().reason_name, "SESSION_GONE");
    service.modify(close).await.unwrap();
    drop(second);
    // The regions of the closed session are free.
    service.subscribe(open(0..3)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fleets_are_counted_among_those_that_the_token_administers() {
    let entries = [
        entry("root", &["*"], ALL, ""),
        entry("tenant", &["tenant-*"], ALL, "[token.quotas]\nfleets = 2\n"),
    ];
    let tokens = TokenMaker::new(&entries.concat());
    let server = Running::start_with(ServerOptions { access: tokens.options(), ..options() }).await;
    let (root, tenant) = (client(&server, "root").await, client(&server, "tenant").await);
    let create = |name: &str| v1::CreateFleetRequest { name: name.into(), ..Default::default() };
    root.create_fleet(create("tenant-1")).await.unwrap();
    root.create_fleet(create("others")).await.unwrap();
    tenant.create_fleet(create("tenant-2")).await.unwrap();
    over(tenant.create_fleet(create("tenant-3")).await, "fleets");
    tenant.delete_fleet("tenant-1").await.unwrap();
    tenant.create_fleet(create("tenant-3")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_sent_no_faster_than_the_quota() {
    let (server, _tokens) = limited("answer_bytes_per_second = 20000").await;
    let root = client(&server, "root").await;
    root.report_once(once(10_000)).await.unwrap();
    let client = client(&server, "limited").await;
    let request = v1::RangeRequest { region: Some(world()), ..Default::default() };
    let mut service = client.query_service();
    let reading = tokio::spawn(async move {
        let mut answer = service.range(request).await.unwrap().into_inner();
        let mut bytes = 0;
        while let Some(chunk) = within(answer.message()).await.unwrap() {
            bytes += chunk.encoded_len();
        }
        bytes
    });
    // While the answer exceeds the quota, other calls of the token are refused.
    let refused = async || loop {
        match client.list_fleets().await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => return error,
        }
    };
    over(Err::<(), _>(within(refused()).await), "answer_bytes_per_second");
    let bytes = reading.await.unwrap();
    assert!(bytes > 40_000, "{bytes}");
    until(async || client.list_fleets().await.is_ok()).await;
}
