//! The history through a server: retention, a log that is older than the setting, a full disk, and
//! runs that are damaged or missing. Disks are simulated.

use std::collections::BTreeSet;
use std::sync::Arc;

use shoal_position_log::{
    LogOptions, SimulatedDisk, Storage as _, checkpoint_epochs, list_segments, repair,
};
use shoal_proto::v1;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_service::persistence::HistoryKeep;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;
use tonic::Status;

use crate::follower::state;
use crate::history::{Acknowledged, options, reaches};
use crate::restart::on;
use crate::running::{ReportsOnce as _, Running, START_MS, fix, refused_start, rows, until};

const HOUR_MS: i64 = 3_600_000;

/// The times of all fixes of objects below 40, and the first time that is kept.
async fn times(server: &Running) -> Result<(Vec<(u64, i64)>, Option<i64>), Status> {
    let request = v1::TrajectoryRequest {
        objects: (0..40).collect(),
        window: Some(v1::TimeWindow { from_ms: i64::MIN, to_ms: i64::MAX }),
        ..v1::TrajectoryRequest::default()
    };
    let mut service = HistoryServiceClient::new(server.channel().await);
    let mut stream = service.trajectory(request).await?.into_inner();
    let (mut found, mut kept_from_ms) = (Vec::new(), None);
    while let Some(part) = stream.message().await? {
        kept_from_ms = part.header.map_or(kept_from_ms, |header| header.kept_from_ms);
        found.extend(part.objects.into_iter().zip(part.fixes.iter().map(|fix| fix.time_ms)));
    }
    Ok((found, kept_from_ms))
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_drops_hours_that_are_too_old() {
    let keep = HistoryKeep { age_ms: Some(2 * HOUR_MS), bytes_max: None };
    let options = ServerOptions { history: Some(keep), ..options(4 << 30) };
    let server = Running::start_in(on(&SimulatedDisk::new(1)), options).await;
    let first_ms = START_MS - START_MS % HOUR_MS;
    for hour in 0..6 {
        let time_ms = first_ms + hour * HOUR_MS + 1_000;
        let request = rows(vec![fix(7, time_ms, 1.0, 1.0), fix(8, time_ms + 5, 1.0, 1.0)]);
        let epoch = server.positions().await.once(request).await.unwrap().into_inner().epoch;
        reaches(&server, epoch).await;
    }
    // The hour of the oldest age is kept whole.
    let kept_ms = first_ms + 3 * HOUR_MS;
    let at =
        |object, plus_ms| (3..6).map(move |hour| (object, first_ms + hour * HOUR_MS + plus_ms));
    let expected: Vec<(u64, i64)> = at(7, 1_000).chain(at(8, 1_005)).collect();
    assert_eq!(times(&server).await.unwrap(), (expected.clone(), Some(kept_ms)));
    // A fix that is too old by then is dropped.
    let request = rows(vec![fix(7, first_ms + 2_000, 1.0, 1.0)]);
    let epoch = server.positions().await.once(request).await.unwrap().into_inner().epoch;
    reaches(&server, epoch).await;
    assert_eq!(times(&server).await.unwrap(), (expected, Some(kept_ms)));
    let history = server.fleet("").await.history.unwrap();
    assert_eq!((history.dropped_fix_count, history.kept_from_ms), (1, Some(kept_ms)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_reaches_epochs_that_changed_nothing() {
    let server = Running::start_in(on(&SimulatedDisk::new(4)), options(4 << 30)).await;
    let mut message = rows(vec![fix(1, START_MS, 1.0, 1.0)]);
    (message.producer, message.batch_seq) = ("p".into(), 1);
    let mut positions = server.positions().await;
    positions.once(message.clone()).await.unwrap();
    for _ in 0..5 {
        // A duplicate, and a query.
        let ack = positions.once(message.clone()).await.unwrap().into_inner();
        assert_eq!(ack.duplicate_messages, 1);
        state(&server, ack.token).await;
        reaches(&server, server.fleet("").await.epoch).await;
    }
    let request = v1::AsOfRequest { time_ms: START_MS, ..v1::AsOfRequest::default() };
    let mut service = HistoryServiceClient::new(server.channel().await);
    let epoch = server.fleet("").await.epoch;
    let mut answer = service.as_of(request).await.unwrap().into_inner();
    let header = answer.message().await.unwrap().unwrap().header.unwrap();
    assert!(header.epoch >= epoch && epoch > 5, "{header:?}, {epoch}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_before_becomes_history_as_far_as_it_is_there() {
    for checkpoint_log_bytes in [1 << 30, 8 << 10] {
        let (disk, mut random) = (SimulatedDisk::new(2), Random::new(2));
        let mut sent = Acknowledged::default();
        let with = options(4 << 30);
        let limits = ServerLimits { checkpoint_log_bytes, ..with.limits };
        let without = ServerOptions { history: None, limits, ..with };
        let server = Running::start_in(on(&disk), without).await;
        sent.drive(&server, &mut random, 0..200).await;
        server.stop().await;
        let server = Running::start_in(on(&disk), options(4 << 30)).await;
        sent.drive(&server, &mut random, 200..220).await;
        reaches(&server, sent.epoch).await;
        let (found, _) = times(&server).await.unwrap();
        let [all, _] = gaps(&server, 0, 0).await;
        server.stop().await;
        if checkpoint_log_bytes == 1 << 30 {
            assert_eq!(all, []);
            sent.assert_is(&disk);
        } else {
            assert_eq!((all[0].first_epoch, all[0].from_ms), (1, None));
            let all: BTreeSet<_> = sent.past.fixes.keys().copied().collect();
            assert!(!found.is_empty() && found.len() < all.len());
            assert!(found.iter().all(|identity| all.contains(identity)));
        }
    }
}

/// The gaps of the history, and those that an answer for a window states.
async fn gaps(server: &Running, from_ms: i64, to_ms: i64) -> [Vec<v1::HistoryGap>; 2] {
    let window = Some(v1::TimeWindow { from_ms, to_ms });
    let request = v1::TrajectoryRequest { objects: vec![1], window, ..Default::default() };
    let mut service = HistoryServiceClient::new(server.channel().await);
    let mut answer = service.trajectory(request).await.unwrap().into_inner();
    let header = answer.message().await.unwrap().unwrap().header.unwrap();
    [server.fleet("").await.history.unwrap().gaps, header.gaps]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_reported_without_a_history_is_a_gap() {
    let (disk, mut random) = (SimulatedDisk::new(6), Random::new(6));
    let mut sent = Acknowledged::default();
    let with = options(4 << 30);
    let limits = ServerLimits { checkpoint_log_bytes: 8 << 10, ..with.limits.clone() };
    let without = ServerOptions { history: None, limits, ..with.clone() };
    let server = Running::start_in(on(&disk), with.clone()).await;
    sent.drive(&server, &mut random, 0..20).await;
    reaches(&server, sent.epoch).await;
    assert_eq!(gaps(&server, i64::MIN, i64::MAX).await, [vec![], vec![]]);
    server.stop().await;
    let (known_epoch, known_ms) = (sent.epoch, sent.clock_ms);
    let server = Running::start_in(on(&disk), without).await;
    sent.drive(&server, &mut random, 20..300).await;
    server.stop().await;
    let mut found = Vec::new();
    for round in 300..303 {
        let server = Running::start_in(on(&disk), with.clone()).await;
        sent.drive(&server, &mut random, round..round + 1).await;
        reaches(&server, sent.epoch).await;
        let [all, whole] = gaps(&server, i64::MIN, i64::MAX).await;
        assert_eq!((all.len(), &whole), (1, &all));
        let v1::HistoryGap { first_epoch, last_epoch, from_ms, to_ms } = all[0];
        assert_eq!((first_epoch, from_ms), (known_epoch + 1, Some(known_ms)));
        assert!(first_epoch < last_epoch && last_epoch < sent.epoch && known_ms < to_ms);
        let [_, before] = gaps(&server, i64::MIN, known_ms - 1).await;
        let [_, within] = gaps(&server, known_ms + 1, known_ms + 2).await;
        let [_, after] = gaps(&server, to_ms + 1, i64::MAX).await;
        assert_eq!((before, within, after), (vec![], all.clone(), vec![]));
        found.push(all);
        server.stop().await;
    }
    assert!(found.iter().all(|gaps| *gaps == found[0]));
}

/// A repair cuts the log before its checkpoint: it continues from there, and the history too.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_repair_cut_off_is_a_gap() {
    let (disk, mut random) = (SimulatedDisk::new(8), Random::new(8));
    let mut sent = Acknowledged::default();
    let with = options(4 << 30);
    let limits = ServerLimits {
        checkpoint_log_bytes: 8 << 10,
        log_keep_bytes: 1 << 30,
        ..with.limits.clone()
    };
    let without = ServerOptions { history: None, limits: limits.clone(), ..with.clone() };
    let with = ServerOptions { limits, ..with };
    let server = Running::start_in(on(&disk), without).await;
    sent.drive(&server, &mut random, 0..200).await;
    server.stop().await;

    let (storage, folder) = (Arc::new(disk.clone()), "fleets/default/log");
    let checkpoints = checkpoint_epochs(&disk, "fleets/default/checkpoint").unwrap();
    let checkpoint_epoch = *checkpoints.last().unwrap();
    let segments = list_segments(storage.clone(), folder).unwrap();
    let headers = segments.iter().map(|entry| entry.header.as_ref().unwrap());
    let (number, header) = segments
        .iter()
        .map(|entry| entry.number)
        .zip(headers)
        .rfind(|(_, header)| header.epoch_before < checkpoint_epoch)
        .unwrap();
    // Its first frame.
    disk.flip(&format!("{folder}/{number:016}.segment"), 8 * 4_200);
    let options = LogOptions {
        segment_bytes: header.bytes,
        reserve_bytes: 0,
        ..LogOptions::new(header.fleet.clone(), 1)
    };
    let report = repair(storage, folder, options, checkpoint_epoch, 77).unwrap();
    assert_eq!(report.end.epoch, header.epoch_before);
    assert!(0 < report.end.epoch && report.end.epoch < checkpoint_epoch);

    let server = Running::start_in(on(&disk), with).await;
    sent.drive(&server, &mut random, 200..220).await;
    reaches(&server, server.fleet("").await.epoch).await;
    let [all, _] = gaps(&server, i64::MIN, i64::MAX).await;
    let found: Vec<_> = all.iter().map(|gap| (gap.first_epoch, gap.last_epoch)).collect();
    assert_eq!(found, [(report.end.epoch + 1, checkpoint_epoch)]);
    assert!(times(&server).await.unwrap().0.len() > 20);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_delays_the_history() {
    let (disk, mut random) = (SimulatedDisk::new(3), Random::new(3));
    let mut sent = Acknowledged::default();
    let server = Running::start_in(on(&disk), options(4 << 30)).await;
    sent.drive(&server, &mut random, 0..20).await;
    reaches(&server, sent.epoch).await;
    disk.set_capacity(u64::MAX - disk.free_bytes().unwrap());
    // The segment has room, the disk has none for another run.
    let request = rows(vec![fix(1, START_MS, 1.0, 1.0)]);
    let ack = server.positions().await.once(request).await.unwrap().into_inner();
    until(async || server.fleet("").await.history.unwrap().retry_count > 0).await;
    let history = server.fleet("").await.history.unwrap();
    assert!(history.problem.is_empty() && history.watermark_epoch < ack.epoch, "{history:?}");
    disk.set_capacity(u64::MAX);
    reaches(&server, ack.epoch).await;
    assert!(times(&server).await.unwrap().0.contains(&(1, START_MS)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_missing_runs_are_named() {
    let (disk, mut random) = (SimulatedDisk::new(4), Random::new(4));
    let mut sent = Acknowledged::default();
    let server = Running::start_in(on(&disk), options(4 << 30)).await;
    sent.drive(&server, &mut random, 0..40).await;
    reaches(&server, sent.epoch).await;
    server.stop().await;
    let folder = "fleets/default/history";
    let bytes = |name: &String| disk.bytes(&format!("{folder}/{name}")).unwrap().len();
    let runs = disk.list(folder).unwrap().into_iter().filter(|name| name.ends_with(".run"));
    let run = runs.max_by_key(bytes).unwrap();
    disk.flip(&format!("{folder}/{run}"), 8 * 40);
    let server = Running::start_in(on(&disk), options(4 << 30)).await;
    let error = times(&server).await.unwrap_err();
    assert!(error.message().contains(&run), "{error}");
    // Reports and queries of the present go on.
    let request = rows(vec![fix(1, START_MS + 60_000, 1.0, 1.0)]);
    server.positions().await.once(request).await.unwrap();
    server.stop().await;

    disk.remove(&format!("{folder}/{run}")).unwrap();
    let error = refused_start(on(&disk), options(4 << 30)).await;
    assert!(error.contains(&run) && error.contains("does not exist"), "{error}");
}
