//! Answers of `HistoryService` equal a naive past: tracks, who passed a region, the state at a
//! moment; and what it refuses.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;
use shoal_engine::Space;
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_service::ServerOptions;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::history::{Past, options, reaches};
use crate::restart::on;
use crate::running::{Random, Running, START_MS};

/// Objects of the past are below it.
const OBJECTS: u64 = 40;
/// Below the age of the oldest fixes.
const TTL_MS: i64 = 30_000;

async fn histories(server: &Running) -> HistoryServiceClient<Channel> {
    HistoryServiceClient::new(server.channel().await)
}

/// A response of any of the calls.
trait Part {
    fn parts(self) -> (Option<v1::HistoryHeader>, Vec<u64>, Vec<v1::FixRecord>);
}

macro_rules! parts {
    ($($message:ident),+) => {$(
        impl Part for v1::$message {
            fn parts(self) -> (Option<v1::HistoryHeader>, Vec<u64>, Vec<v1::FixRecord>) {
                (self.header, self.objects, self.fixes)
            }
        }
    )+};
}

parts!(TrajectoryResponse, PassedResponse, AsOfResponse);

/// The whole answer; its first message alone has a header, that of the past.
async fn whole<T: Part>(
    past: &Past,
    answer: Result<Response<Streaming<T>>, Status>,
) -> (Vec<u64>, Vec<v1::FixRecord>) {
    let mut stream = answer.unwrap().into_inner();
    let (header, mut objects, mut fixes) = stream.message().await.unwrap().unwrap().parts();
    let header = header.unwrap();
    assert_eq!((header.fleet.as_str(), header.kept_from_ms), ("default", None));
    assert_eq!((header.epoch, header.clock_ms), (past.epoch, past.clock_ms));
    while let Some(part) = stream.message().await.unwrap() {
        let (header, more, records) = part.parts();
        assert_eq!(header, None);
        objects.extend(more);
        fixes.extend(records);
    }
    (objects, fixes)
}

fn expected<'a>(rows: impl Iterator<Item = &'a FixRow>) -> (Vec<u64>, Vec<v1::FixRecord>) {
    let space = Space::geographic();
    let record = |row: &FixRow| {
        let (x, y) = space.to_api(row.x, row.y);
        v1::FixRecord { time_ms: row.time_ms, x, y, ..v1::FixRecord::default() }
    };
    rows.map(|row| (row.object, record(row))).unzip()
}

/// A rectangle in degrees, and whether a row lies in it.
fn rectangle(random: &mut Random) -> (v1::Region, impl Fn(&FixRow) -> bool + use<>) {
    let space = Space::geographic();
    let (west, east) = (random.below(9_000_000) as i32, random.below(9_000_000) as i32);
    let (west, east) = (west.min(east), west.max(east));
    let ((least, south), (greatest, north)) = (space.to_api(west, 0), space.to_api(east, 10));
    let rectangle = v1::Rectangle { west: least, south, east: greatest, north };
    let region = v1::Region { kind: Some(v1::region::Kind::Rectangle(rectangle)) };
    (region, move |row: &FixRow| (west..=east).contains(&row.x))
}

fn moment(random: &mut Random) -> i64 {
    START_MS - 95_000 + random.below(140_000) as i64
}

fn window(random: &mut Random) -> v1::TimeWindow {
    let (one, two) = (moment(random), moment(random));
    v1::TimeWindow { from_ms: one.min(two), to_ms: one.max(two) }
}

async fn compare_tracks(server: &Running, past: &Past, random: &mut Random) {
    let mut objects: Vec<u64> = (0..1 + random.below(5)).map(|_| random.below(OBJECTS)).collect();
    let (window, every_ms) = (window(random), random.below(3) as i64 * 4_000);
    let request = v1::TrajectoryRequest {
        objects: objects.clone(),
        window: Some(window),
        every: (every_ms > 0)
            .then_some(prost_types::Duration { seconds: every_ms / 1_000, nanos: 0 }),
        ..v1::TrajectoryRequest::default()
    };
    let mut known = BTreeSet::new();
    objects.retain(|object| known.insert(*object));
    let mut rows = Vec::new();
    for object in objects {
        let mut due_ms = i64::MIN;
        let times = (object, window.from_ms)..=(object, window.to_ms);
        for (_, row) in past.fixes.range(times) {
            if row.time_ms >= due_ms {
                rows.push(*row);
                due_ms = if every_ms > 0 { row.time_ms + every_ms } else { due_ms };
            }
        }
    }
    let found = whole(past, histories(server).await.trajectory(request.clone()).await).await;
    assert_eq!(found, expected(rows.iter()), "{request:?}");
}

async fn compare_passed(server: &Running, past: &Past, random: &mut Random) {
    let ((region, contains), window) = (rectangle(random), window(random));
    let mut request = v1::PassedRequest {
        region: Some(region),
        window: Some(window),
        projection: v1::Projection::Fixes.into(),
        ..v1::PassedRequest::default()
    };
    let times = window.from_ms..=window.to_ms;
    let rows = past.fixes.values().filter(|row| times.contains(&row.time_ms) && contains(row));
    let rows: BTreeMap<_, _> = rows.map(|row| ((row.object, row.time_ms), *row)).collect();
    let answer = histories(server).await.passed(request.clone()).await;
    let (objects, fixes) = whole(past, answer).await;
    assert_eq!(objects.len(), rows.len(), "{request:?}");
    let mut found: Vec<_> = objects.into_iter().zip(fixes).collect();
    found.sort_by_key(|(object, fix)| (*object, fix.time_ms));
    assert_eq!(found.into_iter().unzip::<_, _, Vec<_>, Vec<_>>(), expected(rows.values()));
    request.projection = v1::Projection::Unspecified.into();
    let answer = histories(server).await.passed(request).await;
    let ids: BTreeSet<u64> = rows.keys().map(|(object, _)| *object).collect();
    assert_eq!(whole(past, answer).await, (ids.into_iter().collect(), vec![]));
}

async fn compare_states(server: &Running, past: &Past, random: &mut Random) {
    let time_ms = moment(random);
    let mut request = v1::AsOfRequest { time_ms, ..v1::AsOfRequest::default() };
    let mut rows = past.as_of(time_ms);
    rows.retain(|row| time_ms - row.time_ms <= TTL_MS);
    if random.below(2) == 0 {
        let (region, contains) = rectangle(random);
        request.region = Some(region);
        rows.retain(contains);
    }
    if random.below(2) == 0 {
        request.objects = (0..20).map(|_| random.below(OBJECTS)).collect();
        rows.retain(|row| request.objects.contains(&row.object));
    }
    let found = whole(past, histories(server).await.as_of(request.clone()).await).await;
    assert_eq!(found, expected(rows.iter()), "{request:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_a_naive_past() {
    for seed in 10..13 {
        let (disk, mut random) = (SimulatedDisk::new(seed), Random(seed));
        let mut past = Past::default();
        let options = ServerOptions { default_ttl_ms: Some(TTL_MS), ..options(4 << 30) };
        let server = Running::start_in(on(&disk), options).await;
        for run in 0..4 {
            past.drive(&server, &mut random, 40 * run..40 * (run + 1)).await;
            reaches(&server, past.epoch).await;
            for _ in 0..25 {
                compare_tracks(&server, &past, &mut random).await;
                compare_passed(&server, &past, &mut random).await;
                compare_states(&server, &past, &mut random).await;
            }
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_many_messages_is_whole() {
    let (disk, mut past) = (SimulatedDisk::new(5), Past::default());
    let server = Running::start_in(on(&disk), options(4 << 30)).await;
    let mut random = Random(5);
    // Some messages of 256 KiB.
    past.report_many(&server, &mut random, 20_000).await;
    reaches(&server, past.epoch).await;
    let window = v1::TimeWindow { from_ms: i64::MIN, to_ms: i64::MAX };
    let request = v1::TrajectoryRequest {
        objects: (0..OBJECTS).collect(),
        window: Some(window),
        ..v1::TrajectoryRequest::default()
    };
    let found = whole(&past, histories(&server).await.trajectory(request).await).await;
    assert_eq!(found, expected(past.fixes.values()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named() {
    let disk = SimulatedDisk::new(6);
    let server = Running::start_in(on(&disk), options(4 << 30)).await;
    let mut service = histories(&server).await;
    let window = Some(v1::TimeWindow { from_ms: 2, to_ms: 1 });
    let track = v1::TrajectoryRequest { window, ..v1::TrajectoryRequest::default() };
    let error = service.trajectory(track.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().starts_with("window: from_ms 2"), "{error}");
    let track = v1::TrajectoryRequest { window: None, ..track };
    let error = service.trajectory(track.clone()).await.unwrap_err();
    assert!(error.message().starts_with("window: "), "{error}");
    let fleet = "other".to_owned();
    let error = service.trajectory(v1::TrajectoryRequest { fleet, ..track }).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let age_max = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let filter = Some(v1::Filter { age_max, ..v1::Filter::default() });
    let as_of = v1::AsOfRequest { filter, ..v1::AsOfRequest::default() };
    let error = service.as_of(as_of).await.unwrap_err();
    assert!(error.message().starts_with("filter.age_max: "), "{error}");
    let objects = vec![7; 65_537];
    let as_of = v1::AsOfRequest { objects, ..v1::AsOfRequest::default() };
    let error = service.as_of(as_of).await.unwrap_err();
    assert!(error.message().contains("65537 ids"), "{error}");
    let passed = v1::PassedRequest::default();
    let error = service.passed(passed.clone()).await.unwrap_err();
    assert!(error.message().starts_with("region: "), "{error}");
    let (region, _) = rectangle(&mut Random(1));
    let window = Some(v1::TimeWindow::default());
    let projection = v1::Projection::Count.into();
    let passed = v1::PassedRequest { region: Some(region), window, projection, ..passed };
    let error = service.passed(passed).await.unwrap_err();
    assert!(error.message().starts_with("projection: "), "{error}");
    server.stop().await;

    let server = Running::start().await;
    let request = v1::AsOfRequest::default();
    let error = histories(&server).await.as_of(request).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let details = error.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "NO_HISTORY");
    assert!(error.message().contains("--history"), "{error}");
}
