//! Erased objects are in no answer and in no file, even if the server crashes during the erasure.
//! The history of all other objects stays complete. Disks are simulated.

use std::time::Duration;

use shoal_position_log::{SimulatedDisk, Storage as _};
use shoal_proto::v1;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::follower::{caught_up, follow, state};
use crate::history::{Acknowledged, options, reaches};
use crate::restart::{crashed, on};
use crate::running::{ReportsOnce as _, Running, START_MS, fix, rows, until};

/// The erased object. All files are searched for its bytes, which no other number of a test has.
const ERASED: u64 = 0x5eed_cafe_1357_9bdf;

/// Options with room for the object in addition to the objects of the past.
fn roomy() -> ServerOptions {
    let options = options(4 << 30);
    let limits = ServerLimits { fleet_objects_max: 100, ..options.limits };
    ServerOptions { limits, ..options }
}

async fn histories(server: &Running) -> HistoryServiceClient<Channel> {
    HistoryServiceClient::new(server.channel().await)
}

/// Single rows, which the log and the runs store as they are.
async fn report(server: &Running, from_ms: i64, count: i64) -> u64 {
    let mut epoch = 0;
    for time_ms in from_ms..from_ms + count {
        let request = rows(vec![fix(ERASED, time_ms, 1.0, 2.0)]);
        let ack = server.positions().await.once(request).await.unwrap().into_inner();
        assert_eq!(ack.rows.unwrap().refused, 0);
        epoch = ack.epoch;
    }
    epoch
}

async fn erase(server: &Running, objects: Vec<u64>) -> Result<v1::EraseResponse, Status> {
    let request = v1::EraseRequest { objects, ..v1::EraseRequest::default() };
    Ok(histories(server).await.erase(request).await?.into_inner())
}

async fn erasing(server: &Running) -> u64 {
    server.fleet("").await.history.unwrap().erasing_count
}

/// The number of fixes in the track of the object.
async fn track(server: &Running) -> usize {
    let request = v1::TrajectoryRequest {
        objects: vec![ERASED],
        window: Some(v1::TimeWindow { from_ms: i64::MIN, to_ms: i64::MAX }),
        ..v1::TrajectoryRequest::default()
    };
    let mut stream = histories(server).await.trajectory(request).await.unwrap().into_inner();
    let mut fixes = 0;
    while let Some(part) = stream.message().await.unwrap() {
        fixes += part.fixes.len();
    }
    fixes
}

/// The files that have the bytes of the object's number.
fn files(disk: &SimulatedDisk) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["log", "history", "checkpoint"] {
        let folder = format!("fleets/default/{folder}");
        for name in disk.list(&folder).unwrap() {
            // It may be gone by now.
            let Ok(file) = disk.open(&format!("{folder}/{name}")) else { continue };
            let mut bytes = vec![0; file.length().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            if bytes.windows(8).any(|window| window == ERASED.to_le_bytes()) {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_objects_are_in_no_answer_and_no_file() {
    for seed in 0..6 {
        let (mut disk, mut random) = (SimulatedDisk::new(seed), Random::new(seed));
        let mut sent = Acknowledged::default();
        let mut server = Running::start_in(on(&disk), roomy()).await;
        sent.drive(&server, &mut random, 0..60).await;
        let epoch = report(&server, START_MS - 60_000, 20).await;
        reaches(&server, epoch).await;
        sent.drive(&server, &mut random, 60..90).await;
        let before = files(&disk);
        for place in ["/log/", "/history/"] {
            assert!(before.iter().any(|path| path.contains(place)), "{place} in {before:?}");
        }
        assert_eq!(track(&server).await, 20);

        let erased = erase(&server, vec![ERASED, 77]).await.unwrap();
        assert!(erased.removed_count <= 1);
        assert_eq!(track(&server).await, 0);
        if seed % 2 == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(300))).await;
            disk = crashed(&disk, seed);
            server.stop().await;
            server = Running::start_in(on(&disk), roomy()).await;
            assert_eq!(track(&server).await, 0);
        }
        until(async || erasing(&server).await == 0).await;
        assert_eq!(files(&disk), Vec::<String>::new(), "seed {seed}");

        sent.drive(&server, &mut random, 90..120).await;
        reaches(&server, sent.epoch).await;
        server.stop().await;
        sent.assert_is(&disk);
        assert_eq!(files(&disk), Vec::<String>::new(), "seed {seed}");
        let server = Running::start_in(on(&disk), roomy()).await;
        assert_eq!(track(&server).await, 0);
        // What is reported later is new.
        let epoch = report(&server, START_MS - 60_000, 3).await;
        reaches(&server, epoch).await;
        assert_eq!(track(&server).await, 3);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_without_room_changes_nothing() {
    let server = Running::start_in(on(&SimulatedDisk::new(3)), roomy()).await;
    let epoch = report(&server, START_MS, 1).await;
    reaches(&server, epoch).await;
    // Each of them takes all the room.
    let all = async || erase(&server, (1_000..1_000 + 65_536).collect()).await;
    let some = async || erase(&server, vec![ERASED]).await;
    let (first, second, third) = tokio::join!(all(), all(), some());
    let refused: Vec<Status> = [first, second].into_iter().filter_map(Result::err).collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|it| it.code() == Code::ResourceExhausted), "{refused:?}");
    if third.is_err() {
        // Nothing was removed.
        assert_eq!(track(&server).await, 1);
        assert_eq!(state(&server, Vec::new()).await.objects, [ERASED]);
        // Objects without a past leave the room soon.
        until(async || some().await.is_ok_and(|erased| erased.removed_count == 1)).await;
    }
    until(async || erasing(&server).await == 0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_needs_a_leader_with_a_history_and_objects() {
    let leader = Running::start_in(on(&SimulatedDisk::new(1)), roomy()).await;
    let none = erase(&leader, Vec::new()).await.unwrap_err();
    assert_eq!(none.code(), Code::InvalidArgument);
    assert!(none.message().starts_with("objects: "), "{none}");
    let many = erase(&leader, (0..65_537).collect()).await.unwrap_err();
    assert!(many.message().contains("65537 ids"), "{many}");
    let epoch = report(&leader, START_MS, 1).await;
    let follower = follow(&SimulatedDisk::new(2), leader.address).await;
    caught_up(&leader).await;
    let refused = erase(&follower, vec![ERASED]).await.unwrap_err();
    let reason = refused.get_error_details().error_info().map(|info| info.reason.clone());
    assert!(matches!(reason.as_deref(), Some("FOLLOWER" | "NO_HISTORY")), "{reason:?}");
    // A follower that has everything delays nothing.
    reaches(&leader, epoch).await;
    assert_eq!(erase(&leader, vec![ERASED]).await.unwrap().removed_count, 1);
    until(async || erasing(&leader).await == 0).await;
    follower.stop().await;
    leader.stop().await;
}
