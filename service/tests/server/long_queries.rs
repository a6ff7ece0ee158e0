//! Queries that take more work than a cycle allows are answered outside the cycles, at one epoch.

use shoal_proto::v1;
use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_testkit::Random;
use tonic::Code;
use tonic::transport::Channel;

use crate::running::{
    ReportsOnce as _, Running, START_MS, collect, fix, report, rows, until, within,
};

/// Objects on a grid; a query that visits all of them is far below the work of a cycle.
const SIDE: u64 = 150;
const OBJECTS: u64 = SIDE * SIDE;

async fn start() -> Running {
    let server = Running::start().await;
    let place = |object: u64| {
        let (x, y) = ((object % SIDE) as f64 / 10.0, (object / SIDE) as f64 / 10.0);
        v1::Fix { state: object as u32 % 4, ..fix(1 + object, START_MS, x, y) }
    };
    let messages = (0..OBJECTS).collect::<Vec<_>>();
    let messages =
        messages.chunks(5_000).map(|some| rows(some.iter().copied().map(place).collect()));
    report(&mut server.positions().await, messages.collect()).await;
    server
}

fn region(random: &mut Random) -> v1::Region {
    let (x, y) = (random.real(-2.0, 15.0), random.real(-2.0, 15.0));
    let kind = match random.below(3) {
        0 => v1::region::Kind::Circle(v1::Circle { x, y, radius_m: random.real(1e3, 3e6) }),
        1 => {
            let vertex = |number: u32| {
                let radius = random.real(1.0, 12.0);
                let angle = f64::from(number) / 20.0 * std::f64::consts::TAU;
                (x + radius * angle.cos(), y + radius * angle.sin())
            };
            let (x, y) = (0..20).map(vertex).unzip();
            v1::region::Kind::Polygon(v1::Polygon { rings: vec![v1::Ring { x, y }] })
        }
        _ => return crate::running::rectangle(x, y, x + 20.0, y + 20.0),
    };
    v1::Region { kind: Some(kind) }
}

/// A query. Most of these queries visit most objects.
fn query(random: &mut Random) -> v1::BatchQuery {
    let kind = match random.below(20) {
        0 => Kind::Get(v1::GetQuery {
            objects: (0..9).map(|_| random.below(OBJECTS * 2)).collect(),
            ..Default::default()
        }),
        1 => {
            let (x, y) = (random.real(0.0, 15.0), random.real(0.0, 15.0));
            Kind::Nearest(v1::NearestQuery { x, y, k: 20, distance_max_m: None })
        }
        _ => Kind::Range(region(random)),
    };
    v1::BatchQuery { kind: Some(kind) }
}

/// Answers to a message of queries, in their order; and the epoch of all.
async fn answers(
    client: &mut QueryServiceClient<Channel>,
    queries: &[v1::BatchQuery],
    options: &v1::QueryOptions,
) -> (u64, Vec<v1::BatchResult>) {
    let message = v1::BatchRequest { queries: queries.to_vec(), options: Some(options.clone()) };
    let stream = client.batch(tokio_stream::iter(vec![message])).await.unwrap().into_inner();
    let chunks = within(collect(stream)).await.unwrap();
    let epoch = chunks[0].header.as_ref().unwrap().epoch;
    let mut results: Vec<v1::BatchResult> = Vec::new();
    for part in chunks.into_iter().flat_map(|chunk| chunk.results) {
        match results.last_mut().filter(|last| last.query == part.query) {
            Some(last) => {
                last.objects.extend(part.objects);
                last.fixes.extend(part.fixes);
                last.distance_m.extend(part.distance_m);
            }
            None => results.push(part),
        }
    }
    (epoch, results)
}

async fn long_requests(server: &Running) -> f64 {
    server.metric("shoal_query_requests_long_total{fleet=\"default\"}").await
}

#[tokio::test(flavor = "multi_thread")]
async fn long_requests_get_the_answers_of_short_ones() {
    let server = start().await;
    let mut client = server.queries().await;
    let mut random = Random::new(7);
    let filter = v1::Filter { state_mask: 3, state_value: 2, ..Default::default() };
    let projections = [v1::Projection::Ids, v1::Projection::Fixes, v1::Projection::Count];
    for (round, projection) in (0_u32..).zip(projections) {
        let queries: Vec<_> = (0..600).map(|_| query(&mut random)).collect();
        let options = v1::QueryOptions {
            projection: projection.into(),
            limit: 25,
            filter: Some(filter.clone()).filter(|_| round > 0),
            ..Default::default()
        };
        let (_, long) = answers(&mut client, &queries, &options).await;
        assert_eq!(long_requests(&server).await, f64::from(round + 1));
        let mut short = Vec::new();
        // Few at a time: after slow queries a cycle does less work for them.
        for some in queries.chunks(2) {
            short.extend(answers(&mut client, some, &options).await.1);
        }
        assert_eq!(long_requests(&server).await, f64::from(round + 1));
        assert_eq!((long.len(), short.len()), (600, 600));
        for (number, (long, short)) in long.iter().zip(&short).enumerate() {
            let at = |result: &v1::BatchResult| v1::BatchResult { query: 0, ..result.clone() };
            assert_eq!(at(long), at(short), "{projection:?}: {:?}", queries[number]);
        }
        assert!(long.iter().any(|result| result.total > 3_000), "no query was long");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_answers_show_one_epoch_while_updates_go_on() {
    let server = start().await;
    let mut positions = server.positions().await;
    let updates = tokio::spawn(async move {
        for object in 0.. {
            let message = rows(vec![fix(1_000_000 + object, START_MS, 7.0, 7.0)]);
            if positions.once(message).await.is_err() {
                return object;
            }
        }
        0
    });
    let circle = v1::Circle { x: 7.0, y: 7.0, radius_m: 3e6 };
    let region = v1::Region { kind: Some(v1::region::Kind::Circle(circle)) };
    let queries = vec![v1::BatchQuery { kind: Some(Kind::Range(region)) }; 500];
    let options = v1::QueryOptions { limit: 1, ..Default::default() };
    let mut client = server.queries().await;
    let mut last = (0, 0);
    for _ in 0..5 {
        let (epoch, found) = answers(&mut client, &queries, &options).await;
        let total = found[0].total;
        assert!(found.iter().all(|result| result.total == total), "several epochs");
        assert!(total > last.1 && epoch > last.0, "no updates: {total} at {epoch}");
        last = (epoch, total);
    }
    assert_eq!(long_requests(&server).await, 5.0);
    server.stop().await;
    assert!(updates.await.unwrap() > 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_end_at_their_deadline_and_with_the_server() {
    let mut server = start().await;
    let mut random = Random::new(3);
    let queries: Vec<_> = (0..4096)
        .map(|_| v1::BatchQuery { kind: Some(Kind::Range(region(&mut random))) })
        .collect();
    let message = v1::BatchRequest { queries, ..Default::default() };
    let mut client = server.queries().await;
    let messages = || tokio_stream::iter(vec![message.clone(); 4]);
    let mut request = tonic::Request::new(messages());
    request.set_timeout(std::time::Duration::from_millis(100));
    let stream = client.batch(request).await.unwrap().into_inner();
    match within(collect(stream)).await {
        Ok(chunks) => {
            let codes = chunks.iter().map(|chunk| chunk.error.as_ref().unwrap().code);
            assert!(codes.clone().all(|code| code == Code::DeadlineExceeded as i32));
            assert_eq!(codes.count(), 4);
        }
        Err(status) => assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}"),
    }
    // Nobody waits for its queries any more: their places are free again.
    let depth = "shoal_queue_queries{fleet=\"default\"}";
    until(async || server.metric(depth).await == 0.0).await;
    let stream = client.batch(messages()).await.unwrap().into_inner();
    let reading = tokio::spawn(collect(stream));
    until(async || long_requests(&server).await >= 1.0).await;
    server.begin_stop();
    within(server.stopped()).await;
    // It was answered before, or its connection was cut.
    let _ = within(reading).await.unwrap();
}
