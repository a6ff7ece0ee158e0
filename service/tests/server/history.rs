//! The history that a server writes from the log of a fleet equals a naive past, over restarts,
//! crashes, refused rows, removals and clears. Disks are simulated.

use std::collections::BTreeSet;
use std::sync::Arc;

use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow, VALIDITY_UNKNOWN};
use shoal_engine::Space;
use shoal_history::{
    AsOf, AsOfQuery, Everywhere, HistoryOptions, HistoryWriter, QueryBudget, Replay,
};
use shoal_position_log::{Manifest, SimulatedDisk, Storage};
use shoal_proto::v1;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_service::persistence::HistoryKeep;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::{NaivePast, Random};

use crate::follower::{ANY, caught_up, following, leading, state};
use crate::restart::{crashed, on};
use crate::running::{ReportsOnce as _, Running, START_MS, block, collect, fix, rows, until};

/// Objects that the fleet may have; ids go beyond.
const OBJECTS_MAX: u64 = 25;
/// Age of old rows: nine years.
pub(crate) const OLD_MS: i64 = 9 * 365 * 86_400_000;
/// Later than any clock of a server.
const TOO_LATE_MS: i64 = 9_000_000_000_000;

/// A server that seals at once, with a log of small segments and checkpoints.
pub(crate) fn options(history_backlog_bytes: u64) -> ServerOptions {
    let leading = leading(32 << 10);
    let limits = ServerLimits {
        history_seal_ms: 1,
        history_share: 100,
        fleet_objects_max: OBJECTS_MAX,
        history_backlog_bytes,
        ..leading.limits
    };
    ServerOptions { history: Some(HistoryKeep::default()), limits, ..leading }
}

async fn start(disk: &SimulatedDisk) -> Running {
    Running::start_in(on(disk), options(4 << 30)).await
}

/// What a server has acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Acknowledged {
    pub(crate) past: NaivePast,
    pub(crate) clock_ms: i64,
    pub(crate) epoch: u64,
    /// An erasure or a restart may have added epochs that change nothing.
    pub(crate) has_more_epochs: bool,
    /// Whether reports have validities: then a fix that arrives after a newer one has expired is in
    /// the live state, but not in that of a past moment.
    pub(crate) has_validities: bool,
}

impl Acknowledged {
    /// Sends a message of rows, of which some are late, of equal time, too late or of one object
    /// too many.
    async fn report(&mut self, server: &Running, random: &mut Random, round: u64) {
        let rows: Vec<FixRow> = (0..=random.below(30))
            .map(|_| {
                let time_ms = START_MS + 200 * round as i64 - 100 * i64::from(random.below(900));
                let time_ms = if random.below(9) == 0 { TOO_LATE_MS } else { time_ms };
                let row = FixRow::new(random.below(40), time_ms, random.below(9_000_000), 5);
                let valid_ms = [VALIDITY_UNKNOWN, 300, 5_000, 60_000];
                let valid_ms = valid_ms[if self.has_validities { random.below(4) } else { 0 }];
                FixRow { valid_ms, ..row }
            })
            .collect();
        // A block spans 49 days at most.
        let is_far = rows[0].time_ms == TOO_LATE_MS;
        let rows: Vec<_> =
            rows.into_iter().filter(|row| (row.time_ms == TOO_LATE_MS) == is_far).collect();
        let refused = self.send(server, &rows).await;
        assert!(!is_far || refused == rows.len());
    }

    /// Sends a message of rows that are older than all others, as an import does.
    pub(crate) async fn report_old(&mut self, server: &Running, random: &mut Random) {
        let row = |_| {
            let time_ms = START_MS - OLD_MS - i64::from(random.below(90_000));
            FixRow::new(random.below(OBJECTS_MAX), time_ms, random.below(9_000_000), 5)
        };
        let rows: Vec<FixRow> = (0..20).map(row).collect();
        self.send(server, &rows).await;
    }

    /// Sends a message of many rows, in time.
    pub(crate) async fn report_many(&mut self, server: &Running, random: &mut Random, rows: usize) {
        let row = |_| {
            let time_ms = START_MS + i64::from(random.below(80_000));
            FixRow::new(random.below(OBJECTS_MAX), time_ms, random.below(9_000_000), 5)
        };
        let rows: Vec<FixRow> = (0..rows).map(row).collect();
        assert_eq!(self.send(server, &rows).await, 0);
    }

    /// Sends rows as a block; returns how many were refused.
    async fn send(&mut self, server: &Running, rows: &[FixRow]) -> usize {
        let mut columns = FixColumns::new();
        rows.iter().for_each(|row| columns.push_row(*row));
        let mut bytes = Vec::new();
        CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
        let ack = server.positions().await.once(block(bytes)).await.unwrap().into_inner();
        let refused: BTreeSet<u32> = ack.refused_rows.iter().map(|refused| refused.row).collect();
        assert_eq!(refused.len() as u64, ack.rows.unwrap().refused);
        for (row, _) in rows.iter().zip(0..).filter(|(_, number)| !refused.contains(number)) {
            self.past.fix(*row);
            self.clock_ms = self.clock_ms.max(row.time_ms);
        }
        self.epoch = self.epoch.max(ack.epoch);
        refused.len()
    }

    pub(crate) async fn drive(
        &mut self,
        server: &Running,
        random: &mut Random,
        rounds: std::ops::Range<u64>,
    ) {
        for round in rounds {
            self.report(server, random, round).await;
            if random.below(5) == 0 {
                let objects: Vec<u64> = (0..3).map(|_| random.below(40)).collect();
                objects.iter().for_each(|object| self.past.remove(Some(*object), self.clock_ms));
                let request = v1::RemoveRequest { objects, ..Default::default() };
                let removed = server.positions().await.remove(request).await.unwrap();
                self.epoch = self.epoch.max(removed.into_inner().epoch);
            }
            if random.below(20) == 0 {
                self.past.remove(None, self.clock_ms);
                let request = v1::ClearFleetRequest { name: "default".into() };
                let cleared = server.fleets().await.clear_fleet(request).await.unwrap();
                self.epoch = self.epoch.max(cleared.into_inner().epoch);
            }
        }
    }

    /// Compares the history on the disk of a server that has stopped.
    pub(crate) fn assert_is(&self, disk: &SimulatedDisk) {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let id = Manifest::load(&*storage).unwrap().unwrap().fleets[0].fleet.id;
        let options = HistoryOptions {
            reserve_bytes: 0,
            ..HistoryOptions::new(id, Space::geographic().tag())
        };
        let writer = HistoryWriter::open(storage, "fleets/default/history", &options).unwrap();
        let version = writer.history().version();
        assert_eq!(version.watermark().position.epoch, self.epoch);
        assert_eq!(version.watermark().clock_ms, self.clock_ms);
        let (mut found, budget) = (FixColumns::new(), QueryBudget::unlimited);
        let window = (i64::MIN, i64::MAX);
        let mut replay = Replay::new(version.clone(), window, Everywhere, budget());
        while replay.next(&mut found).unwrap() {}
        let expected = self.past.replay(window, |_| true);
        assert_eq!((0..found.len()).map(|row| found.row(row)).collect::<Vec<_>>(), expected);
        let removals = self.past.removals.iter().map(|removal| removal.clock_ms);
        for time_ms in removals.flat_map(|clock_ms| [clock_ms - 1, clock_ms, clock_ms + 777]) {
            let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
            let mut state = FixColumns::new();
            let mut as_of = AsOf::new(version.clone(), query, Everywhere, budget());
            while as_of.next(&mut state).unwrap() {}
            let state: Vec<_> = (0..state.len()).map(|row| state.row(row)).collect();
            let expected = self.past.as_of(time_ms, None, |_| true);
            assert_eq!(state, expected, "as of {time_ms}");
        }
    }
}

/// Waits until the history has everything up to an epoch.
pub(crate) async fn reaches(server: &Running, epoch: u64) {
    fleet_reaches(server, "", epoch).await;
}

/// Waits until the history of a fleet has everything up to an epoch.
pub(crate) async fn fleet_reaches(server: &Running, fleet: &str, epoch: u64) {
    until(async || {
        let history = server.fleet(fleet).await.history.unwrap();
        assert_eq!(history.problem, "");
        history.watermark_epoch >= epoch
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_what_was_acknowledged_over_restarts_and_crashes() {
    for seed in 0..4 {
        let (mut disk, mut random) = (SimulatedDisk::new(seed), Random::new(seed));
        let mut sent = Acknowledged::default();
        for run in 0..4 {
            let server = start(&disk).await;
            sent.drive(&server, &mut random, 40 * run..40 * (run + 1)).await;
            if random.below(2) == 0 {
                // A crash while batches are sealed and runs are merged.
                let fork = crashed(&disk, random.word());
                server.abandon().await;
                disk = fork;
            } else {
                server.stop().await;
            }
        }
        let server = start(&disk).await;
        reaches(&server, sent.epoch).await;
        assert_past_is_present(&server).await;
        assert!(server.metric("shoal_history_rows{fleet=\"default\"}").await > 0.0);
        server.stop().await;
        sent.assert_is(&disk);
    }
}

/// Confirms that the past, as of a moment when everything had arrived, is the live state.
async fn assert_past_is_present(server: &Running) {
    let live = state(server, Vec::new()).await;
    let mut histories = HistoryServiceClient::new(server.channel().await);
    let request = v1::AsOfRequest { time_ms: TOO_LATE_MS, ..v1::AsOfRequest::default() };
    let answer = histories.as_of(request).await.unwrap().into_inner();
    let (mut objects, mut fixes) = (Vec::new(), Vec::new());
    for part in collect(answer).await.unwrap() {
        objects.extend(part.objects);
        fixes.extend(part.fixes);
    }
    assert_eq!((objects, fixes), (live.objects, live.fixes));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_after_a_removal_is_part_of_the_past_whatever_its_time() {
    let server = start(&SimulatedDisk::new(9)).await;
    let mut positions = server.positions().await;
    let report = |object, time_ms| rows(vec![fix(object, time_ms, 1.0, 2.0)]);
    positions.once(report(5, START_MS + 9_000)).await.unwrap();
    // It removes nothing.
    let request = v1::RemoveRequest { objects: vec![6], ..v1::RemoveRequest::default() };
    positions.remove(request).await.unwrap();
    positions.once(report(6, START_MS)).await.unwrap();
    let cleared = v1::ClearFleetRequest { name: "default".into() };
    server.fleets().await.clear_fleet(cleared).await.unwrap();
    positions.once(report(5, START_MS)).await.unwrap();
    let last = positions.once(report(7, START_MS + 1)).await.unwrap().into_inner();
    reaches(&server, last.epoch).await;
    assert_past_is_present(&server).await;
    assert_eq!(state(&server, Vec::new()).await.objects, [5, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_writes_the_same_history() {
    let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
    let (mut random, mut sent) = (Random::new(7), Acknowledged::default());
    let leader = Running::start_at(ANY, on(&disks[0]), options(4 << 30)).await;
    let follows = following(leader.address).follow;
    let options = ServerOptions { follow: follows, ..options(4 << 30) };
    let follower = Running::start_in(on(&disks[1]), options).await;
    sent.drive(&leader, &mut random, 0..60).await;
    caught_up(&leader).await;
    reaches(&leader, sent.epoch).await;
    reaches(&follower, sent.epoch).await;
    follower.stop().await;
    leader.stop().await;
    disks.iter().for_each(|disk| sent.assert_is(disk));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_wait_for_a_history_that_is_behind() {
    let (disk, mut random) = (SimulatedDisk::new(3), Random::new(3));
    let mut sent = Acknowledged::default();
    let server = Running::start_in(on(&disk), options(1)).await;
    sent.drive(&server, &mut random, 0..60).await;
    reaches(&server, sent.epoch).await;
    server.stop().await;
    sent.assert_is(&disk);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_there_is_no_history() {
    let (disk, mut random) = (SimulatedDisk::new(4), Random::new(4));
    let server = Running::start_in(on(&disk), leading(32 << 10)).await;
    Acknowledged::default().drive(&server, &mut random, 0..20).await;
    assert_eq!(server.fleet("").await.history, None);
    server.stop().await;
    assert!(disk.list("fleets/default/history").is_err());
}
