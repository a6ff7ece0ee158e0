//! Paged listings, neighbours within a distance, counts of many regions, and multipolygons: each
//! agrees with plain range queries.

use shoal_proto::v1;
use shoal_proto::v1::region::Kind;

use crate::running::{
    Running, START_MS, collect, fix, objects_in, path, rectangle, refused, report, rows,
    violated_field, whole, within, world,
};

/// Objects 0 to 999 on a grid with a spacing of 0.01 degrees and 40 objects per row.
async fn grid(server: &Running) -> Vec<u8> {
    let place = |object: u64| (f64::from((object % 40) as u32), f64::from((object / 40) as u32));
    let fixes = (0..1000).map(|object| {
        let (x, y) = place(object);
        fix(object, START_MS, x / 100.0, y / 100.0)
    });
    let acks = report(&mut server.positions().await, vec![rows(fixes.collect())]).await;
    acks[0].token.clone()
}

fn square(x: f64, y: f64, side: f64) -> v1::Polygon {
    let (east, north) = (x + side, y + side);
    let ring = v1::Ring { x: vec![x, east, east, x], y: vec![y, y, north, north] };
    v1::Polygon { rings: vec![ring] }
}

fn region(kind: Kind) -> v1::Region {
    v1::Region { kind: Some(kind) }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_form_the_complete_listing() {
    let server = Running::start().await;
    let min_token = grid(&server).await;
    let mut queries = server.queries().await;
    let all = objects_in(&mut queries, rectangle(0.0, 0.0, 0.2, 0.2), min_token.clone()).await;
    let mut listed = Vec::new();
    let mut options = v1::QueryOptions { min_token, limit: 50, ..Default::default() };
    loop {
        let request = v1::RangeRequest {
            options: Some(options.clone()),
            region: Some(rectangle(0.0, 0.0, 0.2, 0.2)),
        };
        let page = whole(queries.range(request).await.unwrap().into_inner()).await.unwrap();
        assert_eq!(page.header.total, (all.len() - listed.len()) as u64, "what is left");
        listed.extend(page.objects);
        if !page.header.truncated {
            break;
        }
        options.after_object = listed.last().copied();
    }
    assert_eq!(listed, all);
    // Id 0 is a valid cursor.
    let options = v1::QueryOptions { after_object: Some(0), ..Default::default() };
    let request = v1::GetRequest {
        options: Some(options.clone()),
        objects: vec![2, 0, 1],
        ..Default::default()
    };
    let answer = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(answer.objects, [1, 2]);
    let request = v1::NearestRequest { options: Some(options), k: 1, ..Default::default() };
    let status = refused(queries.nearest(request).await, "FIELD");
    assert_eq!(violated_field(&status), "options.after_object");
    // In a batch, the message's options apply.
    let nearest = v1::NearestQuery { k: 1, ..Default::default() };
    let queries_of = vec![v1::BatchQuery { kind: Some(v1::batch_query::Kind::Nearest(nearest)) }];
    let options = Some(v1::QueryOptions { after_object: Some(0), ..Default::default() });
    let request = v1::BatchRequest { options, queries: queries_of };
    let stream = queries.batch(tokio_stream::once(request)).await.unwrap().into_inner();
    let answers = within(collect(stream)).await.unwrap();
    let found = path(answers[0].results[0].error.as_ref());
    assert_eq!(found, "options.after_object");
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_beyond_the_maximum_distance_are_excluded() {
    let server = Running::start().await;
    let min_token = grid(&server).await;
    let mut queries = server.queries().await;
    for radius_m in [0.0, 1_112.0, 5_000.0, f64::INFINITY] {
        let circle = v1::Circle { x: 0.1, y: 0.1, radius_m };
        let mut inside =
            objects_in(&mut queries, region(Kind::Circle(circle)), min_token.clone()).await;
        let request = v1::NearestRequest {
            x: 0.1,
            y: 0.1,
            k: 4096,
            distance_max_m: Some(radius_m),
            ..Default::default()
        };
        let answer = whole(queries.nearest(request).await.unwrap().into_inner()).await.unwrap();
        assert_eq!(answer.header.total, inside.len() as u64);
        let mut near = answer.objects.clone();
        near.sort_unstable();
        inside.sort_unstable();
        assert_eq!(near, inside, "within {radius_m} m");
        assert!(answer.distance_m.iter().all(|distance| *distance <= radius_m));
        assert!(answer.distance_m.is_sorted());
    }
    for wrong in [-1.0, f64::NAN] {
        let request =
            v1::NearestRequest { k: 1, distance_max_m: Some(wrong), ..Default::default() };
        refused(queries.nearest(request).await, "FIELD");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn multipolygon_parts_form_a_union_and_polygon_rings_form_holes() {
    let server = Running::start().await;
    let token = grid(&server).await;
    let mut queries = server.queries().await;
    let parts = [square(0.0, 0.0, 0.1), square(0.05, 0.05, 0.1)];
    let union = v1::MultiPolygon { polygons: parts.to_vec() };
    let found = objects_in(&mut queries, region(Kind::MultiPolygon(union)), token.clone()).await;
    let mut expected = Vec::new();
    for part in &parts {
        let part = region(Kind::Polygon(part.clone()));
        expected.extend(objects_in(&mut queries, part, token.clone()).await);
    }
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(found, expected);
    // As rings of one polygon, the overlap is a hole.
    let rings = parts.iter().flat_map(|part| part.rings.clone()).collect();
    let holed = region(Kind::Polygon(v1::Polygon { rings }));
    assert!(objects_in(&mut queries, holed, token).await.len() < expected.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_are_counted_at_one_epoch_in_request_order() {
    let server = Running::start().await;
    let min_token = grid(&server).await;
    let mut queries = server.queries().await;
    let regions = vec![rectangle(0.0, 0.0, 0.05, 0.05), world(), rectangle(50.0, 50.0, 60.0, 60.0)];
    let request = v1::CountRegionsRequest {
        min_token: min_token.clone(),
        regions: regions.clone(),
        ..Default::default()
    };
    let counted = queries.count_regions(request).await.unwrap().into_inner();
    assert_eq!(counted.counts, [36, 1000, 0]);
    assert!(counted.header.unwrap().epoch > 0);
    let bad = v1::Circle { radius_m: -1.0, ..Default::default() };
    let request = v1::CountRegionsRequest {
        regions: vec![world(), region(Kind::Circle(bad))],
        ..Default::default()
    };
    let status = refused(queries.count_regions(request).await, "FIELD");
    assert_eq!(violated_field(&status), "regions[1].circle.radius_m");
    let request = v1::CountRegionsRequest::default();
    let counted = queries.count_regions(request).await.unwrap().into_inner();
    assert!(counted.counts.is_empty());
}
