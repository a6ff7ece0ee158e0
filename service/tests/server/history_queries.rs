//! Answers of `HistoryService` equal a naive past: tracks, who passed a region, the state at a
//! moment; and what it refuses.

use std::collections::BTreeSet;
use std::time::Instant;

use shoal_codec::{FixRow, MEASURES};
use shoal_engine::Space;
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::{NaivePast, Random};
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::history::{Acknowledged, OLD_MS, options, reaches};
use crate::restart::{crashed, on};
use crate::running::{Running, START_MS, until};

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

parts!(TrajectoryResponse, PassedResponse, AsOfResponse, ReplayResponse);

/// Returns the whole answer. Confirms that only its first message has a header, for the epoch and
/// clock of `sent`.
async fn whole<T: Part>(
    sent: &Acknowledged,
    answer: Result<Response<Streaming<T>>, Status>,
) -> (Vec<u64>, Vec<v1::FixRecord>) {
    let mut stream = answer.unwrap().into_inner();
    let (header, mut objects, mut fixes) = stream.message().await.unwrap().unwrap().parts();
    let header = header.unwrap();
    assert_eq!((header.fleet.as_str(), header.kept_from_ms), ("default", None));
    let is_exact = header.epoch == sent.epoch;
    assert!(is_exact || sent.has_more_epochs && header.epoch > sent.epoch, "{}", header.epoch);
    assert_eq!(header.clock_ms, sent.clock_ms);
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
        let valid_s = MEASURES.valid_ms.value(row.valid_ms);
        v1::FixRecord { time_ms: row.time_ms, x, y, valid_s, ..v1::FixRecord::default() }
    };
    rows.map(|row| (row.object, record(row))).unzip()
}

/// A rectangle in degrees, and whether a row lies in it.
fn rectangle(random: &mut Random) -> (v1::Region, impl Fn(&FixRow) -> bool + use<>) {
    let space = Space::geographic();
    let (west, east) = (random.below(9_000_000), random.below(9_000_000));
    let (west, east) = (west.min(east), west.max(east));
    let ((least, south), (greatest, north)) = (space.to_api(west, 0), space.to_api(east, 10));
    let rectangle = v1::Rectangle { west: least, south, east: greatest, north };
    let region = v1::Region { kind: Some(v1::region::Kind::Rectangle(rectangle)) };
    (region, move |row: &FixRow| (west..=east).contains(&row.x))
}

/// A moment near the fixes, of which some are old.
fn moment(random: &mut Random) -> i64 {
    let recent = START_MS - 95_000 + i64::from(random.below(140_000));
    if random.below(4) == 0 { recent - OLD_MS } else { recent }
}

fn window(random: &mut Random) -> v1::TimeWindow {
    let (one, two) = (moment(random), moment(random));
    v1::TimeWindow { from_ms: one.min(two), to_ms: one.max(two) }
}

async fn compare_tracks(server: &Running, sent: &Acknowledged, random: &mut Random) {
    let mut objects: Vec<u64> = (0..1 + random.below(5)).map(|_| random.below(OBJECTS)).collect();
    let (window, every_ms) = (window(random), i64::from(random.below(3)) * 4_000);
    let request = v1::TrajectoryRequest {
        objects: objects.clone(),
        window: Some(window),
        every: (every_ms > 0)
            .then_some(prost_types::Duration { seconds: every_ms / 1_000, nanos: 0 }),
        ..v1::TrajectoryRequest::default()
    };
    let mut known = BTreeSet::new();
    objects.retain(|object| known.insert(*object));
    let times = (window.from_ms, window.to_ms);
    let rows = sent.past.trajectory(&objects, times, every_ms);
    let found = whole(sent, histories(server).await.trajectory(request.clone()).await).await;
    assert_eq!(found, expected(rows.iter()), "{request:?}");
}

async fn compare_passed(server: &Running, sent: &Acknowledged, random: &mut Random) {
    let ((region, contains), window) = (rectangle(random), window(random));
    let mut request = v1::PassedRequest {
        region: Some(region),
        window: Some(window),
        projection: v1::Projection::Fixes.into(),
        ..v1::PassedRequest::default()
    };
    let rows = sent.past.passed((window.from_ms, window.to_ms), contains);
    let answer = histories(server).await.passed(request.clone()).await;
    let (objects, fixes) = whole(sent, answer).await;
    assert_eq!(objects.len(), rows.len(), "{request:?}");
    let mut found: Vec<_> = objects.into_iter().zip(fixes).collect();
    found.sort_by_key(|(object, fix)| (*object, fix.time_ms));
    assert_eq!(found.into_iter().unzip::<_, _, Vec<_>, Vec<_>>(), expected(rows.iter()));
    request.projection = v1::Projection::Unspecified.into();
    let answer = histories(server).await.passed(request).await;
    let ids: BTreeSet<u64> = rows.iter().map(|row| row.object).collect();
    assert_eq!(whole(sent, answer).await, (ids.into_iter().collect(), vec![]));
}

async fn compare_states(server: &Running, sent: &Acknowledged, random: &mut Random) {
    let time_ms = moment(random);
    let mut request = v1::AsOfRequest { time_ms, ..v1::AsOfRequest::default() };
    let mut rows = sent.past.as_of(time_ms, Some(TTL_MS), |_| true);
    if random.below(2) == 0 {
        let (region, contains) = rectangle(random);
        request.region = Some(region);
        rows.retain(contains);
    }
    if random.below(2) == 0 {
        request.objects = (0..20).map(|_| random.below(OBJECTS)).collect();
        rows.retain(|row| request.objects.contains(&row.object));
    }
    let found = whole(sent, histories(server).await.as_of(request.clone()).await).await;
    assert_eq!(found, expected(rows.iter()), "{request:?}");
}

/// A request for a random window and perhaps a region, and its rows in the order of time.
fn replay(sent: &Acknowledged, random: &mut Random) -> (v1::ReplayRequest, Vec<FixRow>) {
    let window = window(random);
    let mut rows = sent.past.replay((window.from_ms, window.to_ms), |_| true);
    let mut request = v1::ReplayRequest { window: Some(window), ..v1::ReplayRequest::default() };
    if random.below(2) == 0 {
        let (region, contains) = rectangle(random);
        request.region = Some(region);
        rows.retain(contains);
    }
    (request, rows)
}

async fn compare_replay(server: &Running, sent: &Acknowledged, random: &mut Random) {
    let (request, rows) = replay(sent, random);
    let found = whole(sent, histories(server).await.replay(request.clone()).await).await;
    assert_eq!(found, expected(rows.iter()), "{request:?}");
}

/// Replays rows at a speed. Confirms that no row arrives before it is due, and that the times of
/// the messages ascend to the end of the window.
async fn compare_paced(server: &Running, sent: &Acknowledged, random: &mut Random) {
    // A window of years would take too long.
    let (mut request, rows) = loop {
        let drawn = replay(sent, random);
        if drawn.0.window.is_some_and(|window| window.from_ms > START_MS - OLD_MS / 2) {
            break drawn;
        }
    };
    request.speed = [1e6, 100_000.0, 2_000.0][random.below(3) as usize];
    let began = Instant::now();
    let answer = histories(server).await.replay(request.clone()).await;
    let mut stream = answer.unwrap().into_inner();
    let (mut objects, mut fixes, mut headers) = (Vec::new(), Vec::new(), 0);
    let (mut reached_ms, window) = (i64::MIN, request.window.unwrap());
    let first_ms = sent.past.fixes.values().map(|row| row.time_ms).min().unwrap();
    while let Some(part) = stream.message().await.unwrap() {
        headers += usize::from(part.header.is_some());
        let past_ms = began.elapsed().as_secs_f64() * 1e3 * request.speed;
        for fix in &part.fixes {
            assert!(fix.time_ms > reached_ms, "{request:?}");
            let after_ms = fix.time_ms - window.from_ms.max(first_ms);
            assert!(after_ms as f64 <= past_ms + 1.0, "{request:?}");
        }
        assert!(part.time_ms >= reached_ms, "{request:?}");
        reached_ms = part.time_ms;
        objects.extend(part.objects);
        fixes.extend(part.fixes);
    }
    assert_eq!((objects, fixes), expected(rows.iter()), "{request:?}");
    assert_eq!(reached_ms, window.to_ms);
    assert!(headers >= 1);
}

async fn compare_density(server: &Running, sent: &Acknowledged, random: &mut Random) {
    let (replay, rows) = replay(sent, random);
    let (side, step_ms) =
        ([1, 70_000, 4_000_000][random.below(3) as usize], random.below(2) * 7_000);
    let window = replay.window.unwrap();
    let request = v1::DensityRequest {
        region: replay.region,
        window: replay.window,
        cell: f64::from(side) * 1e-7,
        step: (step_ms > 0)
            .then_some(prost_types::Duration { seconds: i64::from(step_ms) / 1_000, nanos: 0 }),
        ..v1::DensityRequest::default()
    };
    let mut found_rows = NaivePast::new();
    rows.into_iter().for_each(|row| found_rows.fix(row));
    let times = (window.from_ms, window.to_ms);
    let counts = found_rows.density(times, |_| true, side.into(), step_ms.into());
    let answer = histories(server).await.density(request.clone()).await;
    let mut stream = answer.unwrap().into_inner();
    let mut found = Vec::new();
    while let Some(part) = stream.message().await.unwrap() {
        assert_eq!(part.header.is_some(), found.is_empty());
        assert!(part.header.is_none() || (part.cell - request.cell).abs() < 1e-12);
        let places = part.time_ms.into_iter().zip(part.rows).zip(part.columns);
        found.extend(places.zip(part.fixes).map(|(((t, row), column), n)| ((t, row, column), n)));
    }
    assert_eq!(found, counts.into_iter().collect::<Vec<_>>(), "{request:?}");
}

/// Questions of each kind after each run of [`answers_equal_a_naive_past`]; SHOAL_TEST_QUESTIONS
/// sets others, and SHOAL_TEST_SEEDS its seeds.
const QUESTIONS: u64 = 25;

fn set(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

async fn compare_all(server: &Running, sent: &Acknowledged, random: &mut Random) {
    compare_tracks(server, sent, random).await;
    compare_passed(server, sent, random).await;
    compare_states(server, sent, random).await;
    compare_replay(server, sent, random).await;
    compare_density(server, sent, random).await;
}

/// Erases some objects; they are in no answer from then on, whether files have them or not.
async fn erase(server: &Running, sent: &mut Acknowledged, random: &mut Random) {
    let objects: Vec<u64> = (0..2).map(|_| random.below(OBJECTS)).collect();
    let request = v1::EraseRequest { objects: objects.clone(), ..v1::EraseRequest::default() };
    let erased = histories(server).await.erase(request).await.unwrap().into_inner();
    (sent.epoch, sent.has_more_epochs) = (erased.epoch, true);
    for object in objects {
        sent.past.remove(Some(object), sent.clock_ms);
        sent.past.erase(object);
    }
    reaches(server, sent.epoch).await;
    compare_all(server, sent, random).await;
    // A fix that arrives meanwhile is hidden until then.
    until(async || server.fleet("").await.history.unwrap().erasing_count == 0).await;
}

/// Late, old, duplicate and refused rows, removals, clears, a time to live, erasures, restarts and
/// crashes.
#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_a_naive_past() {
    for seed in 10..10 + set("SHOAL_TEST_SEEDS", 3) {
        let (mut disk, mut random) = (SimulatedDisk::new(seed), Random::new(seed));
        let mut sent = Acknowledged { has_validities: true, ..Acknowledged::default() };
        let options = options(4 << 30);
        // A replay of 140 s at 2,000 times the speed takes several versions.
        let limits = ServerLimits { history_replay_ms: 9, ..options.limits };
        let options = ServerOptions { default_ttl_ms: Some(TTL_MS), limits, ..options };
        let mut server = Running::start_in(on(&disk), options.clone()).await;
        for run in 0..4 {
            sent.drive(&server, &mut random, 40 * run..40 * (run + 1)).await;
            sent.report_old(&server, &mut random).await;
            match random.below(4) {
                0 => erase(&server, &mut sent, &mut random).await,
                restart @ 1..=2 => {
                    if restart == 1 {
                        server.stop().await;
                    } else {
                        let fork = crashed(&disk, random.word());
                        server.abandon().await;
                        disk = fork;
                    }
                    server = Running::start_in(on(&disk), options.clone()).await;
                    sent.has_more_epochs = true;
                }
                _ => {}
            }
            reaches(&server, sent.epoch).await;
            for _ in 0..set("SHOAL_TEST_QUESTIONS", QUESTIONS) {
                compare_all(&server, &sent, &mut random).await;
            }
            for _ in 0..4 {
                compare_paced(&server, &sent, &mut random).await;
            }
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_many_messages_is_whole() {
    let (disk, mut sent) = (SimulatedDisk::new(5), Acknowledged::default());
    let server = Running::start_in(on(&disk), options(4 << 30)).await;
    let mut random = Random::new(5);
    // Some messages of 256 KiB.
    sent.report_many(&server, &mut random, 20_000).await;
    reaches(&server, sent.epoch).await;
    let window = v1::TimeWindow { from_ms: i64::MIN, to_ms: i64::MAX };
    let request = v1::TrajectoryRequest {
        objects: (0..OBJECTS).collect(),
        window: Some(window),
        ..v1::TrajectoryRequest::default()
    };
    let found = whole(&sent, histories(&server).await.trajectory(request).await).await;
    assert_eq!(found, expected(sent.past.fixes.values()));
    server.stop().await;
}

/// More queries than the memory for answers holds at once: the rest waits.
#[tokio::test(flavor = "multi_thread")]
async fn queries_share_the_memory_for_answers() {
    const ANSWER_BYTES: usize = 64 << 20;
    let (disk, mut sent) = (SimulatedDisk::new(7), Acknowledged::default());
    let options = options(4 << 30);
    let limits = ServerLimits { answer_bytes_max: ANSWER_BYTES, ..options.limits };
    let server = Running::start_in(on(&disk), ServerOptions { limits, ..options }).await;
    sent.report_many(&server, &mut Random::new(7), 20_000).await;
    reaches(&server, sent.epoch).await;
    let window = Some(v1::TimeWindow { from_ms: i64::MIN, to_ms: i64::MAX });
    let step = Some(prost_types::Duration { seconds: 0, nanos: 1_000_000 });
    let request = v1::DensityRequest { window, cell: 1e-7, step, ..v1::DensityRequest::default() };
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..24 {
        let (mut service, request) = (histories(&server).await, request.clone());
        asking.spawn(async move {
            let mut answer = service.density(request).await.unwrap().into_inner();
            let mut fixes = 0;
            while let Some(part) = answer.message().await.unwrap() {
                fixes += part.fixes.iter().sum::<u64>();
            }
            fixes
        });
    }
    let mut held = Vec::new();
    while !asking.is_empty() {
        held.push(server.metric("shoal_answer_bytes").await);
        if let Some(fixes) = asking.try_join_next() {
            assert_eq!(fixes.unwrap(), sent.past.fixes.len() as u64);
        }
    }
    let most = held.iter().copied().fold(0.0, f64::max);
    assert!(most > 0.0 && most <= ANSWER_BYTES as f64, "{most}");
    until(async || server.metric("shoal_answer_bytes").await == 0.0).await;
    assert!(server.metric("shoal_history_page_bytes").await > 0.0);
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
    let (region, _) = rectangle(&mut Random::new(1));
    let window = Some(v1::TimeWindow::default());
    let projection = v1::Projection::Count.into();
    let passed = v1::PassedRequest { region: Some(region), window, projection, ..passed };
    let error = service.passed(passed).await.unwrap_err();
    assert!(error.message().starts_with("projection: "), "{error}");
    for speed in [-1.0, f64::NAN, 2e6] {
        let replay = v1::ReplayRequest { window, speed, ..v1::ReplayRequest::default() };
        let error = service.replay(replay).await.unwrap_err();
        assert!(error.message().starts_with("speed: "), "{error}");
    }
    for cell in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        let density = v1::DensityRequest { window, cell, ..v1::DensityRequest::default() };
        let error = service.density(density).await.unwrap_err();
        assert!(error.message().starts_with("cell: "), "{error}");
    }
    let step = Some(prost_types::Duration::default());
    let density = v1::DensityRequest { window, cell: 1.0, step, ..v1::DensityRequest::default() };
    let error = service.density(density).await.unwrap_err();
    assert!(error.message().starts_with("step: "), "{error}");
    server.stop().await;

    let server = Running::start().await;
    let request = v1::AsOfRequest::default();
    let error = histories(&server).await.as_of(request).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let details = error.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "NO_HISTORY");
    assert!(error.message().contains("--history"), "{error}");
}
