//! A message that was sent before is not applied again, whatever happened to the connection.

use shoal_proto::v1;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, objects_in, report, rows, sums, within, world,
};

/// Message `batch_seq` of a producer: removing what it brings shows whether it was applied again.
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
    // Had the resend been applied, the objects would be back.
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
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_that_race_on_many_streams_are_applied_once() {
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
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_message_may_be_sent_again_with_its_number() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let broken = v1::ReportRequest { producer: "p".into(), batch_seq: 1, ..block(vec![1, 2, 3]) };
    let acks = report(&mut client, vec![broken, numbered("p", 1, 5)]).await;
    assert_eq!(sums(&acks), (1, 0, 1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removals_share_the_numbers_of_their_producer() {
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
    // Another producer has numbers of its own.
    let ack = client.once(numbered("q", 1, 5)).await.unwrap().into_inner();
    assert_eq!(ack.rows.unwrap().applied, 1);
    server.stop().await;
}
