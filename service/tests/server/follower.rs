//! A follower copies its leader's fleets, answers from the copy, survives restarts of either, and
//! takes the leader's place. Disks are simulated: a fork of one is the disk of a server that
//! crashed.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use shoal_client::Transport;
use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::{Clock, Space};
use shoal_position_log::{SimulatedDisk, Storage as _};
use shoal_proto::v1;
use shoal_proto::v1::follow_response::Kind as FollowKind;
use shoal_proto::v1::log_service_client::LogServiceClient;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_service::cycle::WallClock;
use shoal_service::fleet::Token;
use shoal_service::persistence::DataFolder;
use shoal_service::server::Environment;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt as _;
use tonic::Status;

use crate::running::{
    ReportsOnce as _, Running, START_MS, Whole, assert_refused, block, environment, fix, options,
    refused, refused_start, replication_secret, rows, until, whole, within, world,
};
use crate::subscriber::{Subscriber, subscription};

/// Limits with small segments, and a checkpoint after each `checkpoint_log_bytes` of the log.
fn limits(checkpoint_log_bytes: u64) -> ServerLimits {
    let log_segment_bytes = 64 << 10;
    ServerLimits {
        log_segment_bytes,
        checkpoint_log_bytes,
        log_reserve_bytes: 0,
        ..ServerLimits::default()
    }
}

pub(crate) fn on(disk: &SimulatedDisk) -> Environment {
    let data = DataFolder::with_storage(Arc::new(disk.clone()), None).unwrap();
    Environment { data: Some(data), ..environment() }
}

/// Any free port.
pub(crate) const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Options of a server with these limits.
pub(crate) fn leading(checkpoint_log_bytes: u64) -> ServerOptions {
    ServerOptions { limits: limits(checkpoint_log_bytes), ..options() }
}

pub(crate) fn following(leader: SocketAddr) -> ServerOptions {
    ServerOptions { follow: Some(leader.to_string()), ..leading(1 << 30) }
}

pub(crate) async fn lead(disk: &SimulatedDisk) -> Running {
    lead_at(ANY, disk).await
}

pub(crate) async fn lead_at(address: SocketAddr, disk: &SimulatedDisk) -> Running {
    Running::start_at(address, on(disk), leading(1 << 30)).await
}

pub(crate) async fn follow(disk: &SimulatedDisk, leader: SocketAddr) -> Running {
    Running::start_in(on(disk), following(leader)).await
}

pub(crate) async fn logs(server: &Running) -> LogServiceClient<Transport> {
    let secret = replication_secret();
    LogServiceClient::new(Transport::new(server.channel().await, None, Some(&secret)))
}

pub(crate) async fn promote(server: &Running, force: bool) -> Result<v1::PromoteResponse, Status> {
    let request = v1::PromoteRequest { force };
    Ok(logs(server).await.promote(request).await?.into_inner())
}

/// What a leader says about its logs.
pub(crate) async fn described(leader: &Running) -> v1::DescribeLogsResponse {
    logs(leader).await.describe_logs(v1::DescribeLogsRequest {}).await.unwrap().into_inner()
}

/// What a data folder says about its role.
pub(crate) fn role(disk: &SimulatedDisk) -> String {
    String::from_utf8_lossy(&disk.bytes("server.role").unwrap()).into_owned()
}

/// The replication of the fleet `default`.
pub(crate) async fn replication(server: &Running) -> v1::FleetReplication {
    server.fleet("").await.replication.unwrap()
}

/// Waits until everything that is durable at the leader is durable at its follower.
pub(crate) async fn caught_up(leader: &Running) {
    until(async || {
        let fleet = leader.fleet("").await;
        let durable = fleet.log.unwrap().durable_epoch;
        let followers = fleet.replication.unwrap().followers;
        !followers.is_empty() && followers.iter().all(|it| it.durable_epoch >= durable)
    })
    .await;
}

/// The disk of a server that crashes now.
pub(crate) fn crashed(disk: &SimulatedDisk, seed: u64) -> SimulatedDisk {
    let fork = disk.fork(seed);
    fork.restart();
    fork
}

/// All records of the fleet `default`, at the epoch of a token or later.
pub(crate) async fn state(server: &Running, min_token: Vec<u8>) -> Whole {
    let projection = v1::Projection::Fixes.into();
    let options = v1::QueryOptions { min_token, projection, ..v1::QueryOptions::default() };
    let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
    whole(server.queries().await.range(request).await.unwrap().into_inner()).await.unwrap()
}

/// Waits until a copy that begins again answers at the epoch of a token.
pub(crate) async fn answers(server: &Running, token: &[u8]) {
    let options = v1::QueryOptions { min_token: token.to_vec(), ..v1::QueryOptions::default() };
    let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
    until(async || match server.queries().await.range(request.clone()).await {
        Ok(answer) => whole(answer.into_inner()).await.is_ok(),
        Err(status) => {
            let is_behind = status.message().contains("the follower has applied");
            assert_refused(&status, if is_behind { "FOLLOWER_BEHIND" } else { "RECOVERING" });
            false
        }
    })
    .await;
}

/// Confirms that both servers answer alike at the epoch of a token.
pub(crate) async fn assert_equal(leader: &Running, follower: &Running, token: &[u8]) {
    let (one, other) = (state(leader, token.to_vec()).await, state(follower, token.to_vec()).await);
    assert_eq!(one.objects, other.objects);
    assert_eq!(one.fixes, other.fixes);
    assert_eq!(one.header.term, other.header.term);
    assert!(one.header.staleness.is_none() && other.header.staleness.is_some());
}

pub(crate) fn numbered(number: u64, fixes: Vec<v1::Fix>) -> v1::ReportRequest {
    v1::ReportRequest { producer: "p".into(), batch_seq: number, ..rows(fixes) }
}

fn message(random: &mut Random, number: u64) -> v1::ReportRequest {
    let time_ms = START_MS + 100 * number as i64;
    if !number.is_multiple_of(3) {
        let fixes = (0..=random.below(20)).map(|_| {
            let time_ms = time_ms - i64::from(random.below(300));
            fix(random.below(40), time_ms, random.real(-9.0, 9.0), 1.0)
        });
        return numbered(number, fixes.collect());
    }
    let mut columns = FixColumns::new();
    for _ in 0..=random.below(30) {
        columns.push_row(FixRow::new(random.below(40), time_ms, random.below(9_000_000), 5));
    }
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
    v1::ReportRequest { payload: block(bytes).payload, ..numbered(number, Vec::new()) }
}

/// Sends rows, blocks, removals and clears, numbered from `first`; returns the last token.
pub(crate) async fn drive(
    server: &Running,
    random: &mut Random,
    first: u64,
    count: u64,
) -> Vec<u8> {
    let mut positions = server.positions().await;
    let mut token = Vec::new();
    for number in first..first + count {
        let ack = positions.once(message(random, number)).await.unwrap().into_inner();
        assert_eq!((ack.durability(), ack.duplicate_messages), (v1::Durability::Logged, 0));
        token = ack.token;
        if number.is_multiple_of(7) {
            let objects = (0..5).map(|_| random.below(50)).collect();
            let request = v1::RemoveRequest { objects, ..Default::default() };
            token = positions.remove(request).await.unwrap().into_inner().token;
        }
        if number.is_multiple_of(50) {
            let request = v1::ClearFleetRequest { name: "default".into() };
            let cleared = server.fleets().await.clear_fleet(request).await.unwrap();
            token = cleared.into_inner().token;
        }
        if number.is_multiple_of(5) {
            // An epoch that is in no log.
            state(server, Vec::new()).await;
        }
    }
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_answers_as_its_leader() {
    let leader = lead(&SimulatedDisk::new(1)).await;
    let mut random = Random::new(1);
    drive(&leader, &mut random, 1, 20).await;
    let follower = follow(&SimulatedDisk::new(2), leader.address).await;
    for round in 0..6 {
        let token = drive(&leader, &mut random, 21 + 20 * round, 20).await;
        assert_equal(&leader, &follower, &token).await;
    }
    refused(follower.positions().await.once(numbered(1, Vec::new())).await, "FOLLOWER");
    let remove = v1::RemoveRequest { objects: vec![1], ..Default::default() };
    refused(follower.positions().await.remove(remove).await, "FOLLOWER");
    let mut fleets = follower.fleets().await;
    let clear = v1::ClearFleetRequest { name: "default".into() };
    refused(fleets.clear_fleet(clear).await, "FOLLOWER");
    let create = v1::CreateFleetRequest { name: "new".into(), ..Default::default() };
    refused(fleets.create_fleet(create).await, "FOLLOWER");
    let delete = v1::DeleteFleetRequest { name: "default".into() };
    refused(fleets.delete_fleet(delete).await, "FOLLOWER");
    refused(logs(&follower).await.describe_logs(v1::DescribeLogsRequest {}).await, "FOLLOWER");
    caught_up(&leader).await;
    let copy = replication(&follower).await;
    assert_eq!(copy.role(), v1::ReplicationRole::Follower);
    assert_eq!(copy.leader, leader.address.to_string());
    let original = replication(&leader).await;
    assert_eq!(original.role(), v1::ReplicationRole::Leader);
    // Its address, and its data folder.
    let name = &original.followers[0].address;
    assert!(name.starts_with(&format!("{}/", follower.address)), "{name}");
    assert_eq!(leader.metric("shoal_followers{fleet=\"default\"}").await, 1.0);
    assert!(follower.metric("shoal_stale_milliseconds{fleet=\"default\"}").await < 60_000.0);
    // A query of the follower takes no epoch.
    let epoch = follower.fleet("").await.epoch;
    state(&follower, Vec::new()).await;
    assert_eq!(follower.fleet("").await.epoch, epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_knows_how_far_it_is_behind_while_it_receives() {
    let leader = lead(&SimulatedDisk::new(1)).await;
    drive(&leader, &mut Random::new(1), 1, 20).await;
    let fleet_id = described(&leader).await.logs[0].fleet_id.clone();
    let durable = leader.fleet("").await.log.unwrap().durable_epoch;
    let (fleet, follower) = ("default".to_owned(), "test".to_owned());
    let start = v1::FollowStart { fleet, fleet_id, follower, ..Default::default() };
    let request = v1::FollowRequest { kind: Some(v1::follow_request::Kind::Start(start)) };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut messages = logs(&leader).await.follow(requests).await.unwrap().into_inner();
    let mut groups = 0;
    loop {
        match within(messages.message()).await.unwrap().unwrap().kind.unwrap() {
            FollowKind::Group(part) if part.last => {
                assert_eq!(part.durable_epoch, durable);
                groups += 1;
            }
            FollowKind::Progress(progress) => break assert_eq!(progress.durable_epoch, durable),
            _ => {}
        }
    }
    assert!(groups > 1, "{groups}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_of_either_server_lose_and_repeat_nothing() {
    for seed in 0..4 {
        let (mut disk, mut copy) = (SimulatedDisk::new(seed), SimulatedDisk::new(seed + 50));
        let mut leader = lead(&disk).await;
        let mut follower = follow(&copy, leader.address).await;
        let (address, mut random, mut next) = (leader.address, Random::new(seed), 1);
        for round in 0..4 {
            let token = drive(&leader, &mut random, next, 15).await;
            next += 15;
            let term = leader.fleet("").await.term;
            match (round + seed) % 4 {
                0 => {
                    follower.stop().await;
                    follower = follow(&copy, address).await;
                }
                1 => {
                    copy = crashed(&copy, seed);
                    follower.stop().await;
                    follower = follow(&copy, address).await;
                }
                2 => {
                    leader.stop().await;
                    leader = lead_at(address, &disk).await;
                    assert_eq!(leader.fleet("").await.term, term);
                }
                _ => {
                    disk = crashed(&disk, seed);
                    leader.stop().await;
                    leader = lead_at(address, &disk).await;
                    assert_ne!(leader.fleet("").await.term, term);
                }
            }
            // The leader takes changes once no fence can arrive any more.
            let mut positions = leader.positions().await;
            let first = message(&mut random, next);
            until(async || positions.once(first.clone()).await.is_ok()).await;
            next += 1;
            let last = drive(&leader, &mut random, next, 5).await;
            next += 5;
            assert_equal(&leader, &follower, &last).await;
            // A token of before holds on both.
            assert_equal(&leader, &follower, &token).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_begins_with_a_checkpoint_where_the_log_does_not_reach_back() {
    let (disk, copy) = (SimulatedDisk::new(3), SimulatedDisk::new(4));
    let leader = Running::start_in(on(&disk), leading(10_000)).await;
    let follower = follow(&copy, leader.address).await;
    let (mut random, mut next) = (Random::new(3), 1);
    drive(&leader, &mut random, next, 10).await;
    next += 10;
    caught_up(&leader).await;
    follower.stop().await;
    // A follower that left does not hold the log in this test.
    let address = leader.address;
    leader.stop().await;
    let limits = ServerLimits { log_follower_ms: 0, ..limits(10_000) };
    let leader = Running::start_at(address, on(&disk), ServerOptions { limits, ..options() }).await;
    let mut positions = leader.positions().await;
    let first = message(&mut random, next);
    until(async || positions.once(first.clone()).await.is_ok()).await;
    next += 1;
    let mut token = Vec::new();
    // The first segment has the follower's position.
    let log = async || leader.fleet("").await.log.unwrap();
    until(async || {
        token = drive(&leader, &mut random, next, 20).await;
        next += 20;
        let log = log().await;
        log.segment > 8 && log.byte_count <= 4 * (64 << 10)
    })
    .await;
    let again = follow(&copy, leader.address).await;
    answers(&again, &token).await;
    assert_equal(&leader, &again, &token).await;
    let fresh = follow(&SimulatedDisk::new(5), leader.address).await;
    assert_equal(&leader, &fresh, &token).await;
    let token = drive(&leader, &mut random, next, 5).await;
    assert_equal(&leader, &again, &token).await;
    assert_equal(&leader, &fresh, &token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_follower_takes_the_place_of_its_leader() {
    let (disk, copy) = (SimulatedDisk::new(6), SimulatedDisk::new(7));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    let mut random = Random::new(6);
    let token = drive(&leader, &mut random, 1, 30).await;
    caught_up(&leader).await;
    let (address, fleet) = (leader.address, leader.fleet("").await);
    refused(promote(&follower, false).await, "LEADER_REACHABLE");
    refused(promote(&leader, false).await, "NOT_FOLLOWER");
    // The leader crashes with cycles that the follower does not have.
    let old = crashed(&disk, 6);
    leader.stop().await;
    let lost = lead(&old).await;
    drive_when_open(&lost, &mut random, 31, 5).await;
    let lost_state = state(&lost, Vec::new()).await;
    let old = crashed(&old, 7);
    lost.stop().await;

    // The copy answers, and its staleness grows.
    let before = replication(&follower).await.staleness.unwrap().stale_ms;
    until(async || replication(&follower).await.staleness.unwrap().stale_ms > before + 50).await;
    let header = state(&follower, token.clone()).await.header;
    assert!(header.staleness.unwrap().stale_ms > before);
    let folder_of_follower = refused_start(on(&crashed(&copy, 1)), leading(1 << 30)).await;
    assert!(folder_of_follower.contains("--follow"), "{folder_of_follower}");

    let promoted = promote(&follower, false).await.unwrap().fleets;
    let now = follower.fleet("").await;
    assert_eq!((promoted.len(), promoted[0].term), (1, now.term));
    assert_ne!(now.term, fleet.term);
    assert_eq!(replication(&follower).await.role(), v1::ReplicationRole::Leader);
    // Tokens of the old term hold up to its end; producers continue where they were.
    state(&follower, token).await;
    let beyond = Token::new(fleet.term, promoted[0].epoch + 1).to_bytes();
    let options = v1::QueryOptions { min_token: beyond, ..v1::QueryOptions::default() };
    let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
    refused(follower.queries().await.range(request).await, "LOST");
    let ack = follower.positions().await.once(numbered(30, Vec::new())).await.unwrap();
    assert_eq!(ack.into_inner().duplicate_messages, 1);
    refused(follower.positions().await.once(numbered(32, Vec::new())).await, "OUT_OF_ORDER");
    drive(&follower, &mut random, 31, 10).await;
    let stale_flag = refused_start(on(&crashed(&copy, 2)), following(address)).await;
    assert!(stale_flag.contains("promoted"), "{stale_flag}");

    // The old leader returns: it is fenced before it takes changes, and remains readable.
    let back = lead_at(address, &old).await;
    until(async || replication(&back).await.role() == v1::ReplicationRole::Fenced).await;
    let refusal = refused(back.positions().await.once(numbered(36, Vec::new())).await, "FENCED");
    let metadata = tonic_types::StatusExt::get_error_details(&refusal);
    let metadata = metadata.error_info().unwrap().metadata.clone();
    // Its log may end before an epoch that changed nothing.
    let last_epoch: u64 = metadata["last_epoch"].parse().unwrap();
    assert!(0 < last_epoch && last_epoch <= promoted[0].epoch);
    let readable = state(&back, Vec::new()).await;
    assert_eq!((readable.objects, readable.fixes), (lost_state.objects, lost_state.fixes));
    let last_term = back.fleet("").await.term;
    back.stop().await;
    let back = lead_at(address, &old).await;
    assert_eq!(replication(&back).await.role(), v1::ReplicationRole::Fenced);
    back.stop().await;

    follows_in_turn(&old, follower, &promoted[0], last_term, random).await;
}

/// A fenced server follows the promoted server. The cycles that only the fenced server has are set
/// aside. Then it is promoted.
async fn follows_in_turn(
    old: &SimulatedDisk,
    follower: Running,
    promoted: &v1::FleetTerm,
    last_term: u64,
    mut random: Random,
) {
    let back = follow(old, follower.address).await;
    let token = drive(&follower, &mut random, 41, 10).await;
    answers(&back, &token).await;
    assert_equal(&follower, &back, &token).await;
    let set_aside = format!("fleets/default.diverged-{last_term:016x}");
    let segments = old.list(&format!("{set_aside}/log")).unwrap();
    assert!(segments.iter().any(|name| name.ends_with(".segment")), "{segments:?}");

    caught_up(&follower).await;
    follower.stop().await;
    promote(&back, false).await.unwrap();
    drive(&back, &mut random, 51, 5).await;

    // The fence of the earlier promotion arrives late, after a crash of its server.
    let ended_terms = vec![v1::EndedTerm { term: promoted.term, last_epoch: promoted.epoch + 1 }];
    let (fleet_id, term) = (promoted.fleet_id.clone(), promoted.term ^ 1);
    let log = v1::LogDescription { fleet_id, term, ended_terms, ..Default::default() };
    let mut service = logs(&back).await;
    let promotions = vec![promoted.clone()];
    let outdated = v1::FenceRequest { logs: vec![log], promotions, server_id: 0 };
    assert_eq!(service.fence(outdated.clone()).await.unwrap().into_inner().fenced_count, 0);
    drive(&back, &mut random, 56, 5).await;
    let mut later = outdated;
    later.promotions[0].term ^= 2;
    assert_eq!(service.fence(later).await.unwrap().into_inner().fenced_count, 1);
    refused(back.positions().await.once(numbered(61, Vec::new())).await, "FENCED");
}

/// As [`drive`], once the server takes changes: after a start it waits for a fence.
pub(crate) async fn drive_when_open(
    server: &Running,
    random: &mut Random,
    first: u64,
    count: u64,
) -> Vec<u8> {
    let mut positions = server.positions().await;
    let one = message(random, first);
    until(async || positions.once(one.clone()).await.is_ok()).await;
    drive(server, random, first + 1, count - 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_continue_across_a_promotion() {
    let leader = lead(&SimulatedDisk::new(8)).await;
    let follower = follow(&SimulatedDisk::new(9), leader.address).await;
    let mut subscriber = follower.subscriber(vec![subscription(1, world())]).await;
    let term = subscriber.opened.term;
    assert!(subscriber.opened.staleness.is_some());
    let enters = async |server: &Running, subscriber: &mut Subscriber, object: u64| {
        let request = rows(vec![fix(object, START_MS, 1.0, 1.0)]);
        server.positions().await.once(request).await.unwrap();
        while !subscriber.held.get(&1).is_some_and(|members| members.contains(&object)) {
            subscriber.next().await.unwrap().unwrap();
        }
    };
    enters(&leader, &mut subscriber, 5).await;
    let progress = loop {
        if let Some(Kind::Progress(progress)) = subscriber.next().await.unwrap() {
            break progress;
        }
    };
    assert!(progress.staleness.is_some());
    caught_up(&leader).await;
    promote(&follower, true).await.unwrap();
    enters(&follower, &mut subscriber, 6).await;
    // A broken stream resumes as well; it reports the new term.
    subscriber.reopen(Vec::new()).await.unwrap();
    assert!(subscriber.opened.resumed && subscriber.opened.term != term);
    assert!(subscriber.opened.staleness.is_none());
    enters(&follower, &mut subscriber, 7).await;
    assert!(subscriber.gaps.is_empty() && subscriber.lagged == 0);
    // The leader was reachable all the time.
    until(async || replication(&leader).await.role() == v1::ReplicationRole::Fenced).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleets_are_created_and_deleted_with_those_of_the_leader() {
    let (disk, copy) = (SimulatedDisk::new(10), SimulatedDisk::new(11));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    let names = async |server: &Running| {
        let list = server.fleets().await.list_fleets(v1::ListFleetsRequest::default()).await;
        let fleets = list.unwrap().into_inner().fleets;
        fleets.into_iter().map(|fleet| fleet.name).collect::<Vec<_>>()
    };
    let mut fleets = leader.fleets().await;
    let create = v1::CreateFleetRequest { name: "bus".into(), ..Default::default() };
    fleets.create_fleet(create.clone()).await.unwrap();
    until(async || names(&follower).await == ["bus", "default"]).await;
    let report =
        v1::ReportRequest { fleet: "bus".into(), ..rows(vec![fix(1, START_MS, 1.0, 1.0)]) };
    leader.positions().await.once(report).await.unwrap();
    until(async || follower.fleet("bus").await.object_count == 1).await;
    // Created again, it is another fleet.
    let delete = v1::DeleteFleetRequest { name: "bus".into() };
    fleets.delete_fleet(delete.clone()).await.unwrap();
    fleets.create_fleet(create).await.unwrap();
    until(async || {
        let request = v1::GetFleetRequest { name: "bus".into() };
        let found = follower.fleets().await.get_fleet(request).await;
        found.is_ok_and(|fleet| fleet.into_inner().fleet.unwrap().object_count == 0)
    })
    .await;
    let folders = copy.folders("fleets").unwrap();
    assert!(folders.iter().any(|name| name.starts_with("bus.replaced-")), "{folders:?}");
    // Deleted at the leader, it stays until it is deleted here.
    let mut of_follower = follower.fleets().await;
    refused(of_follower.delete_fleet(delete.clone()).await, "FOLLOWER");
    fleets.delete_fleet(delete.clone()).await.unwrap();
    until(async || of_follower.delete_fleet(delete.clone()).await.is_ok()).await;
    assert_eq!(names(&follower).await, ["default"]);
    copy.list("fleets/bus/log").unwrap_err();
    let other = v1::DeleteFleetRequest { name: "default".into() };
    refused(of_follower.delete_fleet(other).await, "FOLLOWER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_adopts_the_names_of_its_leaders_fleets() {
    let (disk, copy) = (SimulatedDisk::new(12), SimulatedDisk::new(13));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    // The objects of each fleet, by name.
    let objects = async |server: &Running| {
        let list = server.fleets().await.list_fleets(v1::ListFleetsRequest::default()).await;
        let fleets = list.unwrap().into_inner().fleets;
        fleets.into_iter().map(|it| (it.name, it.object_count)).collect::<Vec<_>>()
    };
    let same = async |follower: &Running, expected: &[(&str, u64)]| {
        let expected = expected.iter().map(|(name, count)| ((*name).to_owned(), *count));
        let expected = expected.collect::<Vec<_>>();
        until(async || objects(follower).await == expected).await;
    };
    let create = async |name: &str, count: u64| {
        let request = v1::CreateFleetRequest { name: name.into(), ..Default::default() };
        leader.fleets().await.create_fleet(request).await.unwrap();
        report_to(&leader, name, 1..=count).await;
    };
    let rename = async |name: &str, new_name: &str| {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let request = v1::RenameFleetRequest { name, new_name };
        leader.fleets().await.rename_fleet(request).await.unwrap();
    };
    create("bus", 1).await;
    create("tram", 2).await;
    same(&follower, &[("bus", 1), ("default", 0), ("tram", 2)]).await;
    refused(
        {
            let (name, new_name) = ("bus".into(), "van".into());
            let request = v1::RenameFleetRequest { name, new_name };
            follower.fleets().await.rename_fleet(request).await
        },
        "FOLLOWER",
    );
    // Two fleets exchange their names, so one list of the leader may show both changes.
    rename("bus", "other").await;
    rename("tram", "bus").await;
    rename("other", "tram").await;
    same(&follower, &[("bus", 2), ("default", 0), ("tram", 1)]).await;
    report_to(&leader, "tram", 2..=5).await;
    same(&follower, &[("bus", 2), ("default", 0), ("tram", 5)]).await;
    // A new fleet of an old name, and another one of a name that the follower still has.
    rename("tram", "van").await;
    create("tram", 3).await;
    same(&follower, &[("bus", 2), ("default", 0), ("tram", 3), ("van", 5)]).await;
    follower.stop().await;
    let delete = v1::DeleteFleetRequest { name: "bus".into() };
    leader.fleets().await.delete_fleet(delete).await.unwrap();
    rename("van", "bus").await;
    rename("default", "van").await;
    let follower = follow(&copy, leader.address).await;
    same(&follower, &[("bus", 5), ("tram", 3), ("van", 0)]).await;
    // No fleet was copied again: only the deleted one is set aside.
    let folders = copy.folders("fleets").unwrap();
    let is_aside = |name: &&String| name.contains('.');
    assert_eq!(folders.iter().filter(is_aside).count(), 1, "{folders:?}");
    assert_eq!(folders.len(), 4, "{folders:?}");
    // An empty follower copies renamed fleets.
    let empty = SimulatedDisk::new(14);
    let second = follow(&empty, leader.address).await;
    same(&second, &[("bus", 5), ("tram", 3), ("van", 0)]).await;
    report_to(&leader, "bus", 6..=6).await;
    for server in [&follower, &second] {
        same(server, &[("bus", 6), ("tram", 3), ("van", 0)]).await;
    }
    // While the follower is away, one fleet gets a new name, and another is created again: the old
    // copy of it stays in the list until the new one is complete.
    follower.stop().await;
    let delete = v1::DeleteFleetRequest { name: "tram".into() };
    leader.fleets().await.delete_fleet(delete).await.unwrap();
    create("tram", 4).await;
    rename("van", "truck").await;
    let expected = [("bus", 6), ("tram", 4), ("truck", 0)];
    let follower = follow(&copy, leader.address).await;
    for server in [&follower, &second] {
        same(server, &expected).await;
    }
    let folders = copy.folders("fleets").unwrap();
    let replaced = folders.iter().filter(|name| name.contains(".replaced-")).count();
    assert_eq!((replaced, folders.len()), (2, 5), "{folders:?}");
    // The names survive a restart and a promotion.
    follower.stop().await;
    let follower = follow(&copy, leader.address).await;
    same(&follower, &expected).await;
    leader.stop().await;
    promote(&follower, false).await.unwrap();
    report_to(&follower, "bus", 7..=7).await;
    same(&follower, &[("bus", 7), ("tram", 4), ("truck", 0)]).await;
}

/// Reports one row of each object to a fleet.
async fn report_to(server: &Running, fleet: &str, objects: std::ops::RangeInclusive<u64>) {
    let fixes = objects.map(|object| fix(object, START_MS, 1.0, 1.0)).collect();
    let report = v1::ReportRequest { fleet: fleet.into(), ..rows(fixes) };
    server.positions().await.once(report).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_expire_with_the_clock_of_the_leader() {
    let now = Arc::new(AtomicI64::new(START_MS));
    let clock = now.clone();
    let wall = WallClock::new(move || clock.load(Ordering::SeqCst));
    let system = |options: ServerOptions| ServerOptions {
        default_clock: Clock::System,
        default_ttl_ms: Some(1_000),
        ..options
    };
    let environment = |seed| Environment { wall: wall.clone(), ..on(&SimulatedDisk::new(seed)) };
    let leader = Running::start_in(environment(12), system(leading(1 << 30))).await;
    // The clock of the follower's machine is wrong by a day.
    let ahead = WallClock::new({
        let now = now.clone();
        move || now.load(Ordering::SeqCst) + 86_400_000
    });
    let environment = Environment { wall: ahead, ..environment(13) };
    let follower = Running::start_in(environment, system(following(leader.address))).await;
    let mut positions = leader.positions().await;
    for object in 0..20 {
        let time_ms = START_MS + 100 * object as i64;
        now.store(time_ms, Ordering::SeqCst);
        let request = rows(vec![fix(object, time_ms, object as f64, 1.0)]);
        let token = positions.once(request).await.unwrap().into_inner().token;
        let (one, other) = (state(&leader, token.clone()).await, state(&follower, token).await);
        let oldest = (object + 1).saturating_sub(11);
        assert_eq!(one.objects, (oldest..=object).collect::<Vec<_>>());
        assert_eq!(other.objects, one.objects);
    }
    // Without reports, too.
    now.store(START_MS + 10_000, Ordering::SeqCst);
    until(async || follower.fleet("").await.object_count == 0).await;
}

/// Forwards connections to a server; once armed, it flips a bit of the next large piece.
async fn flipping(server: SocketAddr, is_armed: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let is_armed = is_armed.clone();
            tokio::spawn(async move {
                let server = TcpStream::connect(server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                });
                let mut piece = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_server.read(&mut piece).await {
                    if count > 8_000 && is_armed.swap(false, Ordering::SeqCst) {
                        piece[count / 2] ^= 4;
                    }
                    if to_client.write_all(&piece[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_message_is_refused_and_received_again() {
    let leader = lead(&SimulatedDisk::new(14)).await;
    let is_armed = Arc::new(AtomicBool::new(false));
    let proxy = flipping(leader.address, is_armed.clone()).await;
    let follower = follow(&SimulatedDisk::new(15), proxy).await;
    let mut positions = leader.positions().await;
    for round in 0..10_u64 {
        is_armed.store(true, Ordering::SeqCst);
        let row = |object| fix(object, START_MS + round as i64, object as f64 / 100.0, 1.0);
        let request = rows((0..3_000).map(row).collect());
        let token = positions.once(request).await.unwrap().into_inner().token;
        assert_equal(&leader, &follower, &token).await;
        assert!(!is_armed.load(Ordering::SeqCst), "round {round}: nothing was damaged");
    }
}
