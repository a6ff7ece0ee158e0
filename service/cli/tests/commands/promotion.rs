//! Hazard: after a leader is killed at a random moment under load, an acknowledged report is lost
//! although the follower had acknowledged its epoch to the leader; or a report counts twice.
//!
//! `SHOAL_TEST_KILLS` sets the number of kills; 100 is a manual run.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::shoal::{Served, shoal};
use shoal_proto::v1;
use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use tonic::transport::{Channel, Endpoint};

/// 2020-01-01T00:00:00Z.
const START_MS: i64 = 1_577_836_800_000;
const SENDERS: u64 = 3;
/// Objects of a sender; each message has a row of one of them.
const OBJECTS: u64 = 10;

/// What the senders know.
#[derive(Default)]
struct Shared {
    /// Epoch in which each message was acknowledged, by sender and number.
    acknowledged: Mutex<BTreeMap<(u64, u64), u64>>,
    /// The last epoch that the leader says is durable at its follower.
    replicated: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    /// Waits until the follower has acknowledged an epoch after this one.
    async fn acknowledged_after(&self, epoch: u64) {
        while self.replicated.load(Ordering::SeqCst) <= epoch {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn object(sender: u64, number: u64) -> u64 {
    sender * OBJECTS + number % OBJECTS
}

fn message(sender: u64, number: u64) -> v1::ReportOnceRequest {
    let fix = v1::Fix {
        object: object(sender, number),
        time_ms: START_MS + number as i64,
        x: (number % 90) as f64,
        y: 1.0,
        ..v1::Fix::default()
    };
    v1::ReportOnceRequest {
        producer: format!("sender{sender}"),
        batch_seq: number,
        payload: Some(v1::report_once_request::Payload::Rows(v1::Rows { fixes: vec![fix] })),
        durability: v1::Durability::Logged.into(),
        ..v1::ReportOnceRequest::default()
    }
}

async fn connect(address: &str) -> Option<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect_timeout(Duration::from_secs(2)).connect().await.ok()
}

/// Sends messages until the leader is killed.
async fn send(sender: u64, first: u64, address: String, shared: Arc<Shared>) {
    let mut positions = PositionServiceClient::new(connect(&address).await.unwrap());
    let mut number = first;
    while !shared.stop.load(Ordering::SeqCst) {
        let Ok(response) = positions.report_once(message(sender, number)).await else { return };
        let ack = response.into_inner().ack.unwrap();
        assert_eq!(ack.durability(), v1::Durability::Logged);
        shared.acknowledged.lock().unwrap().insert((sender, number), ack.epoch);
        number += 1;
    }
}

/// Asks the leader what its follower has acknowledged, until it is killed.
async fn observe(address: String, shared: Arc<Shared>) {
    let mut fleets = FleetServiceClient::new(connect(&address).await.unwrap());
    while let Ok(fleet) = fleets.get_fleet(v1::GetFleetRequest::default()).await {
        let replication = fleet.into_inner().fleet.unwrap().replication.unwrap();
        if let Some(follower) = replication.followers.first() {
            shared.replicated.fetch_max(follower.durable_epoch, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The times of all objects.
async fn times(address: &str) -> BTreeMap<u64, i64> {
    let options =
        v1::QueryOptions { projection: v1::Projection::Fixes.into(), ..Default::default() };
    let request = v1::GetRequest {
        options: Some(options),
        objects: (0..SENDERS * OBJECTS).collect(),
        ..Default::default()
    };
    let mut queries = QueryServiceClient::new(connect(address).await.unwrap());
    let mut stream = queries.get(request).await.unwrap().into_inner();
    let mut times = BTreeMap::new();
    while let Some(chunk) = stream.message().await.unwrap() {
        times.extend(chunk.objects.iter().copied().zip(chunk.fixes.iter().map(|f| f.time_ms)));
    }
    times
}

/// The file with the secret that all servers share.
fn secret(folder: &Path) -> PathBuf {
    let file = folder.join("replication.secret");
    std::fs::write(&file, "sixteen-or-more-characters\n").unwrap();
    file
}

/// Small segments, and a checkpoint every few of them.
const LIMITS: &str = "log_segment_bytes=262144,checkpoint_log_bytes=50000";

fn serve(folder: &Path, address: &str, leader: Option<&str>) -> Served {
    serve_with(LIMITS, folder, address, leader)
}

fn serve_with(limits: &str, folder: &Path, address: &str, leader: Option<&str>) -> Served {
    let mut command = shoal();
    command.args(["serve", "--engine", "cpu", "--clock", "event", "--listen", address]);
    command.args(["--limit", limits]);
    command.arg("--data").arg(folder).stderr(std::process::Stdio::null());
    command.arg("--replication-secret").arg(secret(folder));
    if let Some(leader) = leader {
        command.args(["--follow", leader]);
    }
    Served::spawn(&mut command)
}

/// Waits until a follower has everything that is durable at the leader. Returns the leader's last
/// durable epoch.
async fn replicated(address: &str) -> u64 {
    let mut fleets = FleetServiceClient::new(connect(address).await.unwrap());
    loop {
        let fleet = fleets.get_fleet(v1::GetFleetRequest::default()).await.unwrap().into_inner();
        let fleet = fleet.fleet.unwrap();
        let durable = fleet.log.unwrap().durable_epoch;
        let followers = fleet.replication.unwrap().followers;
        if followers.iter().any(|follower| follower.durable_epoch >= durable) {
            return durable;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a server refuses changes because another was promoted.
async fn fenced(address: &str) {
    let mut fleets = FleetServiceClient::new(connect(address).await.unwrap());
    loop {
        let fleet = fleets.get_fleet(v1::GetFleetRequest::default()).await.unwrap().into_inner();
        let replication = fleet.fleet.unwrap().replication.unwrap();
        if replication.role() == v1::ReplicationRole::Fenced {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends a message; returns whether it had been applied before.
async fn resend(address: &str, sender: u64, number: u64) -> Result<bool, tonic::Status> {
    let mut positions = PositionServiceClient::new(connect(address).await.unwrap());
    let ack = positions.report_once(message(sender, number)).await?.into_inner().ack.unwrap();
    Ok(ack.duplicate_messages == 1)
}

/// Sends messages again. Confirms that the new leader has no message that follows one it lacks:
/// first all are duplicates, then none.
async fn repeat(address: &str, sender: u64, numbers: RangeInclusive<u64>) {
    let mut is_known = true;
    for number in numbers {
        let duplicate = resend(address, sender, number).await.unwrap();
        assert!(is_known || !duplicate, "sender {sender}: number {number} is known after a gap");
        is_known = duplicate;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promotions_lose_nothing_that_the_follower_has_acknowledged() {
    let kills = std::env::var("SHOAL_TEST_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let addresses = [0, 1].map(|_| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        format!("127.0.0.1:{port}")
    });
    let secret = secret(folders[0].path());
    let mut leader = serve(folders[0].path(), &addresses[0], None);
    let mut follower = serve(folders[1].path(), &addresses[1], Some(&addresses[0]));
    let mut next = [1; SENDERS as usize];
    let mut delay_ms = 41;
    for kill in 0..kills {
        let (at, other) = (kill % 2, 1 - kill % 2);
        let first_epoch = replicated(&addresses[at]).await;
        let shared = Arc::new(Shared::default());
        let mut tasks: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let first = next[sender as usize];
                tokio::spawn(send(sender, first, addresses[at].clone(), shared.clone()))
            })
            .collect();
        tasks.push(tokio::spawn(observe(addresses[at].clone(), shared.clone())));
        delay_ms = (delay_ms * 31 + 7) % 211;
        shared.acknowledged_after(first_epoch).await;
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        // Dropping it sends SIGKILL and waits for the end.
        drop(leader);
        shared.stop.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        let promote = format!("promote --replication-secret {}", secret.display());
        follower.run("promote").refused(1);
        follower.run(&promote).expect(0);
        let (times, replicated) =
            (times(&addresses[other]).await, shared.replicated.load(Ordering::SeqCst));
        let acknowledged = shared.acknowledged.lock().unwrap().clone();
        for (&(sender, number), &epoch) in acknowledged.iter().filter(|(_, e)| **e <= replicated) {
            let time_ms = times.get(&object(sender, number)).copied().unwrap_or(0);
            assert!(
                time_ms >= START_MS + number as i64,
                "kill {kill}: message {number} of sender {sender}, epoch {epoch} of {replicated}"
            );
        }
        for sender in 0..SENDERS {
            let sent = acknowledged.keys().filter(|(other, _)| *other == sender).count() as u64;
            let first = next[sender as usize];
            repeat(&addresses[other], sender, first..=first + sent).await;
            next[sender as usize] = first + sent + 1;
        }
        leader = follower;
        if kill > 0 {
            // It was promoted before, so it must be fenced before it may follow.
            let former = serve(folders[at].path(), &addresses[at], None);
            fenced(&addresses[at]).await;
            drop(former);
        }
        // The killed server follows. Cycles that only it has are set aside.
        follower = serve(folders[at].path(), &addresses[at], Some(&addresses[other]));
        let (one, two) = (self::times(&addresses[other]).await, async {
            self::replicated(&addresses[other]).await;
            self::times(&addresses[at]).await
        });
        assert_eq!(one, two.await, "kill {kill}");
    }
    let out = follower.run("fleets describe default --json").json(0);
    assert_eq!(out["replication"]["role"], "follower");
    let again = leader.run(&format!("promote --replication-secret {}", secret.display()));
    let again = again.refused(1);
    assert!(again.contains("no follower"), "{again}");
}

/// The times of all objects, once the server answers.
async fn times_when_ready(address: &str) -> BTreeMap<u64, i64> {
    loop {
        if let Some(channel) = connect(address).await {
            let request = v1::GetRequest { objects: vec![0], ..Default::default() };
            if let Ok(answer) = QueryServiceClient::new(channel).get(request).await
                && matches!(answer.into_inner().message().await, Ok(Some(_)))
            {
                return times(address).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends `count` messages from `first` on, without the numbers of a producer, because a promotion
/// may lose some. Returns the number after the last.
async fn send_some(address: &str, first: u64, count: u64) -> u64 {
    let mut positions = PositionServiceClient::new(connect(address).await.unwrap());
    for number in first..first + count {
        let message =
            v1::ReportOnceRequest { producer: String::new(), batch_seq: 0, ..message(0, number) };
        // After a start the server waits for a fence.
        while let Err(status) = positions.report_once(message.clone()).await {
            assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    first + count
}

/// Whether the time of each object in `found` is from its time in `before` to that in `after`.
fn is_between(
    before: &BTreeMap<u64, i64>,
    found: &BTreeMap<u64, i64>,
    after: &BTreeMap<u64, i64>,
) -> bool {
    let is_within = |(object, time_ms): (&u64, &i64)| {
        found.get(object).is_some_and(|found| found >= time_ms && *found <= after[object])
    };
    before.iter().all(is_within)
}

/// Hazard: a kill while a follower replaces its copy leaves it without one, or with a part of one.
///
/// `SHOAL_TEST_KILLS` sets the number of kills; 300 is a manual run.
#[tokio::test(flavor = "multi_thread")]
async fn kills_during_a_copy_leave_a_whole_copy() {
    let kills = std::env::var("SHOAL_TEST_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let addresses = [0, 1].map(|_| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        format!("127.0.0.1:{port}")
    });
    // The leader keeps no segment for a follower that left.
    let limits = format!("{LIMITS},log_follower_ms=0");
    let serve = |at: usize, leader: Option<usize>| {
        let leader = leader.map(|leader| addresses[leader].as_str());
        serve_with(&limits, folders[at].path(), &addresses[at], leader)
    };
    let promote = format!("promote --replication-secret {}", secret(folders[0].path()).display());
    let (mut at, mut number, mut delay_ms) = (0, 1, 3);
    let mut leader = serve(0, None);
    let mut follower = serve(1, Some(0));
    for kill in 0..kills {
        let other = 1 - at;
        number = send_some(&addresses[at], number, 20).await;
        replicated(&addresses[at]).await;
        let held = times(&addresses[other]).await;
        assert_eq!(held, times(&addresses[at]).await, "kill {kill}");
        drop(follower);
        // The leader's log moves on past the follower's position, over several segments.
        number = send_some(&addresses[at], number, 800).await;
        let expected = times(&addresses[at]).await;
        follower = serve(other, Some(at));
        delay_ms = (delay_ms * 31 + 7) % 97;
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        if kill % 2 == 0 {
            drop(follower);
            follower = serve(other, Some(at));
            replicated(&addresses[at]).await;
            assert_eq!(times_when_ready(&addresses[other]).await, expected, "kill {kill}");
            continue;
        }
        drop(leader);
        let found = times_when_ready(&addresses[other]).await;
        assert!(is_between(&held, &found, &expected), "kill {kill}: a part of a copy");
        follower.run(&promote).expect(0);
        let kept = times(&addresses[other]).await;
        assert!(is_between(&found, &kept, &expected), "kill {kill}: a part of a copy");
        // The killed one is fenced, then it follows.
        let former = serve(at, None);
        fenced(&addresses[at]).await;
        drop(former);
        leader = follower;
        follower = serve(at, Some(other));
        at = other;
        replicated(&addresses[at]).await;
        assert_eq!(times_when_ready(&addresses[1 - at]).await, times(&addresses[at]).await);
    }
}
