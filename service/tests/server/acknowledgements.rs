//! What an acknowledgement states of messages that applied nothing, and of several fleets.

use shoal_proto::v1;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, objects_in, report, rows, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_has_no_state_and_every_other_has_one() {
    let server = Running::start().await;
    let term = server.fleet("").await.term;
    let mut client = server.positions().await;
    // The only message of its range, and it failed.
    let acks = report(&mut client, vec![block(vec![1, 2, 3])]).await;
    let ack = &acks[0];
    assert_eq!((ack.epoch, ack.first_epoch, ack.term, ack.failed_messages), (0, 0, 0, 1));
    assert!(ack.token.is_empty());
    // Rows that are all refused, and no rows at all, take part in an epoch.
    let refused = rows(vec![fix(u64::MAX, START_MS, 0.0, 0.0)]);
    for message in [refused, rows(Vec::new())] {
        let ack = client.once(message).await.unwrap().into_inner();
        assert!(ack.epoch > 0 && ack.first_epoch == ack.epoch && !ack.token.is_empty());
        assert_eq!((ack.term, ack.rows.unwrap().applied), (term, 0));
        let seen = objects_in(&mut server.queries().await, world(), ack.token).await;
        assert!(seen.is_empty());
    }
    // So does a duplicate: its epoch shows the original.
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
