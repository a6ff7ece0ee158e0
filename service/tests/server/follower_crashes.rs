//! A follower's machine crashes at every operation of its disk while it is promoted, while it
//! copies a checkpoint, and while it sets aside what its leader does not have. Then its state is
//! that of the leader, and terms hold.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use shoal_position_log::{Fault, SimulatedDisk, Storage as _};
use shoal_proto::v1;
use shoal_service::fleet::Token;
use shoal_service::limits::FOLLOW_LIST_MS;
use shoal_service::persistence::DataFolder;
use shoal_service::server::Environment;
use shoal_service::{ServerOptions, ServiceError};
use shoal_testkit::Random;
use shoal_testkit::server::{FreePort, Serving, bind_any};
use tokio::net::TcpSocket;
use tokio::task::{JoinSet, LocalSet};

use crate::follower::{
    ANY, answers, assert_equal, caught_up, crashed, described, drive, drive_when_open, follow,
    following, lead, lead_at, leading, logs, numbered, on, promote, replication, role, state,
};
use crate::running::{ReportsOnce as _, Running, environment, refused, until, world};

/// Keeps the address of a server that has ended from other tests; it can be started there again.
fn reserve(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

/// Whether the folder on a disk was promoted.
fn is_promoted(disk: &SimulatedDisk) -> bool {
    let text = role(disk);
    assert_eq!(text.contains("role promoted"), text.contains("fence pending"), "{text}");
    text.contains("role promoted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_that_crashes_at_any_operation_can_be_repeated() {
    let (disk, copy) = (SimulatedDisk::new(30), SimulatedDisk::new(31));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    let token = drive(&leader, &mut Random::new(30), 1, 30).await;
    caught_up(&leader).await;
    let expected = state(&follower, token.clone()).await;
    let (address, term) = (leader.address, leader.fleet("").await.term);
    follower.stop().await;
    leader.stop().await;
    let _reserved = reserve(address);
    let (mut points, mut repeated) = (0, 0);
    for at in 0.. {
        let copy = copy.fork(at);
        let follower = follow(&copy, address).await;
        copy.inject(copy.operations() + at, Fault::Crash);
        let promoted = promote(&follower, false).await.map(|promoted| promoted.fleets);
        let was_reached = copy.has_crashed();
        let copy = crashed(&copy, at);
        follower.abandon().await;
        let again = if is_promoted(&copy) {
            Running::start_in(on(&copy), leading(1 << 30)).await
        } else {
            assert!(promoted.is_err(), "operation {at}: the promotion is lost");
            repeated += 1;
            let again = follow(&copy, address).await;
            promote(&again, false).await.unwrap();
            again
        };
        // Everything is there, once; tokens of both terms hold.
        let found = state(&again, token.clone()).await;
        assert_eq!(
            (found.objects, found.fixes),
            (expected.objects.clone(), expected.fixes.clone())
        );
        assert_ne!(again.fleet("").await.term, term, "operation {at}");
        for fleet in promoted.iter().flatten() {
            state(&again, Token::new(fleet.term, fleet.epoch).to_bytes()).await;
        }
        let beyond = Token::new(term, again.fleet("").await.epoch + 1).to_bytes();
        let options = v1::QueryOptions { min_token: beyond, ..v1::QueryOptions::default() };
        let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
        refused(again.queries().await.range(request).await, "LOST");
        let ack = again.positions().await.once(numbered(30, Vec::new())).await.unwrap();
        assert_eq!(ack.into_inner().duplicate_messages, 1);
        again.stop().await;
        if !was_reached {
            assert!(promoted.is_ok_and(|fleets| fleets.len() == 1));
            break;
        }
        points += 1;
    }
    println!("{points} points, {repeated} promotions repeated");
    assert!(points > repeated && repeated > 0);
}

/// A server whose disk may crash at any time.
struct Fragile {
    address: SocketAddr,
    serving: Serving<ServiceError>,
}

impl Fragile {
    async fn start(disk: &SimulatedDisk, leader: SocketAddr) -> Self {
        Self::start_with(disk, following(leader)).await
    }

    async fn start_with(disk: &SimulatedDisk, options: ServerOptions) -> Self {
        let FreePort { listener, address } = bind_any().await;
        let disk = Arc::new(disk.clone());
        let serving = Serving::start(async move |stopped| {
            // An error means that the disk has crashed.
            let Ok(data) = DataFolder::with_storage(disk, None) else { return Ok(()) };
            let environment = Environment { data: Some(data), ..environment() };
            let run = shoal_service::server::run_in;
            let _ = run(environment, listener, options, stopped.wait()).await;
            Ok(())
        });
        Self { address, serving }
    }

    async fn end(self) {
        self.serving.stop().await.unwrap();
    }
}

/// Starts a follower on copies of a disk, each of which crashes at another operation, and again
/// after the crash. In the end each has the leader's state; `check` sees the disk.
async fn crash_everywhere(
    disk: &SimulatedDisk,
    leader: &Running,
    token: &[u8],
    check: impl Fn(&SimulatedDisk),
) -> u64 {
    let durable = leader.fleet("").await.log.unwrap().durable_epoch;
    for at in 0.. {
        let copy = disk.fork(at);
        copy.inject(copy.operations() + at, Fault::Crash);
        let fragile = Fragile::start(&copy, leader.address).await;
        let address = format!("{}/", fragile.address);
        until(async || {
            let followers = leader.fleet("").await.replication.unwrap().followers;
            let is_done = |it: &v1::FleetFollower| {
                it.address.starts_with(&address) && it.durable_epoch >= durable
            };
            copy.has_crashed() || followers.iter().any(is_done)
        })
        .await;
        let was_reached = copy.has_crashed();
        let copy = crashed(&copy, at);
        fragile.end().await;
        let again = follow(&copy, leader.address).await;
        answers(&again, token).await;
        assert_equal(leader, &again, token).await;
        again.stop().await;
        check(&copy);
        if !was_reached {
            return at;
        }
    }
    unreachable!("the loop has no other end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_crashes_at_any_operation_becomes_whole() {
    let leader = Running::start_in(on(&SimulatedDisk::new(32)), leading(5_000)).await;
    let (mut random, mut next, mut token) = (Random::new(32), 1, Vec::new());
    until(async || {
        token = drive(&leader, &mut random, next, 20).await;
        next += 20;
        leader.fleet("").await.log.unwrap().checkpoint_epoch > 0
    })
    .await;
    let points = crash_everywhere(&SimulatedDisk::new(33), &leader, &token, |_| ()).await;
    println!("{points} points");
    assert!(points > 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_stay_when_the_leader_loses_its_folder() {
    let (disk, copy) = (SimulatedDisk::new(14), SimulatedDisk::new(15));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    let token = drive(&leader, &mut Random::new(14), 1, 20).await;
    caught_up(&leader).await;
    let (address, expected) = (leader.address, state(&follower, token.clone()).await);
    leader.stop().await;
    // An empty server at the same address.
    let empty = Running::start_at(address, on(&SimulatedDisk::new(16)), leading(1 << 30)).await;
    until(async || empty.metric("shoal_connections").await >= 1.0).await;
    tokio::time::sleep(Duration::from_millis(2 * FOLLOW_LIST_MS)).await;
    let found = state(&follower, token.clone()).await;
    assert_eq!((found.objects, found.fixes), (expected.objects.clone(), expected.fixes.clone()));
    promote(&follower, true).await.unwrap();
    let found = state(&follower, token).await;
    assert_eq!((found.objects, found.fixes), (expected.objects, expected.fixes));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_answers_and_can_be_promoted_until_its_replacement_is_complete() {
    let (disk, copy) = (SimulatedDisk::new(17), SimulatedDisk::new(18));
    let leader = Running::start_in(on(&disk), leading(10_000)).await;
    let follower = follow(&copy, leader.address).await;
    let (mut random, mut next) = (Random::new(17), 1);
    let token = drive(&leader, &mut random, next, 20).await;
    next += 20;
    caught_up(&leader).await;
    let expected = state(&follower, token.clone()).await;
    follower.stop().await;
    // The log of the leader no longer reaches back to the follower's end.
    let address = leader.address;
    leader.stop().await;
    let mut options = leading(10_000);
    options.limits.log_follower_ms = 0;
    let leader = Running::start_at(address, on(&disk), options).await;
    drive_when_open(&leader, &mut random, next, 2).await;
    next += 2;
    until(async || {
        drive(&leader, &mut random, next, 20).await;
        next += 20;
        let log = leader.fleet("").await.log.unwrap();
        log.segment > 8 && log.byte_count <= 4 * (64 << 10)
    })
    .await;
    // The follower's disk fails at each operation of the second copy in turn; the leader is gone
    // by then. Each time the state that it had, or the whole new one, is there and is promoted.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind(ANY).unwrap();
    let nobody_at = nobody.local_addr().unwrap();
    let (mut old, mut new) = (0, 0);
    for at in (0..).step_by(3) {
        let copy = copy.fork(at);
        let follower = follow(&copy, address).await;
        copy.inject(copy.operations() + at, Fault::Crash);
        let last = leader.fleet("").await.log.unwrap().durable_epoch;
        until(async || {
            let fleet = follower.fleets().await.get_fleet(v1::GetFleetRequest::default()).await;
            let is_new = |fleet: v1::GetFleetResponse| fleet.fleet.unwrap().epoch >= last;
            copy.has_crashed() || fleet.is_ok_and(|fleet| is_new(fleet.into_inner()))
        })
        .await;
        let was_reached = copy.has_crashed();
        let copy = crashed(&copy, at);
        follower.abandon().await;
        // Nobody answers at the address of the leader.
        let again = follow(&copy, nobody_at).await;
        promote(&again, false).await.unwrap();
        let found = state(&again, token.clone()).await;
        if found.fixes == expected.fixes {
            old += 1;
        } else {
            assert!(again.fleet("").await.epoch >= last, "operation {at}");
            new += 1;
        }
        again.stop().await;
        if !was_reached {
            break;
        }
    }
    println!("{old} times the old copy, {new} times the new one");
    assert!(old > 10 && new > 1);
    // It hangs before, while and after the new copy takes the place of the old one.
    let token = drive(&leader, &mut random, next, 1).await;
    hang_everywhere(&copy, leader, token, 3 * (old - 6)..3 * (old + 8)).await;
}

/// A follower's disk hangs at operations of a copy: a promotion does not wait for it, and the copy
/// is completed when it answers.
async fn hang_everywhere(
    copy: &SimulatedDisk,
    leader: Running,
    token: Vec<u8>,
    operations: Range<u64>,
) {
    let leader = Arc::new(leader);
    let mut refused = Vec::new();
    let has_all = |refused: &[String]| {
        let has = |part: &str| refused.iter().any(|it| it.contains(part));
        has("reading the list of fleets") && has("recover")
    };
    // Every second operation is tried first. The others are tried only if an expected error is
    // missing, because the operations differ a little from run to run.
    for first in [operations.start, operations.start + 1] {
        let (local, mut attempts) = (LocalSet::new(), JoinSet::new());
        for at in (first..operations.end).step_by(2) {
            let (copy, leader, token) = (copy.fork(at), leader.clone(), token.clone());
            let attempt = async move {
                let follower = follow(&copy, leader.address).await;
                copy.inject(copy.operations() + at, Fault::Hang);
                until(async || copy.is_hanging()).await;
                let refused = promote(&follower, true).await.unwrap_err().message().to_owned();
                copy.clear_faults();
                answers(&follower, &token).await;
                assert_equal(&leader, &follower, &token).await;
                follower.stop().await;
                refused
            };
            attempts.spawn_local_on(attempt, &local);
        }
        refused.extend(local.run_until(attempts.join_all()).await);
        if has_all(&refused) {
            return;
        }
    }
    panic!("{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_crashes_at_any_operation_is_delivered_in_the_end() {
    let (disk, copy) = (SimulatedDisk::new(36), SimulatedDisk::new(37));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    drive(&leader, &mut Random::new(36), 1, 20).await;
    caught_up(&leader).await;
    let address = leader.address;
    let server_id = described(&leader).await.server_id;
    leader.stop().await;
    // Another test would get its port otherwise.
    let _reserved = reserve(address);
    let promotions = promote(&follower, false).await.unwrap().fleets;
    let of_promoted = described(&follower).await.logs;
    let request = v1::FenceRequest { logs: of_promoted, promotions, server_id };
    follower.stop().await;
    let is_pending = |disk: &SimulatedDisk| role(disk).contains("fence pending");
    assert!(is_pending(&copy));
    let assert_fenced = async |leader: &Running| {
        assert_eq!(replication(leader).await.role(), v1::ReplicationRole::Fenced);
        refused(leader.positions().await.once(numbered(21, Vec::new())).await, "FENCED");
    };
    // The leader crashes: what it confirmed holds.
    let (mut of_leader, mut confirmed) = (0, 0);
    for at in 0.. {
        let disk = disk.fork(at);
        let leader = lead(&disk).await;
        disk.inject(disk.operations() + at, Fault::Crash);
        let answer = logs(&leader).await.fence(request.clone()).await;
        let was_reached = disk.has_crashed();
        let disk = crashed(&disk, at);
        leader.abandon().await;
        let leader = lead(&disk).await;
        if let Ok(answer) = answer {
            assert_eq!(answer.into_inner().confirmed.len(), 1);
            assert_fenced(&leader).await;
            confirmed += 1;
        }
        let answer = logs(&leader).await.fence(request.clone()).await.unwrap().into_inner();
        assert_eq!(answer.confirmed.len(), 1);
        assert_fenced(&leader).await;
        leader.stop().await;
        if !was_reached {
            break;
        }
        of_leader += 1;
    }
    // The promoted server crashes: it forgets no fence that is not confirmed.
    let mut of_promoted = 0;
    for at in 0.. {
        let (disk, copy) = (disk.fork(at), copy.fork(at));
        copy.inject(copy.operations() + at, Fault::Crash);
        let leader = lead_at(address, &disk).await;
        let fragile = Fragile::start_with(&copy, leading(1 << 30)).await;
        until(async || copy.has_crashed() || !is_pending(&copy)).await;
        let was_reached = copy.has_crashed();
        fragile.end().await;
        let copy = crashed(&copy, at);
        if !is_pending(&copy) {
            assert_fenced(&leader).await;
        }
        let again = Running::start_in(on(&copy), leading(1 << 30)).await;
        until(async || replication(&again).await.unfenced_leader.is_empty()).await;
        assert_fenced(&leader).await;
        again.stop().await;
        leader.stop().await;
        if !was_reached {
            break;
        }
        of_promoted += 1;
    }
    println!(
        "{of_leader} points of the leader, {confirmed} confirmed; {of_promoted} of the promoted"
    );
    assert!(of_leader > 3 && confirmed > 0 && of_promoted > 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_is_set_aside_survives_a_crash_at_any_operation() {
    let (disk, copy) = (SimulatedDisk::new(34), SimulatedDisk::new(35));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    let mut random = Random::new(34);
    drive(&leader, &mut random, 1, 10).await;
    caught_up(&leader).await;
    follower.stop().await;
    // What only the leader has.
    drive(&leader, &mut random, 11, 5).await;
    let (address, term) = (leader.address, leader.fleet("").await.term);
    leader.stop().await;
    let _reserved = reserve(address);
    let promoted = follow(&copy, address).await;
    promote(&promoted, false).await.unwrap();
    let token = drive(&promoted, &mut random, 11, 10).await;
    let aside = format!("fleets/default.diverged-{term:016x}/log");
    let points = crash_everywhere(&disk, &promoted, &token, |disk| {
        let segments = disk.list(&aside).unwrap();
        assert!(segments.iter().any(|name| name.ends_with(".segment")), "{segments:?}");
    })
    .await;
    println!("{points} points");
    assert!(points > 30);
}
