//! Promotions that fail, and fences that meet another server: nothing is promoted by halves, and a
//! former leader is fenced only when it has said so itself.

use std::time::Duration;

use shoal_client::{Secret, Transport};
use shoal_position_log::{Fault, SimulatedDisk};
use shoal_proto::v1;
use shoal_proto::v1::follow_response::Kind;
use shoal_proto::v1::log_service_client::LogServiceClient;
use shoal_service::ServerOptions;
use shoal_service::follower::LeaderLink;
use shoal_testkit::Random;
use tokio::net::TcpListener;
use tokio::task::{JoinSet, LocalSet};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};

use crate::follower::{
    ANY, answers, assert_equal, caught_up, described, drive, drive_when_open, follow, lead,
    lead_at, leading, logs, numbered, on, promote, replication, role,
};
use crate::running::{ReportsOnce as _, Running, assert_refused, refused, until, within};

async fn is_fenced(server: &Running) -> bool {
    replication(server).await.role() == v1::ReplicationRole::Fenced
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_completes_or_the_server_follows_again() {
    let (disk, copy) = (SimulatedDisk::new(40), SimulatedDisk::new(41));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    drive(&leader, &mut Random::new(40), 1, 20).await;
    caught_up(&leader).await;
    follower.stop().await;
    leader.stop().await;
    let (mut promoted, mut failed) = (0, 0);
    for at in 0..30 {
        let (disk, copy) = (disk.fork(at), copy.fork(at));
        let leader = lead(&disk).await;
        let follower = follow(&copy, leader.address).await;
        caught_up(&leader).await;
        copy.inject(copy.operations() + at, Fault::InputOutput);
        let result = promote(&follower, true).await;
        copy.clear_faults();
        let mut random = Random::new(at);
        if let Err(status) = result {
            assert!(status.message().contains("follows its leader again"), "{status}");
            // Fleets that may have begun a term start again.
            until(async || {
                let refused = follower.positions().await.once(numbered(21, Vec::new())).await;
                refused.unwrap_err().message().contains("is a follower")
            })
            .await;
            let token = drive_when_open(&leader, &mut random, 21, 10).await;
            answers(&follower, &token).await;
            assert_equal(&leader, &follower, &token).await;
            // Its disk says so too.
            until(async || !role(&copy).contains("promoted")).await;
            follower.abandon().await;
            let follower = follow(&copy, leader.address).await;
            assert_equal(&leader, &follower, &token).await;
            follower.stop().await;
            failed += 1;
        } else {
            drive(&follower, &mut random, 21, 5).await;
            until(async || is_fenced(&leader).await).await;
            promoted += 1;
            // A log that failed after the promotion is reported when the server stops.
            follower.abandon().await;
        }
        leader.abandon().await;
    }
    println!("{promoted} promoted, {failed} failed");
    assert!(promoted > 0 && failed > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_does_not_wait_for_a_disk_that_hangs() {
    let (disk, copy) = (SimulatedDisk::new(59), SimulatedDisk::new(60));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    drive(&leader, &mut Random::new(59), 1, 20).await;
    caught_up(&leader).await;
    follower.stop().await;
    leader.stop().await;
    let (local, mut attempts) = (LocalSet::new(), JoinSet::new());
    for at in (0..40).step_by(3) {
        let (disk, copy) = (disk.fork(at), copy.fork(at));
        let attempt = async move {
            let leader = lead(&disk).await;
            let follower = follow(&copy, leader.address).await;
            caught_up(&leader).await;
            copy.inject(copy.operations() + at, Fault::Hang);
            let promoted = promote(&follower, true).await;
            copy.clear_faults();
            let mut random = Random::new(at);
            match &promoted {
                Err(status) => {
                    let message = status.message();
                    assert!(message.contains(" within 10000 ms"), "{message}");
                    let token = drive_when_open(&leader, &mut random, 21, 10).await;
                    answers(&follower, &token).await;
                    assert_equal(&leader, &follower, &token).await;
                }
                Ok(_) => {
                    drive(&follower, &mut random, 21, 5).await;
                    until(async || is_fenced(&leader).await).await;
                }
            }
            follower.abandon().await;
            leader.abandon().await;
            promoted.map_or_else(|status| status.message().to_owned(), |_| String::new())
        };
        attempts.spawn_local_on(attempt, &local);
    }
    let results = local.run_until(attempts.join_all()).await;
    let has = |part: &str| results.iter().any(|result| result.contains(part));
    assert!(has("storing the role") && has("its disk did not answer"), "{results:?}");
    assert!(results.iter().any(String::is_empty), "{results:?}");
}

/// A server that answers every call, but is not a Shoal server.
async fn proxy() -> std::net::SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = tonic::service::Routes::default();
    let serving = tonic::transport::Server::builder()
        .add_routes(routes)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_or_another_server_is_not_the_leader() {
    let copy = SimulatedDisk::new(43);
    let leader = lead(&SimulatedDisk::new(42)).await;
    let follower = follow(&copy, leader.address).await;
    drive(&leader, &mut Random::new(42), 1, 5).await;
    caught_up(&leader).await;
    refused(promote(&follower, false).await, "LEADER_REACHABLE");
    let address = leader.address;
    follower.stop().await;
    leader.stop().await;
    // Another server at its address.
    let other = lead_at(address, &SimulatedDisk::new(44)).await;
    let follower = follow(&copy.fork(1), address).await;
    promote(&follower, false).await.unwrap();
    follower.stop().await;
    other.stop().await;
    let follower = follow(&copy.fork(2), proxy().await).await;
    promote(&follower, false).await.unwrap();
    follower.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_waits_for_the_leader_that_it_names() {
    let (disk, copy) = (SimulatedDisk::new(45), SimulatedDisk::new(46));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    drive(&leader, &mut Random::new(45), 1, 10).await;
    caught_up(&leader).await;
    let address = leader.address;
    leader.stop().await;
    promote(&follower, false).await.unwrap();
    // An empty server at the address of the leader, and one that has had a follower of its own.
    let empty = lead_at(address, &SimulatedDisk::new(47)).await;
    let other = follow(&SimulatedDisk::new(48), empty.address).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(replication(&follower).await.unfenced_leader, address.to_string());
    assert!(!is_fenced(&empty).await);
    other.stop().await;
    empty.stop().await;
    // The leader returns, and is fenced without any request to the promoted follower.
    let leader = lead_at(address, &disk).await;
    until(async || is_fenced(&leader).await).await;
    until(async || replication(&follower).await.unfenced_leader.is_empty()).await;
    refused(leader.positions().await.once(numbered(11, Vec::new())).await, "FENCED");
    // Only the operator undoes it.
    let unfence = v1::UnfenceRequest { fleet: "default".into() };
    refused(logs(&follower).await.unfence(unfence.clone()).await, "NOT_FENCED");
    logs(&leader).await.unfence(unfence.clone()).await.unwrap();
    drive(&leader, &mut Random::new(49), 11, 5).await;
    refused(logs(&leader).await.unfence(unfence).await, "NOT_FENCED");
    leader.stop().await;
    let leader = lead_at(address, &disk).await;
    drive_when_open(&leader, &mut Random::new(50), 16, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replication_needs_the_secret() {
    let leader = lead(&SimulatedDisk::new(54)).await;
    let with = async |secret: Option<&str>| {
        let secret = secret.map(|secret| secret.parse::<Secret>().unwrap());
        LogServiceClient::new(Transport::new(leader.channel().await, None, secret.as_ref()))
    };
    for secret in [None, Some("sixteen-or-more-characterz"), Some("s")] {
        let mut logs = with(secret).await;
        let describe = v1::DescribeLogsRequest {};
        refused(logs.describe_logs(describe).await, "UNAUTHENTICATED");
        let fetch = v1::FetchCheckpointRequest::default();
        refused(logs.fetch_checkpoint(fetch).await, "UNAUTHENTICATED");
        refused(logs.follow(tokio_stream::pending()).await, "UNAUTHENTICATED");
        let promote = v1::PromoteRequest { force: true };
        refused(logs.promote(promote).await, "UNAUTHENTICATED");
        refused(logs.fence(v1::FenceRequest::default()).await, "UNAUTHENTICATED");
        refused(logs.unfence(v1::UnfenceRequest::default()).await, "UNAUTHENTICATED");
    }
    // A server without one takes no part.
    let options = ServerOptions { leader_link: LeaderLink::default(), ..leading(1 << 30) };
    let alone = Running::start_in(on(&SimulatedDisk::new(55)), options).await;
    refused(logs(&alone).await.describe_logs(v1::DescribeLogsRequest {}).await, "NO_REPLICATION");
    let options = ServerOptions { follow: Some("127.0.0.1:7".into()), ..ServerOptions::default() };
    let error = options.check().unwrap_err().to_string();
    assert!(error.contains("--replication-secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_fences_nobody() {
    let leader = lead(&SimulatedDisk::new(51)).await;
    drive(&leader, &mut Random::new(51), 1, 5).await;
    let described = described(&leader).await;
    let forged = v1::LogDescription { term: 12_345, ..described.logs[0].clone() };
    let fence = async |log: v1::LogDescription| {
        let (logs_of, server_id) = (vec![log], described.server_id);
        let request = v1::FenceRequest { logs: logs_of, promotions: Vec::new(), server_id };
        logs(&leader).await.fence(request).await
    };
    // It has never had a follower.
    refused(fence(forged.clone()).await, "NOT_FENCED");
    let follower = follow(&SimulatedDisk::new(52), leader.address).await;
    caught_up(&leader).await;
    // The term that is forged follows none of the leader's.
    let unrelated = v1::LogDescription { ended_terms: Vec::new(), ..forged };
    let answer = fence(unrelated).await.unwrap().into_inner();
    assert_eq!((answer.fenced_count, answer.confirmed.len()), (0, 0));
    drive(&leader, &mut Random::new(53), 6, 5).await;
    drop(follower);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_a_short_name_one_stream_and_true_acknowledgements() {
    let mut options = leading(1 << 30);
    options.limits.followers_max = 2;
    let leader = Running::start_in(on(&SimulatedDisk::new(56)), options).await;
    drive(&leader, &mut Random::new(56), 1, 5).await;
    let fleet_id = described(&leader).await.logs[0].fleet_id.clone();
    let follow = async |name: &str| {
        let (sender, requests) = tokio::sync::mpsc::channel(4);
        let (fleet, follower) = ("default".to_owned(), name.to_owned());
        let fleet_id = fleet_id.clone();
        let start = v1::FollowStart { fleet, fleet_id, follower, ..Default::default() };
        let start = v1::FollowRequest { kind: Some(v1::follow_request::Kind::Start(start)) };
        sender.send(start).await.unwrap();
        let answer = logs(&leader).await.follow(ReceiverStream::new(requests)).await;
        answer.map(|answer| (sender, answer.into_inner()))
    };
    for name in ["", "a b", "\u{e4}", &"x".repeat(65), &"x".repeat(30_000)] {
        refused(follow(name).await, "FIELD");
    }
    let (first, mut messages) = follow("a").await.unwrap();
    let durable = leader.fleet("").await.log.unwrap().durable_epoch;
    let acknowledge =
        |epoch| v1::FollowRequest { kind: Some(v1::follow_request::Kind::DurableEpoch(epoch)) };
    first.send(acknowledge(durable)).await.unwrap();
    until(async || replication(&leader).await.followers[0].durable_epoch == durable).await;
    first.send(acknowledge(u64::MAX)).await.unwrap();
    let end = loop {
        if let Err(status) = within(messages.message()).await {
            break status;
        }
    };
    assert_refused(&end, "FIELD");
    // A name has one stream; a fleet has a limited number of followers.
    let (_second, mut messages) = follow("a").await.unwrap();
    let _third = follow("a").await.unwrap();
    let end = loop {
        if let Err(status) = within(messages.message()).await {
            break status;
        }
    };
    assert_refused(&end, "FOLLOWER_REPLACED");
    let _other = follow("b").await.unwrap();
    refused(follow("c").await, "LIMIT");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_behind_a_checkpoint_stays_while_it_is_fetched() {
    let leader = Running::start_in(on(&SimulatedDisk::new(61)), leading(5_000)).await;
    let (mut random, mut next) = (Random::new(61), 1);
    let mut checkpoint_after = async |epoch| {
        until(async || {
            drive(&leader, &mut random, next, 20).await;
            next += 20;
            leader.fleet("").await.log.unwrap().checkpoint_epoch > epoch
        })
        .await;
        leader.fleet("").await.log.unwrap().checkpoint_epoch
    };
    let epoch = checkpoint_after(0).await;
    let log = described(&leader).await.logs[0].clone();
    let (fleet, fleet_id, follower) = ("default".to_owned(), log.fleet_id, "copies".to_owned());
    let of_fleet = (fleet.clone(), fleet_id.clone());
    for follower in ["", &"x".repeat(65)] {
        let ((fleet, fleet_id), follower) = (of_fleet.clone(), follower.to_owned());
        let fetch = v1::FetchCheckpointRequest { fleet, fleet_id, follower };
        refused(logs(&leader).await.fetch_checkpoint(fetch).await, "FIELD");
    }
    let fetch = v1::FetchCheckpointRequest { fleet, fleet_id, follower: follower.clone() };
    let mut parts = logs(&leader).await.fetch_checkpoint(fetch).await.unwrap().into_inner();
    // Several checkpoints and segments follow before the follower has read it.
    let mut last = epoch;
    for _ in 0..4 {
        last = checkpoint_after(last).await;
    }
    while within(parts.message()).await.unwrap().is_some() {}
    let (fleet, fleet_id) = of_fleet;
    let term = log.term;
    let start = v1::FollowStart { fleet, fleet_id, term, epoch, follower, copying: true };
    let start = v1::FollowRequest { kind: Some(v1::follow_request::Kind::Start(start)) };
    let requests = tokio_stream::once(start).chain(tokio_stream::pending());
    let mut messages = logs(&leader).await.follow(requests).await.unwrap().into_inner();
    let Some(Kind::Verdict(verdict)) = within(messages.message()).await.unwrap().unwrap().kind
    else {
        panic!("no verdict");
    };
    assert_eq!(verdict.state(), v1::FollowState::Continues);
}

#[tokio::test(flavor = "multi_thread")]
async fn staleness_continues_over_a_restart() {
    let (disk, copy) = (SimulatedDisk::new(57), SimulatedDisk::new(58));
    let leader = lead(&disk).await;
    let follower = follow(&copy, leader.address).await;
    drive(&leader, &mut Random::new(57), 1, 5).await;
    caught_up(&leader).await;
    let address = leader.address;
    leader.stop().await;
    let stale_ms = async |server: &Running| replication(server).await.staleness.unwrap().stale_ms;
    until(async || stale_ms(&follower).await > 700).await;
    let before = stale_ms(&follower).await;
    follower.stop().await;
    let follower = follow(&copy, address).await;
    assert!(stale_ms(&follower).await >= before);
    // Until the leader is back.
    let leader = lead_at(address, &disk).await;
    until(async || stale_ms(&follower).await < 700).await;
    drop((leader, follower));
}

/// The names of these fleets alone take more than a message of a fence may have.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_fences_more_fleets_than_a_message_names() {
    let (disk, copy) = (SimulatedDisk::new(46), SimulatedDisk::new(47));
    let leader = lead(&disk).await;
    let names: Vec<String> = (0..220).map(|number| format!("fleet-{number:058}")).collect();
    let mut fleets = leader.fleets().await;
    for name in names.clone() {
        let request = v1::CreateFleetRequest { name, ..Default::default() };
        fleets.create_fleet(request).await.unwrap();
    }
    let follower = follow(&copy, leader.address).await;
    let mut copies = follower.fleets().await;
    for name in names.clone() {
        let copied = v1::GetFleetRequest { name };
        until(async || copies.get_fleet(copied.clone()).await.is_ok()).await;
    }
    promote(&follower, true).await.unwrap();
    for name in &names {
        until(async || {
            leader.fleet(name).await.replication.unwrap().role() == v1::ReplicationRole::Fenced
        })
        .await;
    }
    until(async || !role(&copy).contains("pending")).await;
    follower.stop().await;
    leader.stop().await;
}
