//! Objects of a named fleet are reported, asked for and removed by name.

use std::collections::BTreeMap;

use shoal_client::{BlockEncoder, PlanChoice};
use shoal_proto::v1::{self, RefusalReason};
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, collect, fix, options, path, rectangle, refused,
    report, rows, violated_field, whole, within, world,
};

/// Options of a server whose fleet `default` identifies objects by name.
pub(crate) fn named_options() -> ServerOptions {
    ServerOptions { default_kind: shoal_service::cycle::FleetKind::Named, ..options() }
}

/// A row of a named fleet.
pub(crate) fn named(name: &str, time_ms: i64, x: f64, y: f64) -> v1::Fix {
    v1::Fix { name: name.into(), ..fix(0, time_ms, x, y) }
}

fn with_fixes() -> Option<v1::QueryOptions> {
    let projection = v1::Projection::Fixes.into();
    Some(v1::QueryOptions { projection, ..Default::default() })
}

/// Names and x of all objects of the fleet `default`, by name.
pub(crate) async fn everything(server: &Running, min_token: Vec<u8>) -> BTreeMap<String, f64> {
    let options = with_fixes().map(|options| v1::QueryOptions { min_token, ..options });
    let request = v1::RangeRequest { options, region: Some(world()) };
    let stream = server.queries().await.range(request).await.unwrap().into_inner();
    let answer = whole(stream).await.unwrap();
    assert_eq!(answer.names.len(), answer.objects.len());
    answer.names.into_iter().zip(answer.fixes.iter().map(|fix| fix.x)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_answers_with_names() {
    let server = Running::start_with(named_options()).await;
    let (mut positions, mut queries) = (server.positions().await, server.queries().await);
    let fixes = ["truck-42", "Käthe", "truck-7"];
    let fixes = (0..3).map(|at| named(fixes[at], START_MS, at as f64, 1.0)).collect();
    report(&mut positions, vec![rows(fixes)]).await;
    let fleet = server.fleet("default").await;
    assert_eq!((fleet.kind(), fleet.name_count), (v1::FleetKind::Named, 3));

    // Numbers order a listing, and a cursor by number continues it.
    let options = Some(v1::QueryOptions { after_object: Some(1), ..Default::default() });
    let request = v1::RangeRequest { options, region: Some(rectangle(-1.0, 0.0, 9.0, 2.0)) };
    let range = whole(queries.range(request).await.unwrap().into_inner()).await.unwrap();
    assert_eq!((range.objects, range.names), (vec![2, 3], vec!["Käthe".into(), "truck-7".into()]));

    let names = vec!["truck-7".to_owned(), "nobody".to_owned(), "truck-42".to_owned()];
    let request = v1::GetRequest { options: with_fixes(), names: names.clone(), objects: vec![2] };
    let get = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(get.names, ["truck-42", "Käthe", "truck-7"]);
    assert_eq!(get.fixes.iter().map(|fix| fix.x).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);

    let request = v1::NearestRequest { x: 2.1, y: 1.0, k: 2, ..Default::default() };
    let nearest = whole(queries.nearest(request).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(
        (nearest.names, nearest.objects),
        (vec!["truck-7".into(), "Käthe".into()], vec![3, 2])
    );

    let get = v1::GetQuery { objects: vec![], names: names.clone() };
    let query = v1::BatchQuery { kind: Some(v1::batch_query::Kind::Get(get)) };
    let batch = v1::BatchRequest { options: None, queries: vec![query] };
    let stream = queries.batch(tokio_stream::iter([batch])).await.unwrap().into_inner();
    let results = within(collect(stream)).await.unwrap().remove(0).results;
    assert_eq!(results[0].names, ["truck-42", "truck-7"]);

    let request = v1::ResolveRequest { fleet: String::new(), names };
    let resolved = queries.resolve(request).await.unwrap().into_inner().objects;
    assert_eq!(resolved, [3, 0, 1]);
    let request = v1::NamesRequest { fleet: String::new(), objects: vec![0, 2, 9, u64::MAX] };
    let found = queries.names(request).await.unwrap().into_inner().names;
    assert_eq!(found, ["", "Käthe", "", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_fit_their_fleet_are_refused_one_by_one() {
    use RefusalReason::{Name, NamedFleet, NumericFleet, Speed, TimeTooEarly};
    let server = Running::start_with(named_options()).await;
    let create = v1::CreateFleetRequest { name: "plain".into(), ..Default::default() };
    server.fleets().await.create_fleet(create).await.unwrap();
    let long = "n".repeat(257);
    let good = named("good", START_MS, 1.0, 1.0);
    let cases = [
        ("", v1::Fix { object: 7, ..good.clone() }, "object", NamedFleet),
        ("", fix(7, START_MS, 1.0, 1.0), "name", Name),
        ("", named("", START_MS, 1.0, 1.0), "name", Name),
        ("", named(&long, START_MS, 1.0, 1.0), "name", Name),
        ("", named("a\nb", START_MS, 1.0, 1.0), "name", Name),
        (
            "",
            v1::Fix { speed_mps: Some(-1.0), ..named("", START_MS, 1.0, 1.0) },
            "speed_mps",
            Speed,
        ),
        ("", named("", 5, 1.0, 1.0), "time_ms", TimeTooEarly),
        ("plain", good.clone(), "name", NumericFleet),
        ("plain", v1::Fix { name: "x".into(), ..fix(7, START_MS, 1.0, 1.0) }, "name", NumericFleet),
    ];
    let mut positions = server.positions().await;
    for (fleet, wrong, field, reason) in cases {
        let right = if fleet.is_empty() { good.clone() } else { fix(1, START_MS, 1.0, 1.0) };
        let later = v1::Fix { time_ms: START_MS + 1, ..right.clone() };
        let message = v1::ReportRequest { fleet: fleet.into(), ..rows(vec![right, wrong, later]) };
        let ack = report(&mut positions, vec![message]).await.remove(0);
        let row = ack.refused_rows.first().unwrap_or_else(|| panic!("{field} {reason:?}"));
        assert_eq!((row.row, row.field.as_str(), row.reason()), (1, field, reason), "{ack:?}");
        assert_eq!((ack.rows.unwrap().refused, ack.failed_messages), (1, 0));
    }
    // None of them has become a name.
    assert_eq!(server.fleet("default").await.name_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_names_beyond_the_limit_are_refused_and_known_ones_are_not() {
    let limits = ServerLimits { names_max: 2, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..named_options() }).await;
    let mut positions = server.positions().await;
    let bad = v1::Fix { speed_mps: Some(-1.0), ..named("a", START_MS, 1.0, 1.0) };
    let fixes = [named("a", START_MS, 0.0, 0.0), named("b", START_MS, 1.0, 0.0)].into_iter();
    let fixes = fixes.chain([named("c", START_MS, 2.0, 0.0), bad, named("d", START_MS, 3.0, 0.0)]);
    let fixes = fixes.chain([named("a", START_MS + 1, 4.0, 0.0)]).collect();
    let ack = report(&mut positions, vec![rows(fixes)]).await.remove(0);
    let refused: Vec<_> = ack.refused_rows.iter().map(|row| (row.row, row.reason())).collect();
    let (limit, speed) = (RefusalReason::NameLimit, RefusalReason::Speed);
    assert_eq!(refused, [(2, limit), (3, speed), (4, limit)]);
    let expected = BTreeMap::from([("a".to_owned(), 4.0), ("b".to_owned(), 1.0)]);
    assert_eq!(everything(&server, ack.token).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_measures_are_numbered_among_refused_names() {
    let limits = ServerLimits { names_max: 2, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..named_options() }).await;
    let wild = |name, time_ms| v1::Fix { speed_mps: Some(-1.0), ..named(name, time_ms, 1.0, 1.0) };
    let (too_early, nameless) = (wild("b", 5), wild("", START_MS));
    let fixes = vec![nameless, wild("a", START_MS), too_early, named("b", START_MS, 2.0, 1.0)];
    let fixes = [fixes, vec![wild("c", START_MS), wild("b", START_MS + 1)]].concat();
    let message = v1::ReportRequest { drop_invalid_measures: true, ..rows(fixes) };
    let ack = report(&mut server.positions().await, vec![message]).await.remove(0);
    let refused: Vec<_> = ack.refused_rows.iter().map(|row| (row.row, row.reason())).collect();
    let (name, early, limit) =
        (RefusalReason::Name, RefusalReason::TimeTooEarly, RefusalReason::NameLimit);
    assert_eq!(refused, [(0, name), (2, early), (4, limit)]);
    let dropped: Vec<_> = ack.dropped_measures.iter().map(|measure| measure.row).collect();
    assert_eq!((dropped, ack.dropped.unwrap().speed), (vec![1, 4, 5], 3));
    let kept = ack.rows.unwrap();
    assert_eq!(kept.applied + kept.superseded, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_do_not_fit_their_fleet_fail() {
    let server = Running::start_with(named_options()).await;
    let create = v1::CreateFleetRequest { name: "plain".into(), ..Default::default() };
    let mut fleets = server.fleets().await;
    fleets.create_fleet(create).await.unwrap();
    let (mut positions, mut queries) = (server.positions().await, server.queries().await);
    let (fleet, names) = ("plain".to_owned(), vec!["a".to_owned()]);
    let options = Some(v1::QueryOptions { fleet: fleet.clone(), ..Default::default() });
    let request = v1::GetRequest { options, names: names.clone(), ..Default::default() };
    assert_eq!(violated_field(&refused(queries.get(request).await, "FIELD")), "names");
    let request =
        v1::RemoveRequest { fleet: fleet.clone(), names: names.clone(), ..Default::default() };
    assert_eq!(violated_field(&refused(positions.remove(request).await, "FIELD")), "names");
    let request = v1::ResolveRequest { fleet: fleet.clone(), names };
    assert_eq!(violated_field(&refused(queries.resolve(request).await, "FIELD")), "fleet");
    let request = v1::NamesRequest { fleet, objects: vec![1] };
    assert_eq!(violated_field(&refused(queries.names(request).await, "FIELD")), "fleet");
    let request = v1::CreateFleetRequest { name: "f".into(), kind: 9, ..Default::default() };
    assert_eq!(violated_field(&refused(fleets.create_fleet(request).await, "FIELD")), "kind");
    let names = vec!["a".to_owned(); 65_537];
    let request = v1::GetRequest { names, ..Default::default() };
    assert_eq!(violated_field(&refused(queries.get(request).await, "FIELD")), "names");
}

/// A block of rows whose objects are these indices, with names.
fn named_block(rows: &[(u64, i64, f64)], names: &[&str]) -> v1::ReportRequest {
    let row = |&(object, time_ms, x): &(u64, i64, f64)| fix(object, time_ms, x, 1.0);
    let fixes: Vec<_> = rows.iter().map(row).collect();
    let encoded = BlockEncoder::new(None, PlanChoice::Raw).encode(&fixes).unwrap().remove(0);
    let block_names = names.iter().map(|name| (*name).to_owned()).collect();
    v1::ReportRequest { block_names, ..block(encoded.block.into()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_has_a_name_for_each_row_or_fails() {
    let server = Running::start_with(named_options()).await;
    let create = v1::CreateFleetRequest { name: "plain".into(), ..Default::default() };
    server.fleets().await.create_fleet(create).await.unwrap();
    let mut positions = server.positions().await;
    let rows = [(0, START_MS, 1.0), (1, START_MS, 2.0)];
    let beyond = [(0, START_MS, 1.0), (2, START_MS, 2.0)];
    let of_plain = v1::ReportRequest { fleet: "plain".into(), ..named_block(&rows, &["a", "b"]) };
    for (message, part) in [
        (named_block(&rows, &[]), "row 0 has object 0 of 0 names"),
        (named_block(&rows, &["a"]), "row 1 has object 1 of 1 names"),
        (named_block(&beyond, &["a", "b"]), "row 1 has object 2 of 2 names"),
        (named_block(&rows, &["a", "b", "c"]), "3 names of a block exceed the limit of 2"),
        (of_plain, "numeric"),
        (
            v1::ReportRequest { block_names: vec!["a".into()], ..crate::running::rows(vec![]) },
            "rows",
        ),
    ] {
        let status = refused(positions.once(message.clone()).await, "FIELD");
        assert_eq!(violated_field(&status), "block_names");
        assert!(status.message().contains(part), "{}", status.message());
        let ack = report(&mut positions, vec![message]).await.remove(0);
        assert_eq!(path(ack.failed[0].status.as_ref()), "block_names");
    }
    refused(positions.once(block(Vec::new())).await, "BLOCK");
    assert_eq!(server.fleet("default").await.name_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_block_are_refused_one_by_one() {
    use RefusalReason::{Name, NameLimit, NotFinite, TimeTooEarly, TimeTooLate};
    let limits = ServerLimits { names_max: 3, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..named_options() }).await;
    let mut positions = server.positions().await;
    let late_ms = START_MS + 400 * 86_400_000 * 30;
    let long = "n".repeat(257);
    let names = ["a", "b\n", "", &long, "c", "a", "d", "e", "f"];
    let rows = [
        (0, START_MS, 1.0),
        (1, START_MS, 2.0),
        (2, START_MS, f64::NAN),
        (3, START_MS, 3.0),
        (4, START_MS, f64::NAN),
        (5, START_MS + 1, 4.0),
        (6, START_MS, 5.0),
        (8, START_MS, 6.0),
        (7, START_MS, 7.0),
        (0, START_MS + 2, 8.0),
    ];
    let ack = positions.once(named_block(&rows, &names)).await.unwrap().into_inner();
    let found: Vec<_> = ack.refused_rows.iter().map(|row| (row.row, row.reason())).collect();
    let expected = [(1, Name), (2, NotFinite), (3, Name), (4, NotFinite), (7, NameLimit)];
    // Names are numbered in their order in the list; the last one of them is beyond the limit.
    assert_eq!(found, expected);
    assert_eq!(ack.refused_rows[1].field, "block");
    let expected = [("a", 8.0), ("d", 5.0), ("e", 7.0)].map(|(name, x)| (name.to_owned(), x));
    assert_eq!(everything(&server, ack.token).await, expected.into());
    // A name with another fault of its row has the reason of the fault.
    for (time_ms, reason) in [(5, TimeTooEarly), (late_ms, TimeTooLate)] {
        let message = named_block(&[(0, time_ms, 1.0)], &[""]);
        let ack = positions.once(message).await.unwrap().into_inner();
        assert_eq!(ack.refused_rows[0].reason(), reason);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_reports_and_removals_by_name_agree_with_a_map() {
    for seed in 1..=3 {
        println!("seed {seed}");
        let (mut random, server) = (Random::new(seed), Running::start_with(named_options()).await);
        let mut positions = server.positions().await;
        let mut model: BTreeMap<String, f64> = BTreeMap::new();
        // Long names take another path of the parser than short ones.
        let name = |number: u64| format!("{}-{number}", "n".repeat((number % 5 * 50) as usize));
        for round in 0..40 {
            let fixes: Vec<_> = (0..random.below(3_000))
                .map(|row| {
                    let x = random.real(-90.0, 90.0).round();
                    let time_ms = START_MS + round * 10_000 + i64::from(row);
                    named(&name(random.below(4_000)), time_ms, x, 1.0)
                })
                .collect();
            model.extend(fixes.iter().map(|fix| (fix.name.clone(), fix.x)));
            report(&mut positions, vec![rows(fixes)]).await;
            let names: Vec<_> = (0..random.below(300)).map(|_| name(random.below(5_000))).collect();
            let mut distinct = names.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let request = v1::RemoveRequest { names, ..Default::default() };
            let removed = positions.remove(request).await.unwrap().into_inner();
            let gone = distinct.iter().filter(|name| model.remove(*name).is_some()).count() as u64;
            assert_eq!(removed.removed_count, gone, "seed {seed}");
            assert_eq!(removed.missing_count, distinct.len() as u64 - gone, "seed {seed}");
            assert_eq!(everything(&server, removed.token).await, model, "seed {seed}");
        }
    }
}
