//! Acknowledgements of messages that apply nothing, and of removals.

use shoal_proto::v1;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, objects_in, report, rows, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn only_failed_messages_have_no_epoch_and_token() {
    let server = Running::start().await;
    let term = server.fleet("").await.term;
    let mut client = server.positions().await;
    // The range contains a single message, which fails.
    let acks = report(&mut client, vec![block(vec![1, 2, 3])]).await;
    let ack = &acks[0];
    assert_eq!((ack.epoch, ack.first_epoch, ack.term, ack.failed_messages), (0, 0, 0, 1));
    assert!(ack.token.is_empty());
    // Messages with refused rows only, or without rows, belong to an epoch.
    let refused = rows(vec![fix(u64::MAX, START_MS, 0.0, 0.0)]);
    for message in [refused, rows(Vec::new())] {
        let ack = client.once(message).await.unwrap().into_inner();
        assert!(ack.epoch > 0 && ack.first_epoch == ack.epoch && !ack.token.is_empty());
        assert_eq!((ack.term, ack.rows.unwrap().applied), (term, 0));
        let seen = objects_in(&mut server.queries().await, world(), ack.token).await;
        assert!(seen.is_empty());
    }
    // A duplicate belongs to an epoch that includes the original.
    let numbered = || v1::ReportRequest {
        producer: "p".into(),
        batch_seq: 1,
        ..rows(vec![fix(5, START_MS, 0.0, 0.0)])
    };
    let first = client.once(numbered()).await.unwrap().into_inner();
    let again = client.once(numbered()).await.unwrap().into_inner();
    assert_eq!((again.duplicate_messages, again.term), (1, term));
    assert!(again.epoch >= first.epoch);
    assert_eq!(objects_in(&mut server.queries().await, world(), again.token).await, [5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_counts_a_repeated_id_once() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    client.once(rows(vec![fix(1, START_MS, 0.0, 0.0)])).await.unwrap();
    let request = v1::RemoveRequest { objects: vec![1, 2, 1, 2, 2], ..Default::default() };
    let removed = client.remove(request).await.unwrap().into_inner();
    assert_eq!((removed.removed_count, removed.missing_count), (1, 1));
    assert!(removed.term != 0 && removed.epoch > 0 && !removed.token.is_empty());
}
