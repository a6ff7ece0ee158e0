//! Random reports and queries over the wire produce the answers of the model.

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::{
    Backend as _, CycleInput, EngineOptions, Model, Projection, Query, QueryKind, Region, Request,
    Space,
};
use shoal_proto::v1;
use shoal_proto::v1::batch_query::Kind;
use shoal_testkit::Random;

use crate::running::{Running, START_MS, collect, fix, rectangle, report, rows, sums, within};

const SIDE_M: f64 = 1000.0;
const OBJECTS: u64 = 300;

fn space() -> Space {
    Space::planar(SIDE_M, SIDE_M, 0.01).unwrap()
}

async fn planar(server: &Running) {
    let planar = v1::PlanarSpace { width_m: SIDE_M, height_m: SIDE_M, quantum_m: 0.0 };
    let space = Some(v1::Space { kind: Some(v1::space::Kind::Planar(planar)) });
    let (name, clock) = ("plane".to_owned(), v1::Clock::Event.into());
    let request = v1::CreateFleetRequest { name, space, clock, ..Default::default() };
    server.fleets().await.create_fleet(request).await.unwrap();
}

/// Rows in wire form and in the model's form.
fn message(random: &mut Random, round: i64) -> (v1::ReportRequest, FixColumns) {
    let (space, mut fixes, mut columns) = (space(), Vec::new(), FixColumns::new());
    for _ in 0..random.below(200) {
        let (x, y) = (random.real(0.0, SIDE_M), random.real(0.0, SIDE_M));
        let sent =
            fix(random.below(OBJECTS), START_MS + round * 10 + i64::from(random.below(40)), x, y);
        let (x, y) = space.quantise(x, y).unwrap();
        columns.push_row(FixRow::new(sent.object, sent.time_ms, x, y));
        fixes.push(sent);
    }
    (v1::ReportRequest { fleet: "plane".into(), ..rows(fixes) }, columns)
}

/// A query in wire form and in the model's form.
fn random_query(random: &mut Random) -> (Kind, QueryKind) {
    let (x, y) = (random.real(0.0, SIDE_M), random.real(0.0, SIDE_M));
    let extent = random.real(0.0, 300.0);
    match random.below(4) {
        0 => {
            let objects: Vec<u64> =
                (0..random.below(20)).map(|_| random.below(2 * OBJECTS)).collect();
            (
                Kind::Get(v1::GetQuery { objects: objects.clone(), ..Default::default() }),
                QueryKind::Get(objects),
            )
        }
        1 => {
            let region = Region::rectangle(&space(), x, y, x + extent, y + extent).unwrap();
            (Kind::Range(rectangle(x, y, x + extent, y + extent)), QueryKind::Range(region))
        }
        2 => {
            let region = Region::circle(&space(), x, y, extent).unwrap();
            let circle = v1::region::Kind::Circle(v1::Circle { x, y, radius_m: extent });
            (Kind::Range(v1::Region { kind: Some(circle) }), QueryKind::Range(region))
        }
        _ => {
            let k = 1 + random.below(29) as u32;
            let sent = Kind::Nearest(v1::NearestQuery { x, y, k, distance_max_m: None });
            let (x, y) = space().quantise(x, y).unwrap();
            (sent, QueryKind::nearest(x, y, k))
        }
    }
}

fn run_model(model: &mut Model, requests: Vec<Request>, queries: Vec<Query>) -> Vec<Vec<u64>> {
    let requests = requests.into();
    let input = CycleInput { time_max_ms: i64::MAX, requests, queries, ..CycleInput::default() };
    let output = model.run(input).unwrap();
    output.answers.iter().map(|answer| answer.objects.to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_over_the_wire_equal_the_model() {
    for seed in 1..=5 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let server = Running::start().await;
        planar(&server).await;
        let mut model = Model::new(EngineOptions::new(space()));
        let (mut positions, mut queries) = (server.positions().await, server.queries().await);
        let mut answered = 0;
        for round in 0..30 {
            // One message per round: late and superseded rows depend on cycle boundaries.
            let (sent, columns) = message(&mut random, round);
            let acks = report(&mut positions, vec![sent]).await;
            assert_eq!((sums(&acks).1, sums(&acks).2), (0, 0));
            let (sent, kinds): (Vec<_>, Vec<_>) =
                (0..40).map(|_| random_query(&mut random)).unzip();
            let query =
                |kind| Query { kind, filter: None, projection: Projection::Ids, limit: None };
            let kinds = kinds.into_iter().map(query).collect();
            let expected = run_model(&mut model, vec![Request::Fixes(columns)], kinds);
            let (fleet, min_token) = ("plane".to_owned(), acks[0].token.clone());
            let options = Some(v1::QueryOptions { fleet, min_token, ..Default::default() });
            let sent = sent.into_iter().map(|kind| v1::BatchQuery { kind: Some(kind) }).collect();
            let batch = v1::BatchRequest { options, queries: sent };
            let stream = queries.batch(tokio_stream::iter([batch])).await.unwrap().into_inner();
            let chunks = within(collect(stream)).await.unwrap();
            let results: Vec<_> = chunks.into_iter().flat_map(|chunk| chunk.results).collect();
            assert_eq!(results.len(), expected.len());
            for (result, expected) in results.iter().zip(&expected) {
                assert!(result.error.is_none(), "{:?}", result.error);
                assert_eq!(&result.objects, expected, "seed {seed}, round {round}");
                answered += result.objects.len();
            }
        }
        assert!(answered > 1000, "only {answered} rows were compared");
    }
}
