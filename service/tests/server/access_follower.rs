//! A follower of a leader that asks for tokens, through the rotation of its token, and the fence of
//! a former leader.

use std::fs;

use shoal_client::{Client, ConnectOptions};
use shoal_position_log::SimulatedDisk;
use shoal_proto::v1;
use shoal_service::ServerOptions;
use shoal_service::follower::LeaderLink;

use crate::follower::{ANY, following, leading, on};
use crate::running::{Running, START_MS, fix, replication_secret, until, within};
use crate::token_maker::{ALL, TokenMaker, entry};

async fn client(server: &Running, token: Option<&str>) -> Client {
    let token = token.map(|token| token.parse().unwrap());
    let replication_secret = Some(replication_secret());
    let options = ConnectOptions { token, replication_secret, ..ConnectOptions::default() };
    within(Client::connect(&server.address.to_string(), options)).await.unwrap()
}

async fn report(leader: &Client, object: u64) {
    let fixes = vec![fix(object, START_MS + object as i64, 1.0, 1.0)];
    let payload = Some(v1::report_once_request::Payload::Rows(v1::Rows { fixes }));
    let request = v1::ReportOnceRequest { payload, ..Default::default() };
    leader.report_once(request).await.unwrap();
}

/// Waits until a follower has this number of objects.
async fn has(follower: &Client, objects: u64) {
    until(async || follower.get_fleet("").await.is_ok_and(|fleet| fleet.object_count == objects))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_needs_a_token_and_survives_its_rotation() {
    let root = entry("root", &["*"], ALL, "");
    let tokens = TokenMaker::new(&(root.clone() + &entry("first", &["*"], &["admin"], "")));
    let (disk, copy) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let options = ServerOptions { access: tokens.options(), ..leading(1 << 30) };
    let leader = Running::start_at(ANY, on(&disk), options).await;
    let reporter = client(&leader, Some("root")).await;
    until(async || reporter.get_fleet("").await.is_ok()).await;
    report(&reporter, 1).await;
    fs::write(tokens.path("link"), "first\n").unwrap();
    let leader_link = LeaderLink {
        token_file: Some(tokens.path("link")),
        replication_secret: Some(replication_secret()),
        ..Default::default()
    };
    let options = ServerOptions { leader_link, ..following(leader.address) };
    let follower = Running::start_at(ANY, on(&copy), options).await;
    let reader = client(&follower, None).await;
    has(&reader, 1).await;
    // The old token is withdrawn before the new one is at the follower.
    tokens.set_tokens(&(root + &entry("second", &["*"], &["admin"], "")));
    let old = client(&leader, Some("first")).await;
    until(async || old.list_fleets().await.is_err()).await;
    report(&reporter, 2).await;
    fs::write(tokens.path("link"), "second\n").unwrap();
    has(&reader, 2).await;
    report(&reporter, 3).await;
    has(&reader, 3).await;
    // A promotion fences the leader with the same token.
    assert!(reader.promote(false).await.is_err(), "the leader answers");
    reader.promote(true).await.unwrap();
    until(async || {
        let request = v1::RemoveRequest { objects: vec![1], ..Default::default() };
        let removed = reporter.position_service().remove(request).await;
        removed.is_err_and(|status| status.message().contains("promoted in place"))
    })
    .await;
}
