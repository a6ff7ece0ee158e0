//! A log that cannot do its work says so, disturbs nothing else, and loses nothing acknowledged: a
//! full or failed disk, a folder that is read-only, damaged or used twice, a clock that goes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use shoal_engine::Clock;
use shoal_position_log::{Fault, FileStorage, SimulatedDisk, Storage as _};
use shoal_proto::v1;
use shoal_service::cycle::WallClock;
use shoal_service::persistence::DataFolder;
use shoal_service::server::Environment;
use shoal_service::{ServerOptions, ServiceError};
use shoal_testkit::Random;
use tonic_types::StatusExt as _;

use crate::restart::{crashed, drive, fixes, numbered, on, small, start, state};
use crate::running::{
    ReportsOnce as _, Running, START_MS, assert_refused, collect, environment, fix, options,
    refused, refused_start, rows, until, within,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_the_disk_refuses_leaves_the_fleet() {
    let disk = SimulatedDisk::new(11);
    let server = start(&disk).await;
    let mut fleets = server.fleets().await;
    let request = v1::CreateFleetRequest { name: "f".into(), ..Default::default() };
    fleets.create_fleet(request.clone()).await.unwrap();
    let to_f = v1::ReportRequest { fleet: "f".into(), ..rows(vec![fix(1, START_MS, 0.0, 0.0)]) };
    server.positions().await.once(to_f.clone()).await.unwrap();
    // A segment may be prepared at the same time and use some of these operations.
    for operation in disk.operations()..disk.operations() + 1_000 {
        disk.inject(operation, Fault::NoSpace);
    }
    let delete = v1::DeleteFleetRequest { name: "f".into() };
    refused(fleets.delete_fleet(delete.clone()).await, "LOG_SPACE");
    disk.clear_faults();
    assert_eq!(server.fleet("f").await.object_count, 1);
    refused(fleets.create_fleet(request.clone()).await, "FLEET_EXISTS");
    server.positions().await.once(to_f).await.unwrap();
    fleets.delete_fleet(delete).await.unwrap();
    fleets.create_fleet(request).await.unwrap();
    server.stop().await;
    let server = start(&disk).await;
    assert_eq!(server.fleet("f").await.object_count, 0);
}

#[test]
fn fleets_without_their_list_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(DataFolder::open(folder.path()).unwrap());
    std::fs::create_dir_all(folder.path().join("fleets/f/log")).unwrap();
    let error = DataFolder::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("fleets.manifest") && error.contains("missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_disk_ends_reports_and_not_queries() {
    let disk = SimulatedDisk::new(7);
    let server = start(&disk).await;
    let mut positions = server.positions().await;
    let good = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    positions.once(good.clone()).await.unwrap();
    for operation in disk.operations()..disk.operations() + 8 {
        disk.inject(operation, Fault::InputOutput);
    }
    let status = refused(positions.once(good.clone()).await, "LOG_FAILED");
    assert!(status.message().contains("restart"), "{status:?}");
    disk.clear_faults();
    // Final, although the disk works again.
    refused(positions.once(good).await, "LOG_FAILED");
    let request = v1::RemoveRequest { objects: vec![1], ..Default::default() };
    refused(positions.remove(request).await, "LOG_FAILED");
    assert_eq!(state(&server).await.len(), 1);
    assert_eq!(server.http("/healthz").await.0, "HTTP/1.1 503 Service Unavailable");
    assert!(!server.fleet("").await.log.unwrap().problem.is_empty());
    let error = server.stop_with_error().await.to_string();
    assert!(error.contains("\"default\" lost durability after epoch 1: cannot"), "{error}");
}

/// Leaves no space for another segment; the last segment is not full.
fn fill(disk: &SimulatedDisk) {
    disk.set_capacity(u64::MAX - disk.free_bytes().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_reports_until_there_is_space() {
    let disk = SimulatedDisk::new(8);
    let server = start(&disk).await;
    drive(&server, &mut Random::new(8), 1, 3).await;
    fill(&disk);
    let mut positions = server.positions().await;
    let message = |number| numbered(number, fixes(&mut Random::new(number), number));
    let mut last = 4;
    let status = loop {
        match positions.once(message(last)).await {
            Ok(_) => last += 1,
            Err(status) => break status,
        }
    };
    // The message that needs another segment is applied, and waits for space in vain.
    assert_refused(&status, "LOG_SPACE");
    assert!(status.message().contains("bytes are free"), "{status:?}");
    assert!(status.get_error_details().retry_info().is_some(), "{status:?}");
    let before = state(&server).await;
    let (epoch, log) = (server.fleet("").await.epoch, server.fleet("").await.log.unwrap());
    assert!(log.durable_epoch < epoch && !log.problem.is_empty(), "{log:?}");
    refused(positions.once(message(last)).await, "LOG_SPACE");
    // A stream ends, so that its client repeats what was not acknowledged.
    let stream = positions.report(tokio_stream::iter([message(last), message(last + 1)])).await;
    refused(within(collect(stream.unwrap().into_inner())).await, "LOG_SPACE");
    assert_eq!(state(&server).await, before);

    disk.set_capacity(u64::MAX);
    until(async || server.fleet("").await.log.unwrap().problem.is_empty()).await;
    let ack = positions.once(message(last)).await.unwrap().into_inner();
    assert_eq!((ack.duplicate_messages, ack.durability()), (1, v1::Durability::Logged));
    assert_eq!(state(&server).await, before, "a repeated message is applied once");
    let server = start(&crashed(&disk, 8)).await;
    assert_eq!(state(&server).await, before, "what was acknowledged is durable");
    let mut positions = server.positions().await;
    assert_eq!(positions.once(message(last)).await.unwrap().into_inner().duplicate_messages, 1);
    positions.once(message(last + 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_a_full_disk_held_back_survives_only_if_it_is_repeated() {
    let disk = SimulatedDisk::new(14);
    let server = start(&disk).await;
    drive(&server, &mut Random::new(14), 1, 3).await;
    fill(&disk);
    let mut positions = server.positions().await;
    let message = |number| numbered(number, fixes(&mut Random::new(number), number));
    let mut last = 4;
    while positions.once(message(last)).await.is_ok() {
        last += 1;
    }
    // The server ends while the disk is full: it says what it loses.
    let error = server.stop_with_error().await;
    assert!(matches!(error, ServiceError::DurabilityLost { .. }), "{error}");
    assert!(error.to_string().contains("\"default\" lost durability after epoch"), "{error}");
    disk.set_capacity(u64::MAX);
    let server = start(&disk).await;
    let ack = server.positions().await.once(message(last)).await.unwrap().into_inner();
    assert_eq!((ack.duplicate_messages, ack.failed_messages), (0, 0));
    let ack = server.positions().await.once(message(last)).await.unwrap().into_inner();
    assert_eq!(ack.duplicate_messages, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_not_created_on_a_full_disk() {
    let disk = SimulatedDisk::new(15);
    let server = start(&disk).await;
    let mut fleets = server.fleets().await;
    let used_bytes = u64::MAX - disk.free_bytes().unwrap();
    let request = v1::CreateFleetRequest { name: "f".into(), ..Default::default() };
    // No space for the list, or for the first segment; or none to remove the fleet again.
    for free_bytes in [0, 4_096, 8_192, 16_384, 32_768, 61_440] {
        disk.set_capacity(used_bytes + free_bytes);
        let status = refused(fleets.create_fleet(request.clone()).await, "LOG_SPACE");
        assert!(!status.message().contains("permissions"), "{status:?}");
        let get = v1::GetFleetRequest { name: "f".into() };
        refused(fleets.get_fleet(get).await, "FLEET_UNKNOWN");
        let good = rows(vec![fix(free_bytes, START_MS, 0.0, 0.0)]);
        server.positions().await.once(good).await.unwrap();
    }
    disk.set_capacity(u64::MAX);
    fleets.create_fleet(request.clone()).await.unwrap();
    server.stop().await;
    let server = start(&disk).await;
    assert_eq!(server.fleet("f").await.object_count, 0);
    assert_eq!(server.fleet("").await.object_count, 6);
    let list = v1::ListFleetsRequest::default();
    let listed = server.fleets().await.list_fleets(list).await.unwrap().into_inner().fleets;
    assert_eq!(listed.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_folder_stops_the_start_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let with = |storage: FileStorage| {
        let data = DataFolder::with_storage(Arc::new(storage), None).unwrap();
        Environment { data: Some(data), ..environment() }
    };
    for run in ["a new folder", "a folder with a fleet"] {
        let read_only = with(FileStorage::read_only(folder.path()));
        let options = ServerOptions { limits: small(1 << 30), ..options() };
        let error = refused_start(read_only, options.clone()).await;
        let place = folder.path().display().to_string();
        for part in [&*place, "read-only", "the permissions"] {
            assert!(error.contains(part), "{run}: {error}");
        }
        let server = Running::start_in(with(FileStorage::new(folder.path())), options).await;
        server.positions().await.once(rows(vec![fix(1, START_MS, 0.0, 0.0)])).await.unwrap();
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_goes_back_stops_nothing() {
    const HOUR_MS: i64 = 3_600_000;
    let disk = SimulatedDisk::new(13);
    let now_ms = Arc::new(AtomicI64::new(START_MS));
    let wall = || {
        let now_ms = now_ms.clone();
        WallClock::new(move || now_ms.load(Ordering::SeqCst))
    };
    let options =
        ServerOptions { default_clock: Clock::System, limits: small(1 << 30), ..options() };
    let server =
        Running::start_in(Environment { wall: wall(), ..on(&disk) }, options.clone()).await;
    server.positions().await.once(rows(vec![fix(1, START_MS, 0.0, 0.0)])).await.unwrap();
    assert_eq!(server.fleet("").await.clock_ms, START_MS);
    let term = server.fleet("").await.term;
    server.stop().await;
    // The clock of the machine was set back while the server was stopped.
    now_ms.store(START_MS - HOUR_MS, Ordering::SeqCst);
    let server =
        Running::start_in(Environment { wall: wall(), ..on(&disk) }, options.clone()).await;
    let late = rows(vec![fix(2, START_MS - HOUR_MS, 1.0, 1.0)]);
    let ack = server.positions().await.once(late).await.unwrap().into_inner();
    assert_eq!(ack.durability(), v1::Durability::Logged);
    let (before, fleet) = (state(&server).await, server.fleet("").await);
    assert_eq!((fleet.clock_ms, fleet.term, before.len()), (START_MS - HOUR_MS, term, 2));
    let after = crashed(&disk, 13);
    let server = Running::start_in(Environment { wall: wall(), ..on(&after) }, options).await;
    assert_eq!(state(&server).await, before);
    assert_eq!(server.fleet("").await.clock_ms, START_MS - HOUR_MS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_stops_the_start_with_its_place() {
    let disk = SimulatedDisk::new(9);
    let server = start(&disk).await;
    drive(&server, &mut Random::new(9), 1, 30).await;
    server.stop().await;
    disk.flip("fleets/default/log/0000000000000001.segment", 8 * 9_000);
    let options = ServerOptions { limits: small(1 << 30), ..options() };
    let error = refused_start(on(&disk), options).await;
    for part in ["0000000000000001.segment", "damaged at byte", "shoal log repair"] {
        assert!(error.contains(part), "{error}");
    }
}
