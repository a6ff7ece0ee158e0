//! Queries with a token include the acknowledged writes; tokens of other terms are refused at once.

use std::time::Duration;

use shoal_proto::v1;
use tonic::{Code, Request};

use crate::gated_engine::Gate;
use crate::running::{
    ReportsOnce as _, Running, START_MS, fix, objects_in, options, refused, report, rows, within,
    world,
};

fn range(min_token: Vec<u8>) -> v1::RangeRequest {
    let options = v1::QueryOptions { min_token, ..v1::QueryOptions::default() };
    v1::RangeRequest { options: Some(options), region: Some(world()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_with_a_token_includes_the_write() {
    let server = Running::start().await;
    let mut positions = server.positions().await;
    let mut queries = server.queries().await;
    for object in 1..=50 {
        let message = rows(vec![fix(object, START_MS, 0.0, 0.0)]);
        let ack = positions.once(message).await.unwrap().into_inner();
        let objects = objects_in(&mut queries, world(), ack.token).await;
        assert_eq!(objects, (1..=object).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_earlier_term_is_refused_at_once() {
    let server = Running::start().await;
    let mut positions = server.positions().await;
    let message = rows(vec![fix(1, START_MS, 0.0, 0.0)]);
    let token = positions.once(message).await.unwrap().into_inner().token;
    server.stop().await;
    let server = Running::start().await;
    refused(server.queries().await.range(range(token)).await, "TOKEN_TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_forged_tokens_are_refused() {
    let server = Running::start().await;
    let request = v1::CreateFleetRequest { name: "other".into(), ..Default::default() };
    let fleet =
        server.fleets().await.create_fleet(request).await.unwrap().into_inner().fleet.unwrap();
    let mut queries = server.queries().await;
    let foreign = shoal_service::fleet::Token::new(fleet.term, 0).to_bytes();
    refused(queries.range(range(foreign)).await, "TOKEN_TERM");
    for bytes in [vec![1], vec![9; 17], vec![0; 2000], b"token".to_vec()] {
        refused(queries.range(range(bytes)).await, "TOKEN");
    }
    // The server must not wait for a forged epoch.
    let own = server.fleet("").await;
    let early = shoal_service::fleet::Token::new(own.term, u64::MAX).to_bytes();
    refused(queries.range(range(early)).await, "TOKEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_states_fleet_term_and_epoch() {
    let server = Running::start().await;
    let message = rows(vec![fix(1, START_MS + 77, 0.0, 0.0)]);
    let acks = report(&mut server.positions().await, vec![message]).await;
    let answer = server.queries().await.range(range(acks[0].token.clone())).await.unwrap();
    let header = crate::running::whole(answer.into_inner()).await.unwrap().header;
    let fleet = server.fleet("").await;
    assert_eq!((header.fleet.as_str(), header.term), ("default", fleet.term));
    assert!(header.epoch > acks[0].epoch && header.epoch <= fleet.epoch);
    assert_eq!((header.clock_ms, header.total), (START_MS + 77, 1));
    assert_eq!(fleet.clock_ms, START_MS + 77);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_enforced_while_the_engine_is_busy() {
    let (gate, server) = Gate::start(options()).await;
    gate.shut();
    let mut queries = server.queries().await;
    let mut request = Request::new(range(Vec::new()));
    // The header alone: the tonic client would enforce the deadline locally.
    request.metadata_mut().insert("grpc-timeout", "200m".parse().unwrap());
    refused(within(queries.range(request)).await, "DEADLINE");
    let mut request = Request::new(rows(vec![fix(1, START_MS, 0.0, 0.0)]));
    request.set_timeout(Duration::from_millis(100));
    let status = within(server.positions().await.once(request)).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    gate.open();
}
