//! A server with a data folder keeps its fleets across restarts and crashes. The disk is simulated:
//! a fork of it is the disk of a server that crashed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use shoal_codec::{Aim, BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::{Clock, Space};
use shoal_position_log::{SimulatedDisk, Storage, list_segments};
use shoal_proto::v1;
use shoal_service::cycle::WallClock;
use shoal_service::persistence::DataFolder;
use shoal_service::server::Environment;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, environment, fix, millis, options, refused, report,
    rows, sums, until, whole, within, world,
};

/// Limits with small segments, and a checkpoint after each `checkpoint_log_bytes` of the log.
pub(crate) fn small(checkpoint_log_bytes: u64) -> ServerLimits {
    let defaults = ServerLimits::default();
    ServerLimits { log_segment_bytes: 64 << 10, checkpoint_log_bytes, ..defaults }
}

pub(crate) fn on(disk: &SimulatedDisk) -> Environment {
    let data = DataFolder::with_storage(Arc::new(disk.clone()), None).unwrap();
    Environment { data: Some(data), ..environment() }
}

pub(crate) async fn start(disk: &SimulatedDisk) -> Running {
    start_with(disk, 1 << 30).await
}

pub(crate) async fn start_with(disk: &SimulatedDisk, checkpoint_log_bytes: u64) -> Running {
    let limits = ServerLimits { log_reserve_bytes: 0, ..small(checkpoint_log_bytes) };
    Running::start_in(on(disk), ServerOptions { limits, ..options() }).await
}

/// The disk of a server that crashes now.
pub(crate) fn crashed(disk: &SimulatedDisk, seed: u64) -> SimulatedDisk {
    let fork = disk.fork(seed);
    fork.restart();
    fork
}

fn range(min_token: Vec<u8>) -> v1::RangeRequest {
    let projection = v1::Projection::Fixes.into();
    let options = v1::QueryOptions { min_token, projection, ..v1::QueryOptions::default() };
    v1::RangeRequest { options: Some(options), region: Some(world()) }
}

/// All records of the fleet `default` with their ids.
pub(crate) async fn state(server: &Running) -> Vec<(u64, v1::FixRecord)> {
    let answer = server.queries().await.range(range(Vec::new())).await.unwrap().into_inner();
    let answer = whole(answer).await.unwrap();
    answer.objects.into_iter().zip(answer.fixes).collect()
}

pub(crate) fn numbered(number: u64, fixes: Vec<v1::Fix>) -> v1::ReportRequest {
    v1::ReportRequest { producer: "p".into(), batch_seq: number, ..rows(fixes) }
}

/// Random rows of 40 objects near the time of a round.
pub(crate) fn fixes(random: &mut Random, round: u64) -> Vec<v1::Fix> {
    let row = |random: &mut Random| {
        let time_ms = START_MS + 100 * round as i64 - i64::from(random.below(300));
        let speed_mps = (random.below(2) == 0).then_some(2.5);
        v1::Fix { speed_mps, ..fix(random.below(40), time_ms, random.real(-9.0, 9.0), 1.0) }
    };
    let count = 1 + random.below(20);
    (0..count).map(|_| row(random)).collect()
}

fn encoded(random: &mut Random, round: u64) -> Vec<u8> {
    let mut columns = FixColumns::new();
    for _ in 0..=random.below(30) {
        let (object, x) = (random.below(40), random.below(9_000_000));
        columns.push_row(FixRow::new(object, START_MS + 100 * round as i64, x, 5));
    }
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
    bytes
}

/// Sends rows, blocks, removals and a clear, numbered from `first`; returns the last token.
pub(crate) async fn drive(
    server: &Running,
    random: &mut Random,
    first: u64,
    count: u64,
) -> Vec<u8> {
    let mut positions = server.positions().await;
    let mut token = Vec::new();
    for number in first..first + count {
        let payload = if number.is_multiple_of(3) {
            block(encoded(random, number)).payload
        } else {
            rows(fixes(random, number)).payload
        };
        let message = v1::ReportRequest { payload, ..numbered(number, Vec::new()) };
        let ack = positions.once(message).await.unwrap().into_inner();
        assert_eq!(ack.durability(), v1::Durability::Logged);
        token = ack.token;
        if number.is_multiple_of(7) {
            let objects = (0..5).map(|_| random.below(50)).collect();
            let request = v1::RemoveRequest { objects, ..Default::default() };
            token = positions.remove(request).await.unwrap().into_inner().token;
        }
        if number == 50 {
            let request = v1::ClearFleetRequest { name: "default".into() };
            server.fleets().await.clear_fleet(request).await.unwrap();
        }
    }
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_order_keeps_state_term_tokens_and_producers() {
    let disk = SimulatedDisk::new(1);
    let server = start(&disk).await;
    let mut random = Random::new(1);
    drive(&server, &mut random, 1, 60).await;
    // A query makes an epoch that the log does not hold as a cycle.
    let before = state(&server).await;
    let (old, fleet) = (server.fleet("").await.log.unwrap(), server.fleet("").await);
    let token = shoal_service::fleet::Token::new(fleet.term, fleet.epoch).to_bytes();
    assert!(old.checkpoint_epoch == 0 && old.segment >= 1);
    server.stop().await;

    let server = start(&disk).await;
    let again = server.fleet("").await;
    assert_eq!((again.term, again.epoch), (fleet.term, fleet.epoch));
    assert_eq!((again.clock_ms, again.object_count), (fleet.clock_ms, fleet.object_count));
    let answer = server.queries().await.range(range(token)).await.unwrap().into_inner();
    let answer = whole(answer).await.unwrap();
    assert_eq!(answer.objects.into_iter().zip(answer.fixes).collect::<Vec<_>>(), before);
    let mut positions = server.positions().await;
    let ack = positions.once(numbered(60, Vec::new())).await.unwrap().into_inner();
    assert_eq!(ack.duplicate_messages, 1);
    refused(positions.once(numbered(62, Vec::new())).await, "OUT_OF_ORDER");
    positions.once(numbered(61, Vec::new())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_nothing_that_was_acknowledged() {
    for seed in 0..8 {
        let disk = SimulatedDisk::new(seed);
        let checkpoint_log_bytes = if seed % 2 == 0 { 1 << 30 } else { 20_000 };
        let server = start_with(&disk, checkpoint_log_bytes).await;
        let mut random = Random::new(seed);
        let token = drive(&server, &mut random, 1, 20 + 10 * seed).await;
        let last = 20 + 10 * seed;
        let term = server.fleet("").await.term;
        let after = crashed(&disk, seed);
        let before = state(&server).await;

        let server = start_with(&after, checkpoint_log_bytes).await;
        assert_ne!(server.fleet("").await.term, term, "seed {seed}");
        assert_eq!(state(&server).await, before, "seed {seed}");
        // A token of the earlier term is valid if its epoch survived.
        let mut queries = server.queries().await;
        whole(queries.range(range(token)).await.unwrap().into_inner()).await.unwrap();
        let lost = shoal_service::fleet::Token::new(term, 1 << 40).to_bytes();
        refused(queries.range(range(lost)).await, "LOST");
        let ack = server.positions().await.once(numbered(last, Vec::new())).await.unwrap();
        assert_eq!(ack.into_inner().duplicate_messages, 1, "seed {seed}");
        // A crash of the recovered server, too.
        drive(&server, &mut random, last + 1, 10).await;
        let again = crashed(&after, seed + 100);
        let before = state(&server).await;
        let server = start(&again).await;
        assert_eq!(state(&server).await, before, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_fewer_bytes_recovers_the_same_state() {
    let mut sizes = Vec::new();
    let mut states = Vec::new();
    for aim in Aim::ALL {
        let disk = SimulatedDisk::new(4);
        let limits =
            ServerLimits { log_segment_bytes: 4 << 20, log_reserve_bytes: 0, ..small(1 << 30) };
        let options = ServerOptions { log_aim: aim, limits, ..options() };
        let server = Running::start_in(on(&disk), options).await;
        let (mut positions, mut random) = (server.positions().await, Random::new(4));
        // Walks of 50 objects with mostly short steps, which codes compress well. A message takes
        // many sectors, because groups are padded to whole sectors.
        let mut places = [(0.0, 0.0); 50];
        for number in 1..=4 {
            let mut row = |row: i64| {
                let mut step = || {
                    let most = 1 << random.below(11);
                    f64::from(random.below(most)) * 1e-7
                };
                let (object, steps) = (row as usize % 50, [step(), step()]);
                let place = &mut places[object];
                *place = (place.0 + steps[0], place.1 + steps[1]);
                fix(
                    object as u64,
                    START_MS + 1_000_000 * number as i64 + 40 * row,
                    place.0,
                    place.1,
                )
            };
            let fixes = (0..20_000).map(&mut row).collect();
            let ack = positions.once(numbered(number, fixes)).await.unwrap().into_inner();
            assert_eq!(ack.durability(), v1::Durability::Logged);
        }
        let before = state(&server).await;
        let log = server.fleet("").await.log.unwrap();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let segments = list_segments(storage, "fleets/default/log").unwrap();
        let bytes = |number: u64| segments[number as usize].header.as_ref().unwrap().bytes;
        sizes.push((0..log.segment - 1).map(bytes).sum::<u64>() + log.offset);
        let after = crashed(&disk, 5);
        assert_eq!(state(&start(&after).await).await, before, "{aim}");
        states.push(before);
    }
    assert_eq!(states[0].len(), 50);
    assert!(states.iter().all(|state| *state == states[0]), "the log changes no row");
    let [fast, balanced, small] = sizes[..] else { panic!("three aims") };
    assert!(balanced * 100 < fast * 95 && small * 100 < fast * 95, "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_bound_the_log() {
    let disk = SimulatedDisk::new(3);
    let server = start_with(&disk, 10_000).await;
    let mut random = Random::new(3);
    let mut number = 1;
    // From the third checkpoint on, segments before the second checkpoint are retired.
    let mut checkpoints = 0;
    let mut last = 0;
    within(async {
        while checkpoints < 6 {
            drive(&server, &mut random, number, 20).await;
            number += 20;
            let epoch = server.fleet("").await.log.unwrap().checkpoint_epoch;
            checkpoints += u64::from(epoch != last);
            last = epoch;
        }
    })
    .await;
    // A pause lets the log grow to twice the bytes between checkpoints, of which two are kept.
    until(async || server.fleet("").await.log.unwrap().byte_count <= 8 * (64 << 10)).await;
    assert!(server.metric("shoal_checkpoint_seconds_count{fleet=\"default\"}").await >= 6.0);
    let log = server.fleet("").await.log.unwrap();
    assert!(log.checkpoint_ms > 0 && log.checkpoint_duration.is_some(), "{log:?}");
    assert!(log.group_count > 0 && log.sync_p99.is_some(), "{log:?}");
    assert_eq!((log.pending_cycle_count, log.pending_byte_count), (0, 0));
    assert!(server.metric("shoal_log_pending_cycles{fleet=\"default\"}").await == 0.0);
    let before = state(&server).await;
    let term = server.fleet("").await.term;
    server.stop().await;
    let server = start(&disk).await;
    assert_eq!(state(&server).await, before);
    assert_eq!(server.fleet("").await.term, term);
    assert!(server.fleet("").await.log.unwrap().checkpoint_epoch >= last);
    drive(&server, &mut random, number, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_and_the_system_clock_are_repeated() {
    let disk = SimulatedDisk::new(4);
    let now_ms = Arc::new(AtomicI64::new(START_MS));
    let wall = || {
        let now_ms = now_ms.clone();
        WallClock::new(move || now_ms.load(Ordering::SeqCst))
    };
    let system = ServerOptions {
        default_clock: Clock::System,
        default_ttl_ms: Some(1_000),
        limits: small(1 << 30),
        ..options()
    };
    let server = Running::start_in(Environment { wall: wall(), ..on(&disk) }, system.clone()).await;
    let mut positions = server.positions().await;
    for object in 0..50 {
        let at = START_MS + 100 * object as i64;
        now_ms.store(at, Ordering::SeqCst);
        positions.once(rows(vec![fix(object, at, 1.0, 1.0)])).await.unwrap();
        if object == 30 {
            // A query moves the clock, then the wall clock goes back.
            now_ms.store(at + 600, Ordering::SeqCst);
            state(&server).await;
            now_ms.store(at, Ordering::SeqCst);
        }
    }
    let (before, fleet) = (state(&server).await, server.fleet("").await);
    server.stop().await;
    let server = Running::start_in(Environment { wall: wall(), ..on(&disk) }, system).await;
    let again = server.fleet("").await;
    assert_eq!((again.clock_ms, again.epoch), (fleet.clock_ms, fleet.epoch));
    assert_eq!(state(&server).await, before);
    assert!(before.len() < 20, "objects expired: {}", before.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn fleets_are_kept_and_a_deleted_one_does_not_return() {
    let disk = SimulatedDisk::new(5);
    let server = start(&disk).await;
    let mut fleets = server.fleets().await;
    let plane = v1::PlanarSpace { width_m: 50.0, height_m: 20.0, quantum_m: 0.5 };
    let space = Some(v1::Space { kind: Some(v1::space::Kind::Planar(plane)) });
    let request = v1::CreateFleetRequest {
        name: "plane".into(),
        space,
        clock: v1::Clock::Event.into(),
        ttl: Some(millis(90_000)),
        limits: Some(v1::FleetLimits { objects_max: 77 }),
        durability: v1::Durability::Applied.into(),
        event_clock_lead: Some(millis(2_500)),
        kind: v1::FleetKind::Named.into(),
        settings_of: String::new(),
    };
    let created = fleets.create_fleet(request).await.unwrap().into_inner().fleet.unwrap();
    let gone = v1::CreateFleetRequest { name: "gone".into(), ..Default::default() };
    fleets.create_fleet(gone.clone()).await.unwrap();
    let to_gone =
        v1::ReportRequest { fleet: "gone".into(), ..rows(vec![fix(1, START_MS, 0.0, 0.0)]) };
    server.positions().await.once(to_gone).await.unwrap();
    fleets.delete_fleet(v1::DeleteFleetRequest { name: "gone".into() }).await.unwrap();
    server.stop().await;

    let server = start(&disk).await;
    let kept = server.fleet("plane").await;
    assert_eq!((kept.space, kept.clock, kept.ttl), (created.space, created.clock, created.ttl));
    assert_eq!((kept.limits, kept.durability()), (created.limits, v1::Durability::Applied));
    assert_eq!(kept.event_clock_lead, Some(millis(2_500)));
    let mut fleets = server.fleets().await;
    let request = v1::GetFleetRequest { name: "gone".into() };
    refused(fleets.get_fleet(request).await, "FLEET_UNKNOWN");
    let fresh = fleets.create_fleet(gone).await.unwrap().into_inner().fleet.unwrap();
    assert_eq!((fresh.object_count, fresh.epoch), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_chooses_its_durability() {
    let server = Running::start().await;
    let mut positions = server.positions().await;
    let with = |durability: v1::Durability| v1::ReportRequest {
        durability: durability.into(),
        ..rows(vec![fix(1, START_MS, 0.0, 0.0)])
    };
    let status = refused(positions.once(with(v1::Durability::Logged)).await, "FIELD");
    assert!(status.message().contains("--data"), "{status:?}");
    let ack = positions.once(with(v1::Durability::Unspecified)).await.unwrap().into_inner();
    assert_eq!(ack.durability(), v1::Durability::Applied);
    assert!(server.fleet("").await.log.is_none());

    let disk = SimulatedDisk::new(6);
    let server = start(&disk).await;
    let mut positions = server.positions().await;
    let ack = positions.once(with(v1::Durability::Applied)).await.unwrap().into_inner();
    assert_eq!(ack.durability(), v1::Durability::Applied);
    let mixed = vec![with(v1::Durability::Logged), with(v1::Durability::Logged)];
    let acks = report(&mut positions, mixed).await;
    assert_eq!(sums(&acks).2, 0);
    assert!(acks.iter().all(|ack| ack.durability() == v1::Durability::Logged));
    assert_eq!(server.fleet("").await.durability(), v1::Durability::Logged);
}

#[cfg(feature = "cuda")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs an NVIDIA GPU"]
async fn rows_that_a_device_encoded_are_recovered_on_the_cpu() {
    use shoal_service::EngineChoice;
    use shoal_service::limits::DEVICE_ENCODE_ROWS_MIN;
    let disk = SimulatedDisk::new(12);
    let limits = ServerLimits { log_reserve_bytes: 0, ..small(1 << 30) };
    let options = ServerOptions { limits, ..options() };
    let engines = EngineChoice::Cuda.factory(None);
    let environment = Environment { engines, ..on(&disk) };
    let server = Running::start_in(environment, options.clone()).await;
    let mut random = Random::new(12);
    drive(&server, &mut random, 1, 20).await;
    let mut positions = server.positions().await;
    // Below and above the number of rows that a device encodes.
    for (number, rows) in (21..).zip([DEVICE_ENCODE_ROWS_MIN - 1, 2 * DEVICE_ENCODE_ROWS_MIN]) {
        let row = |random: &mut Random| {
            let (object, time_ms) = (random.below(5_000), START_MS + random.below(9_000_i64));
            let (x, y) = (random.real(-9.0, 9.0), random.real(-9.0, 9.0));
            v1::Fix { speed_mps: Some(3.5), ..fix(object, time_ms, x, y) }
        };
        let fixes = (0..rows).map(|_| row(&mut random)).collect();
        positions.once(numbered(number, fixes)).await.unwrap();
    }
    let (before, fleet) = (state(&server).await, server.fleet("").await);
    assert_eq!((before.len() as u64, fleet.engine.as_str()), (fleet.object_count, "cuda"));
    server.stop().await;
    let server = Running::start_in(on(&disk), options).await;
    let again = server.fleet("").await;
    assert_eq!((again.engine.as_str(), again.term), ("cpu", fleet.term));
    assert_eq!(state(&server).await, before);
}
