//! Hazard: a query, a listing or a subscription with a pattern of names that has an object too many
//! or too few.

use std::collections::BTreeSet;

use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_testkit::Random;

use crate::names::{named, named_options};
use crate::running::{
    Running, START_MS, collect, rectangle, refused, report, rows, violated_field, whole, within,
    world,
};
use crate::subscriber::{Subscriber, subscribe, subscription};

/// The rule itself, recursively.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        ['?', rest @ ..] => !name.is_empty() && matches(rest, &name[1..]),
        ['\\', c, rest @ ..] | [c, rest @ ..] => {
            name.first() == Some(c) && matches(rest, &name[1..])
        }
    }
}

fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
    matches(&pattern, &name)
}

/// Objects on a line along the equator, a microdegree apart: the name of each by its number less 1.
struct Line {
    server: Running,
    names: Vec<String>,
    token: Vec<u8>,
}

impl Line {
    async fn start(count: usize, random: &mut Random) -> Self {
        let server = Running::start_with(named_options()).await;
        let kinds = ["truck", "bus", "Käthe", "a*b"];
        let mut names: Vec<String> = Vec::new();
        names.extend((0..count).map(|at| format!("{}-{at}", kinds[random.below(4_u64) as usize])));
        let fix = |at: usize| named(&names[at], START_MS, x(at), 0.0);
        let fixes = (0..count).map(fix).collect();
        let ack = report(&mut server.positions().await, vec![rows(fixes)]).await.remove(0);
        assert_eq!(ack.rows.unwrap().applied, count as u64);
        Self { server, names, token: ack.token }
    }

    fn options(&self, pattern: &str, projection: v1::Projection) -> v1::QueryOptions {
        let filter = v1::Filter { name_pattern: pattern.to_owned(), ..v1::Filter::default() };
        let (min_token, projection) = (self.token.clone(), projection.into());
        v1::QueryOptions { min_token, projection, filter: Some(filter), ..Default::default() }
    }

    /// Numbers of the objects whose names match.
    fn matching(&self, pattern: &str) -> Vec<u64> {
        let numbered = (1..).zip(&self.names);
        numbered.filter(|(_, name)| is_match(pattern, name)).map(|(number, _)| number).collect()
    }

    async fn compare_ranges(&self, pattern: &str, random: &mut Random) {
        let (from, to) = {
            let (one, two) = (random.below(self.names.len()), random.below(self.names.len()));
            (one.min(two), one.max(two))
        };
        let region = rectangle(x(from) - 3e-7, -1.0, x(to) + 3e-7, 1.0);
        let all = self.matching(pattern);
        let inside: Vec<u64> =
            all.into_iter().filter(|at| (from..=to).contains(&(*at as usize - 1))).collect();
        let mut queries = self.server.queries().await;
        for projection in [v1::Projection::Ids, v1::Projection::Fixes, v1::Projection::Count] {
            let (limit, after) = (random.below(20_u64), random.below(self.names.len() as u64));
            let options = self.options(pattern, projection);
            let options = v1::QueryOptions { limit, after_object: Some(after), ..options };
            let (options, region) = (Some(options), Some(region.clone()));
            let request = v1::RangeRequest { options, region };
            let found = whole(queries.range(request).await.unwrap().into_inner()).await.unwrap();
            let expected: Vec<u64> = inside.iter().copied().filter(|at| *at > after).collect();
            assert_eq!(found.header.total, expected.len() as u64, "{pattern}");
            let has_rows = projection != v1::Projection::Count;
            let count =
                if limit == 0 { expected.len() } else { expected.len().min(limit as usize) };
            let rows = if has_rows { &expected[..count] } else { &[] };
            assert_eq!(found.objects, rows, "{pattern}");
            assert_eq!(found.header.truncated, has_rows && count < expected.len());
            assert_eq!(
                found.fixes.len(),
                if projection == v1::Projection::Fixes { count } else { 0 }
            );
        }
        let request = v1::CountRegionsRequest {
            filter: self.options(pattern, v1::Projection::Ids).filter,
            min_token: self.token.clone(),
            regions: vec![region, world()],
            ..Default::default()
        };
        let counts = queries.count_regions(request).await.unwrap().into_inner().counts;
        assert_eq!(counts, [inside.len() as u64, self.matching(pattern).len() as u64]);
    }

    async fn compare_nearest(&self, pattern: &str, random: &mut Random) {
        let at = random.below(self.names.len());
        let k = 1 + random.below(40_u32);
        let distance_max_m = (random.below(2_u32) == 0).then(|| random.real(0.0, 400.0));
        let options = Some(self.options(pattern, v1::Projection::Fixes));
        // Between two objects, so that no two are equally far.
        let (x, y) = (x(at) + 2e-7, 0.0);
        let request = v1::NearestRequest { options, x, y, k, distance_max_m };
        let mut queries = self.server.queries().await;
        let found = whole(queries.nearest(request).await.unwrap().into_inner()).await.unwrap();
        let mut expected: Vec<_> = self
            .matching(pattern)
            .into_iter()
            .map(|number| ((10 * (number as usize - 1)).abs_diff(10 * at + 2), number))
            .filter(|(quanta, _)| distance_max_m.is_none_or(|it| *quanta as f64 * QUANTUM_M <= it))
            .collect();
        expected.sort_unstable();
        expected.truncate(k as usize);
        let expected: Vec<u64> = expected.into_iter().map(|(_, number)| number).collect();
        assert_eq!(found.objects, expected, "{pattern} from {at}, {k} within {distance_max_m:?}");
        assert_eq!(found.distance_m.len(), expected.len());
        assert!(found.distance_m.is_sorted());
    }

    async fn compare_gets(&self, pattern: &str, random: &mut Random) {
        let mut queries = self.server.queries().await;
        let some: BTreeSet<u64> =
            (0..50).map(|_| 1 + random.below(self.names.len() as u64)).collect();
        let options = Some(self.options(pattern, v1::Projection::Ids));
        let expected: Vec<u64> = self.matching(pattern);
        let names: Vec<String> =
            some.iter().map(|number| self.names[*number as usize - 1].clone()).collect();
        let request = v1::GetRequest { options: options.clone(), names, objects: vec![] };
        let found = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
        let of_some: Vec<u64> =
            expected.iter().copied().filter(|number| some.contains(number)).collect();
        assert_eq!(found.objects, of_some);
        // Without ids: all.
        let request = v1::GetRequest { options, ..Default::default() };
        let found = whole(queries.get(request).await.unwrap().into_inner()).await.unwrap();
        assert_eq!(found.objects, expected, "{pattern}");
    }
}

/// Degrees of the place of an object.
fn x(at: usize) -> f64 {
    at as f64 * 1e-6
}

/// Metres of a quantum on the equator, for comparisons that are not close.
const QUANTUM_M: f64 = 6_371_008.8 * std::f64::consts::PI / 180.0 * 1e-7;

const PATTERNS: [&str; 9] =
    ["truck-*", "*7", "?us-1*", "K?the-*", "a\\*b-*", "a*b-*", "nobody*", "*", "bus-33"];

#[tokio::test(flavor = "multi_thread")]
async fn queries_with_a_pattern_have_the_objects_that_match() {
    let mut random = Random::new(5);
    let line = Line::start(5_000, &mut random).await;
    for pattern in PATTERNS {
        line.compare_ranges(pattern, &mut random).await;
        line.compare_nearest(pattern, &mut random).await;
        line.compare_gets(pattern, &mut random).await;
    }
    // A batch has one epoch, and patterns hold for all of its queries.
    let kinds = [
        v1::batch_query::Kind::Range(world()),
        v1::batch_query::Kind::Get(v1::GetQuery {
            objects: vec![],
            names: line.names[..9].to_vec(),
        }),
        v1::batch_query::Kind::Nearest(v1::NearestQuery { k: 3, ..Default::default() }),
    ];
    let queries = kinds.map(|kind| v1::BatchQuery { kind: Some(kind) }).to_vec();
    let options = Some(line.options("truck-*", v1::Projection::Ids));
    let batch = v1::BatchRequest { options, queries };
    let mut service = line.server.queries().await;
    let stream = service.batch(tokio_stream::iter([batch])).await.unwrap().into_inner();
    let results = within(collect(stream)).await.unwrap().remove(0).results;
    let all = line.matching("truck-*");
    let first: Vec<u64> = all.iter().copied().filter(|number| *number <= 9).collect();
    assert_eq!(results[0].objects, all);
    assert_eq!(results[1].objects, first);
    assert_eq!(results[2].objects, all[..3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_hold_for_more_objects_than_are_tested_one_by_one() {
    let mut random = Random::new(6);
    let line = Line::start(70_000, &mut random).await;
    // Few, many, and more than one query may ask for.
    for pattern in ["bus-33*", "*-1?", "nobody*", "*", "*-*"] {
        line.compare_ranges(pattern, &mut random).await;
        line.compare_gets(pattern, &mut random).await;
        for _ in 0..3 {
            line.compare_nearest(pattern, &mut random).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_queries_of_one_request_are_sieved_alike() {
    let mut random = Random::new(9);
    let line = Line::start(20_000, &mut random).await;
    let mut service = line.server.queries().await;
    // Few members, and more than are tested for all queries.
    for (pattern, count) in [("bus-19*", 300), ("*", 300), ("nobody", 40), ("*7", 3)] {
        let (mut regions, mut queries, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let matching = line.matching(pattern);
        for at in 0..count {
            let (from, to) = (at * 7, 5_000 + at * 50);
            let region = rectangle(x(from) - 3e-7, -1.0, x(to) + 3e-7, 1.0);
            queries.push(v1::batch_query::Kind::Range(region.clone()));
            let inside = matching.iter().copied();
            let inside = inside.filter(|it| (from..=to).contains(&(*it as usize - 1)));
            expected.push(inside.collect::<Vec<u64>>());
            regions.push(region);
            let nearest = v1::NearestQuery { x: x(from) - 2e-7, k: 2, ..Default::default() };
            queries.push(v1::batch_query::Kind::Nearest(nearest));
        }
        let request = v1::CountRegionsRequest {
            filter: line.options(pattern, v1::Projection::Ids).filter,
            min_token: line.token.clone(),
            regions,
            ..Default::default()
        };
        let counts = service.count_regions(request).await.unwrap().into_inner().counts;
        let totals: Vec<u64> = expected.iter().map(|objects| objects.len() as u64).collect();
        assert_eq!(counts, totals, "{pattern}");
        let queries = queries.into_iter().map(|kind| v1::BatchQuery { kind: Some(kind) }).collect();
        let options = Some(line.options(pattern, v1::Projection::Ids));
        let batch = v1::BatchRequest { options, queries };
        let stream = service.batch(tokio_stream::iter([batch])).await.unwrap().into_inner();
        let mut found = vec![Vec::new(); 2 * count];
        for response in within(collect(stream)).await.unwrap() {
            for result in response.results {
                assert_eq!(result.error, None);
                found[result.query as usize].extend(result.objects);
            }
        }
        for at in 0..count {
            assert_eq!(found[2 * at], expected[at], "{pattern} {at}");
            // West of the first object that may match, the nearest are those with the least steps.
            let mut near = matching.clone();
            near.sort_by_key(|it| ((10 * (*it as i64 - 1)) - (70 * at as i64 - 2)).abs());
            near.truncate(2);
            assert_eq!(found[2 * at + 1], near, "{pattern} {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_listed_in_pages() {
    let mut random = Random::new(7);
    let line = Line::start(5_000, &mut random).await;
    let mut queries = line.server.queries().await;
    for (pattern, page_size) in
        [("", 0), ("truck-*", 77), ("*9", 2_000), ("nobody", 5), ("*", 9_999)]
    {
        let (mut found, mut after_object, mut has_more) = (Vec::new(), 0, true);
        while has_more {
            let name_pattern = pattern.to_owned();
            let request = v1::ListNamesRequest {
                fleet: String::new(),
                name_pattern,
                page_size,
                after_object,
            };
            let page = queries.list_names(request).await.unwrap().into_inner();
            let most = if page_size == 0 { 1_000 } else { page_size.min(2_000) as usize };
            assert!(page.names.len() == most || !page.has_more && page.names.len() < most);
            after_object = page.objects.last().copied().unwrap_or(0);
            has_more = page.has_more;
            found.extend(page.names.into_iter().zip(page.objects));
        }
        let mut expected: Vec<(String, u64)> = line.names.iter().cloned().zip(1..).collect();
        expected.retain(|(name, _)| pattern.is_empty() || is_match(pattern, name));
        assert_eq!(found, expected, "{pattern}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_region_with_a_pattern_are_those_of_its_objects() {
    let mut random = Random::new(8);
    let server = Running::start_with(named_options()).await;
    let mut positions = server.positions().await;
    let drive = async |positions: &mut _, random: &mut Random, round: i64| {
        let fixes: Vec<_> = (0..60)
            .map(|row| {
                let name = format!("{}-{}", ["bus", "truck"][row % 2], random.below(40));
                named(&name, START_MS + round * 1_000 + row as i64, random.real(-9.0, 9.0), 1.0)
            })
            .collect();
        report(positions, vec![rows(fixes)]).await;
    };
    drive(&mut positions, &mut random, 0).await;
    let region = |region_id, pattern: &str| v1::RegionSubscription {
        filter: Some(v1::Filter { name_pattern: pattern.into(), ..Default::default() }),
        projection: v1::Projection::Fixes.into(),
        ..subscription(region_id, rectangle(-3.0, 0.0, 3.0, 2.0))
    };
    let request = subscribe(vec![region(1, ""), region(2, "bus-*"), region(3, "nobody")]);
    let mut subscriber = Subscriber::open(server.subscriptions().await, request).await.unwrap();
    // Events and members by region, with their labels.
    let mut seen: [Vec<(String, i32)>; 3] = Default::default();
    let read = async |subscriber: &mut Subscriber, seen: &mut [Vec<(String, i32)>; 3]| {
        let epoch = server.fleet("").await.epoch;
        while subscriber.epoch < epoch {
            match subscriber.next().await.unwrap().unwrap() {
                Kind::Snapshot(chunk) => chunk.regions.into_iter().for_each(|of| {
                    let members = of.names.into_iter().map(|name| (name, 0));
                    seen[of.region_id as usize - 1].extend(members);
                }),
                Kind::Events(batch) => batch.regions.into_iter().for_each(|of| {
                    assert_eq!(of.fixes.len(), of.objects.len());
                    seen[of.region_id as usize - 1].extend(of.names.into_iter().zip(of.kinds));
                }),
                Kind::Progress(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    for round in 1..20 {
        drive(&mut positions, &mut random, round).await;
    }
    read(&mut subscriber, &mut seen).await;
    let of_buses: Vec<_> =
        seen[0].iter().filter(|(name, _)| name.starts_with("bus-")).cloned().collect();
    assert!(of_buses.len() > 50 && of_buses.len() < seen[0].len());
    assert_eq!((&seen[1], &seen[2]), (&of_buses, &vec![]));

    // Another pattern needs a snapshot, with which it takes effect.
    let change = |region| v1::ModifyRequest { change: vec![region], ..Default::default() };
    let without = v1::RegionSubscription { snapshot: false, ..region(2, "truck-*") };
    let errors = subscriber.modify(change(without)).await.unwrap().errors;
    let problem = format!("{:?}", errors[0].status);
    assert!(problem.contains("change[0].filter.name_pattern"), "{problem}");
    subscriber.modify(change(region(2, "truck-*"))).await.unwrap();
    drive(&mut positions, &mut random, 20).await;
    read(&mut subscriber, &mut seen).await;
    let names = |region: u64, subscriber: &Subscriber| subscriber.members(region).len();
    let mut queries = server.queries().await;
    let filter = Some(v1::Filter { name_pattern: "truck-*".into(), ..Default::default() });
    let options = Some(v1::QueryOptions { filter, ..Default::default() });
    let request = v1::RangeRequest { options, region: Some(rectangle(-3.0, 0.0, 3.0, 2.0)) };
    let found = whole(queries.range(request).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(subscriber.members(2), found.objects);
    assert!(names(2, &subscriber) < names(1, &subscriber));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_patterns_are_refused() {
    let server = Running::start_with(named_options()).await;
    let create = v1::CreateFleetRequest { name: "plain".into(), ..Default::default() };
    server.fleets().await.create_fleet(create).await.unwrap();
    let mut queries = server.queries().await;
    for (fleet, pattern) in [("", "a\\"), ("", &"a".repeat(513)), ("plain", "a*")] {
        let filter = v1::Filter { name_pattern: pattern.into(), ..Default::default() };
        let (fleet, filter) = (fleet.to_owned(), Some(filter));
        let options = Some(v1::QueryOptions {
            fleet: fleet.clone(),
            filter: filter.clone(),
            ..Default::default()
        });
        let request = v1::RangeRequest { options, region: Some(world()) };
        let status = refused(queries.range(request).await, "FIELD");
        assert_eq!(violated_field(&status), "options.filter.name_pattern");
        let region = v1::RegionSubscription { filter, ..subscription(1, world()) };
        let request = v1::SubscribeRequest { fleet, ..subscribe(vec![region]) };
        let status = refused(server.subscriptions().await.subscribe(request).await, "FIELD");
        assert_eq!(violated_field(&status), "regions[0].filter.name_pattern");
    }
    let listed = |fleet: &str, pattern: &str| v1::ListNamesRequest {
        fleet: fleet.into(),
        name_pattern: pattern.into(),
        ..Default::default()
    };
    for (request, field) in [(listed("plain", ""), "fleet"), (listed("", "\\"), "name_pattern")] {
        assert_eq!(violated_field(&refused(queries.list_names(request).await, "FIELD")), field);
    }
}
