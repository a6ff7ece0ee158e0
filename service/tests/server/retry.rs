//! A resent message is not applied twice, also after a broken connection.

use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};
use tonic_types::StatusExt as _;

use crate::encoded_blocks::corrupt_block;
use crate::gated_engine::Gate;
use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, objects_in, options, reason, refused, report,
    rows, sums, until, within, world,
};

/// Message `batch_seq` of a producer; after removal of its objects, a second application is
/// visible.
fn numbered(producer: &str, batch_seq: u64, object: u64) -> v1::ReportRequest {
    let producer = producer.into();
    v1::ReportRequest { producer, batch_seq, ..rows(vec![fix(object, START_MS, 0.0, 0.0)]) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_after_reconnecting_is_a_duplicate_with_a_token() {
    let server = Running::start().await;
    let messages = || (1..=10).map(|seq| numbered("p", seq, seq)).collect::<Vec<_>>();
    let acks = report(&mut server.positions().await, messages()).await;
    assert_eq!(sums(&acks), (10, 0, 0));
    // A second application would create the objects again.
    let mut client = server.positions().await;
    let objects = (1..=10).collect();
    client.remove(v1::RemoveRequest { objects, ..Default::default() }).await.unwrap();
    let mut resent = messages();
    resent.push(numbered("p", 11, 11));
    let acks = report(&mut server.positions().await, resent).await;
    assert_eq!(sums(&acks), (1, 0, 0));
    assert_eq!(acks.iter().map(|ack| ack.duplicate_messages).sum::<u64>(), 10);
    assert!(acks.iter().all(|ack| !ack.token.is_empty()));
    let token = acks.last().unwrap().token.clone();
    assert_eq!(objects_in(&mut server.queries().await, world(), token).await, [11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_resends_on_many_streams_are_applied_once() {
    let server = Running::start().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let mut client = server.positions().await;
        let messages: Vec<_> = (1..=200).map(|seq| numbered("p", seq, seq)).collect();
        tasks.push(tokio::spawn(async move { report(&mut client, messages).await }));
    }
    let (mut applied, mut duplicates) = (0, 0);
    for task in tasks {
        let acks = within(task).await.unwrap();
        applied += sums(&acks).0;
        duplicates += acks.iter().map(|ack| ack.duplicate_messages).sum::<u64>();
    }
    assert_eq!((applied, duplicates), (200, 1400));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_can_be_resent_with_its_number() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let broken = v1::ReportRequest { producer: "p".into(), batch_seq: 1, ..block(vec![1, 2, 3]) };
    let acks = report(&mut client, vec![broken, numbered("p", 1, 5)]).await;
    assert_eq!(sums(&acks), (1, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn removals_share_the_batch_numbers_of_their_producer() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    client.once(numbered("p", 1, 5)).await.unwrap();
    let remove = |batch_seq| {
        let producer = "p".into();
        v1::RemoveRequest { objects: vec![5], producer, batch_seq, ..Default::default() }
    };
    let again = client.remove(remove(1)).await.unwrap().into_inner();
    assert_eq!((again.duplicate, again.removed_count), (true, 0));
    let fresh = client.remove(remove(2)).await.unwrap().into_inner();
    assert_eq!((fresh.duplicate, fresh.removed_count), (false, 1));
    let ack = client.once(numbered("p", 2, 5)).await.unwrap().into_inner();
    assert_eq!((ack.duplicate_messages, ack.rows.unwrap().applied), (1, 0));
    // Another producer has a separate sequence.
    let ack = client.once(numbered("q", 1, 5)).await.unwrap().into_inner();
    assert_eq!(ack.rows.unwrap().applied, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn producer_and_batch_number_require_each_other() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    refused(client.once(numbered("p", 0, 1)).await, "FIELD");
    refused(client.once(numbered("", 1, 1)).await, "FIELD");
    let remove = v1::RemoveRequest { producer: "p".into(), ..Default::default() };
    refused(client.remove(remove).await, "FIELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skipped_number_fails_and_names_the_expected_one() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let acks = report(&mut client, (1..=7).map(|seq| numbered("p", seq, seq)).collect()).await;
    assert_eq!(sums(&acks), (7, 0, 0));
    // 9 before 8: 9 fails, then 8 and 9 are applied.
    let status = refused(client.once(numbered("p", 9, 9)).await, "OUT_OF_ORDER");
    let expected = |status: &tonic::Status| {
        status.get_error_details().error_info().unwrap().metadata["expected"].clone()
    };
    assert_eq!(expected(&status), "8");
    let acks = report(&mut client, vec![numbered("p", 8, 8), numbered("p", 9, 9)]).await;
    assert_eq!(sums(&acks), (2, 0, 0));
    // On a stream, the message fails alone.
    let acks = report(&mut client, vec![numbered("p", 11, 11), numbered("p", 10, 10)]).await;
    assert_eq!(sums(&acks), (1, 0, 1));
    let failed = acks.iter().find_map(|ack| ack.failed.first()).unwrap();
    assert_eq!(reason(failed.status.as_ref()), "OUT_OF_ORDER");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_fails_on_arrival_remains_next() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    client.once(numbered("p", 1, 1)).await.unwrap();
    let broken = v1::ReportRequest { producer: "p".into(), batch_seq: 2, ..block(vec![1, 2]) };
    refused(client.once(broken).await, "BLOCK");
    refused(client.once(numbered("p", 3, 3)).await, "OUT_OF_ORDER");
    for batch_seq in [2, 3] {
        let ack = client.once(numbered("p", batch_seq, batch_seq)).await.unwrap().into_inner();
        assert_eq!((ack.rows.unwrap().applied, ack.duplicate_messages), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_fails_before_applied_later_ones_remains_open() {
    let (gate, server) = Gate::start(options()).await;
    // The engine is blocked: all three are accepted before the first is decoded.
    gate.shut();
    let mut client = server.positions().await;
    let first = tokio::spawn({
        let mut client = client.clone();
        async move { client.once(rows(Vec::new())).await }
    });
    until(async || gate.is_stopping_one()).await;
    let broken = v1::ReportRequest { producer: "p".into(), batch_seq: 1, ..block(corrupt_block()) };
    let messages = vec![broken, numbered("p", 2, 2), numbered("p", 3, 3)];
    let acking = tokio::spawn({
        let mut client = client.clone();
        async move { report(&mut client, messages).await }
    });
    let queued = r#"shoal_queue_messages{fleet="default"}"#;
    until(async || server.metric(queued).await == 4.0).await;
    gate.open();
    within(first).await.unwrap().unwrap();
    let acks = within(acking).await.unwrap();
    assert_eq!(sums(&acks), (2, 0, 1));
    let failed = acks.iter().find_map(|ack| ack.failed.first()).unwrap();
    assert_eq!((failed.message, reason(failed.status.as_ref())), (1, "BLOCK".to_owned()));
    // Later numbers are accepted, and the open number can be resent once.
    for (batch_seq, duplicates) in [(4, 0), (1, 0), (1, 1), (2, 1)] {
        let ack = client.once(numbered("p", batch_seq, batch_seq)).await.unwrap().into_inner();
        assert_eq!(ack.duplicate_messages, duplicates, "number {batch_seq}");
    }
    let held = objects_in(&mut server.queries().await, world(), Vec::new()).await;
    assert_eq!(held, [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_producer_is_reported_as_unknown() {
    let limits = ServerLimits { producers_max: 2, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..options() }).await;
    let mut client = server.positions().await;
    let messages = vec![numbered("a", 1, 1), numbered("a", 2, 2), numbered("b", 1, 3)];
    report(&mut client, messages).await;
    client.once(numbered("c", 1, 4)).await.unwrap();
    // "a" was idle for the longest: its old number must not be applied again.
    let status = refused(client.once(numbered("a", 2, 2)).await, "PRODUCER_UNKNOWN");
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["expected"], "1");
    let ack = client.once(numbered("b", 1, 3)).await.unwrap().into_inner();
    assert_eq!(ack.duplicate_messages, 1);
}
