//! Invalid queries are refused with the field at fault; a batch answers its other queries.

use shoal_proto::v1;
use shoal_proto::v1::batch_query::Kind;
use shoal_service::{ServerLimits, ServerOptions};
use tonic::Status;

use crate::running::{
    ReportsOnce as _, Running, START_MS, collect, fix, reason, rectangle, refused, rows, until,
    violated_field as field, whole, within, world,
};

async fn refused_region(server: &Running, region: v1::Region) -> Status {
    let request = v1::RangeRequest { region: Some(region), ..Default::default() };
    refused(server.queries().await.range(request).await, "FIELD")
}

fn circle(x: f64, y: f64, radius_m: f64) -> v1::Region {
    v1::Region { kind: Some(v1::region::Kind::Circle(v1::Circle { x, y, radius_m })) }
}

fn polygon(rings: &[&[(f64, f64)]]) -> v1::Region {
    let ring = |vertices: &&[(f64, f64)]| {
        let (x, y) = vertices.iter().copied().unzip();
        v1::Ring { x, y }
    };
    let rings = rings.iter().map(ring).collect();
    v1::Region { kind: Some(v1::region::Kind::Polygon(v1::Polygon { rings })) }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_regions_are_refused_with_their_field() {
    let server = Running::start().await;
    let status = refused_region(&server, v1::Region::default()).await;
    assert_eq!(field(&status), "region");
    for (sides, side) in [
        (rectangle(f64::NAN, 0.0, 1.0, 1.0), "west"),
        (rectangle(0.0, 1.0, 1.0, 0.0), "south"),
        (rectangle(-181.0, 0.0, 1.0, 1.0), "west"),
        (rectangle(0.0, 0.0, 1.0, 91.0), "north"),
        (rectangle(0.0, 0.0, f64::INFINITY, 1.0), "east"),
    ] {
        let status = refused_region(&server, sides).await;
        assert_eq!(field(&status), format!("region.rectangle.{side}"));
    }
    for (circle, part) in [
        (circle(0.0, 0.0, -1.0), "radius_m"),
        (circle(0.0, 0.0, f64::NAN), "radius_m"),
        (circle(181.0, 0.0, 1.0), "x"),
    ] {
        assert_eq!(field(&refused_region(&server, circle).await), format!("region.circle.{part}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_polygons_are_refused_and_self_intersecting_ones_are_valid() {
    let server = Running::start().await;
    let many: Vec<(f64, f64)> =
        (0..4097).map(|vertex| (f64::from(vertex) / 100.0, f64::from(vertex % 7))).collect();
    for (rings, part) in [
        (polygon(&[]), ".rings"),
        (polygon(&[&[]]), ".rings[0]"),
        (polygon(&[&[(0.0, 0.0), (1.0, 1.0)]]), ".rings[0]"),
        (polygon(&[&[(0.0, 0.0), (1.0, 1.0), (0.0, 0.0), (1.0, 1.0)]]), ".rings[0]"),
        (polygon(&[&[(0.0, 0.0), (1.0, f64::NAN), (1.0, 0.0)]]), ".rings[0].y[1]"),
        (polygon(&[&[(-100.0, 0.0), (100.0, 0.0), (0.0, 10.0)]]), ".rings[0]"),
        (polygon(&[&many]), ".rings"),
    ] {
        let found = field(&refused_region(&server, rings).await);
        assert!(found.starts_with(&format!("region.polygon{part}")), "{found} is not {part}");
    }
    let uneven = v1::Ring { x: vec![0.0, 1.0, 1.0], y: vec![0.0, 1.0] };
    let kind = v1::region::Kind::Polygon(v1::Polygon { rings: vec![uneven] });
    let status = refused_region(&server, v1::Region { kind: Some(kind) }).await;
    assert_eq!(field(&status), "region.polygon.rings[0]");
    // A bow tie: two triangles that share the crossing point.
    let fixes = [(0.5, 1.0), (1.5, 1.0), (1.0, 0.2), (1.0, 1.0)];
    let fixes = fixes.iter().zip(1..).map(|(&(x, y), object)| fix(object, START_MS, x, y));
    let ack = server.positions().await.once(rows(fixes.collect())).await.unwrap();
    let bow_tie = polygon(&[&[(0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0)]]);
    let token = ack.into_inner().token;
    let mut queries = server.queries().await;
    let objects = crate::running::objects_in(&mut queries, bow_tie, token).await;
    assert_eq!(objects, [1, 2, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nearest_accepts_any_k_up_to_its_limit() {
    let server = Running::start().await;
    let fixes = (1..=3).map(|object| fix(object, START_MS, object as f64, 0.0)).collect();
    server.positions().await.once(rows(fixes)).await.unwrap();
    let mut queries = server.queries().await;
    for (k, expected) in [(1, vec![1]), (3, vec![1, 2, 3]), (4096, vec![1, 2, 3])] {
        let request = v1::NearestRequest { k, ..Default::default() };
        let answer = whole(queries.nearest(request).await.unwrap().into_inner()).await.unwrap();
        assert_eq!(answer.objects, expected, "k = {k}");
        assert_eq!(answer.distance_m.len(), expected.len());
        assert!(answer.distance_m.is_sorted());
    }
    // 0 is the default of an unset field.
    for k in [0, 4097] {
        let request = v1::NearestRequest { k, ..Default::default() };
        let status = refused(queries.nearest(request).await, "FIELD");
        assert_eq!(field(&status), "k");
    }
    for (x, y, part) in [(f64::NAN, 0.0, "x"), (0.0, 91.0, "y")] {
        let request = v1::NearestRequest { x, y, k: 1, ..Default::default() };
        let status = queries.nearest(request).await.unwrap_err();
        assert_eq!(field(&status), part);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_are_refused_with_their_field() {
    let server = Running::start().await;
    const AGE_MAX: &str = "options.filter.age_max";
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let fraction = prost_types::Duration { seconds: 0, nanos: 500_000 };
    let interval = |min, max| Some(v1::Interval { min, max });
    let filter = |filter| v1::QueryOptions { filter: Some(filter), ..Default::default() };
    let cases = [
        (v1::QueryOptions { projection: 17, ..Default::default() }, "options.projection"),
        (
            filter(v1::Filter { speed_mps: interval(2.0, 1.0), ..Default::default() }),
            "options.filter.speed_mps",
        ),
        (
            filter(v1::Filter { heading_deg: interval(0.0, 361.0), ..Default::default() }),
            "options.filter.heading_deg",
        ),
        (
            filter(v1::Filter { altitude_m: interval(f64::NAN, 1.0), ..Default::default() }),
            "options.filter.altitude_m",
        ),
        // Filters that match no record.
        (
            filter(v1::Filter { speed_mps: interval(-5.0, -1.0), ..Default::default() }),
            "options.filter.speed_mps",
        ),
        (
            filter(v1::Filter { state_mask: 2, state_value: 3, ..Default::default() }),
            "options.filter.state_value",
        ),
        (filter(v1::Filter { age_max: Some(negative), ..Default::default() }), AGE_MAX),
        (filter(v1::Filter { age_max: Some(fraction), ..Default::default() }), AGE_MAX),
    ];
    for (options, expected) in cases {
        let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
        let status = refused(server.queries().await.range(request).await, "FIELD");
        assert_eq!(field(&status), expected);
    }
    for (fleet, reason) in [("nobody", "FLEET_UNKNOWN"), ("No Body", "FLEET_NAME")] {
        let options = Some(v1::QueryOptions { fleet: fleet.into(), ..Default::default() });
        let request = v1::GetRequest { options, objects: vec![1], ..Default::default() };
        refused(server.queries().await.get(request).await, reason);
    }
    let request = v1::GetRequest { objects: vec![1; 65_537], ..Default::default() };
    let status = server.queries().await.get(request).await.unwrap_err();
    assert_eq!(field(&status), "objects");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_messages_of_a_batch_fail_alone() {
    let server = Running::start().await;
    server.positions().await.once(rows(vec![fix(1, START_MS, 0.0, 0.0)])).await.unwrap();
    let query = |kind| v1::BatchQuery { kind: Some(kind) };
    let good = || query(Kind::Get(v1::GetQuery { objects: vec![1], ..Default::default() }));
    let message = |queries| v1::BatchRequest { queries, ..Default::default() };
    let bad_circle = query(Kind::Range(circle(0.0, 0.0, -1.0)));
    let none = v1::BatchQuery::default();
    let options = Some(v1::QueryOptions { fleet: "nobody".into(), ..Default::default() });
    let messages = vec![
        message(vec![good(), bad_circle, none, good()]),
        v1::BatchRequest { options, queries: vec![good()] },
        message(vec![good(); 4097]),
        message(Vec::new()),
        message(vec![good()]),
    ];
    let stream = server.queries().await.batch(tokio_stream::iter(messages)).await.unwrap();
    let chunks = within(collect(stream.into_inner())).await.unwrap();
    let numbers: Vec<_> = chunks.iter().map(|chunk| (chunk.message, chunk.last)).collect();
    assert_eq!(numbers, [(1, true), (2, true), (3, true), (4, true), (5, true)]);
    let results = &chunks[0].results;
    let reasons: Vec<_> = results
        .iter()
        .map(|result| result.error.as_ref().map(|error| reason(Some(error))))
        .collect();
    let field = || Some("FIELD".to_owned());
    assert_eq!(reasons, [None, field(), field(), None]);
    assert_eq!(results[3].objects, [1]);
    assert_eq!(reason(chunks[1].error.as_ref()), "FLEET_UNKNOWN");
    assert_eq!(reason(chunks[2].error.as_ref()), "FIELD");
    assert!(chunks[3].error.is_none() && chunks[3].results.is_empty());
    assert_eq!(chunks[4].results[0].total, 1);
    assert!(chunks[4].header.as_ref().unwrap().epoch > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_a_client_does_not_read_are_part_of_its_answers() {
    let limits = ServerLimits { answer_bytes_max: 16 << 20, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..ServerOptions::default() }).await;
    let message =
        v1::BatchRequest { queries: vec![v1::BatchQuery::default(); 4096], ..Default::default() };
    // A message of 8 KiB has some megabytes of errors.
    let unread = server.queries().await.batch(tokio_stream::iter(vec![message; 400])).await;
    let answers = unread.unwrap();
    let held = async || server.metric("shoal_answer_bytes").await;
    until(async || held().await >= f64::from(4 << 20)).await;
    assert!(held().await <= f64::from(16 << 20));
    let other = tokio_stream::iter(vec![v1::BatchRequest::default()]);
    let other = server.queries().await.batch(other).await.unwrap();
    within(collect(other.into_inner())).await.unwrap();
    drop(answers);
    until(async || held().await == 0.0).await;
}
