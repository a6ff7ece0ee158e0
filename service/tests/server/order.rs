//! Fixes of an object are ordered by time, then arrival, across messages and streams.

use shoal_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::running::{
    ReportsOnce as _, Running, START_MS, fix, objects_in, rectangle, report, rows, sums, within,
    world,
};

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_ids_in_a_message_leave_the_newest() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let message = rows(vec![
        fix(1, START_MS + 5, 1.0, 1.0),
        fix(1, START_MS + 9, 2.0, 2.0),
        fix(1, START_MS + 9, 3.0, 3.0),
        fix(1, START_MS, 4.0, 4.0),
    ]);
    let acks = report(&mut client, vec![message]).await;
    let counts = acks[0].rows.unwrap();
    assert_eq!((counts.applied, counts.superseded, counts.late), (1, 3, 0));
    let at_last = rectangle(3.0, 3.0, 3.0, 3.0);
    let mut queries = server.queries().await;
    assert_eq!(objects_in(&mut queries, at_last, acks[0].token.clone()).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_on_two_streams_keeps_its_newest_fix() {
    let server = Running::start().await;
    let mut tasks = Vec::new();
    for stream in 0..2_i64 {
        let mut client = server.positions().await;
        tasks.push(tokio::spawn(async move {
            // Even times on one stream, odd times on the other; y encodes the time.
            let times = (0..500_i64).map(|step| 2 * step + stream);
            let messages =
                times.map(|time| rows(vec![fix(1, START_MS + time, 0.0, time as f64 / 100.0)]));
            report(&mut client, messages.collect()).await
        }));
    }
    let mut settled = 0;
    let mut token = Vec::new();
    for task in tasks {
        for ack in within(task).await.unwrap() {
            let counts = ack.rows.unwrap();
            settled += counts.applied + counts.superseded + counts.late;
            token = ack.token;
        }
    }
    assert_eq!(settled, 1000);
    let newest = rectangle(0.0, 9.99, 0.0, 9.99);
    assert_eq!(objects_in(&mut server.queries().await, newest, token).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_and_identical_fixes_are_counted() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let newest = || rows(vec![fix(1, START_MS + 9, 1.0, 1.0)]);
    client.once(newest()).await.unwrap();
    let ack = client.once(rows(vec![fix(1, START_MS, 2.0, 2.0)])).await.unwrap();
    assert_eq!(ack.into_inner().rows.unwrap().late, 1);
    let ack = client.once(newest()).await.unwrap();
    assert_eq!(ack.into_inner().rows.unwrap().duplicate, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_applies_on_arrival_and_leaves_no_tombstone() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    client.once(rows(vec![fix(1, START_MS + 9, 1.0, 1.0)])).await.unwrap();
    let request = v1::RemoveRequest { objects: vec![1, 2], ..Default::default() };
    let removed = client.remove(request).await.unwrap().into_inner();
    assert_eq!((removed.removed_count, removed.missing_count, removed.duplicate), (1, 1, false));
    let mut queries = server.queries().await;
    assert!(objects_in(&mut queries, world(), removed.token).await.is_empty());
    // An older fix creates the object again.
    let ack = client.once(rows(vec![fix(1, START_MS, 1.0, 1.0)])).await.unwrap();
    assert_eq!(objects_in(&mut queries, world(), ack.into_inner().token).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_follow_the_messages_while_the_stream_is_open() {
    let server = Running::start().await;
    let (sender, receiver) = mpsc::channel(4);
    let mut client = server.positions().await;
    let stream = client.report(ReceiverStream::new(receiver)).await.unwrap();
    let mut acks = stream.into_inner();
    for message in 1..=20_u64 {
        sender.send(rows(vec![fix(message, START_MS, 0.0, 0.0)])).await.unwrap();
        let ack = within(acks.message()).await.unwrap().unwrap().ack.unwrap();
        assert_eq!((ack.first_message, ack.last_message), (message, message));
        assert_eq!(sums(&[ack]), (1, 0, 0));
    }
    drop(sender);
    assert!(within(acks.message()).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_reports_to_several_fleets() {
    let server = Running::start().await;
    let clock = v1::Clock::Event.into();
    let request = v1::CreateFleetRequest { name: "other".into(), clock, ..Default::default() };
    server.fleets().await.create_fleet(request).await.unwrap();
    let messages = (0..100).map(|message| {
        let fleet = if message % 2 == 0 { "" } else { "other" };
        let fixes = vec![fix(message, START_MS, 0.0, 0.0)];
        v1::ReportRequest { fleet: fleet.into(), ..rows(fixes) }
    });
    let acks = report(&mut server.positions().await, messages.collect()).await;
    assert_eq!(sums(&acks), (100, 0, 0));
    let mut queries = server.queries().await;
    let min_token = acks.last().unwrap().token.clone();
    let even: Vec<u64> = (0..100).filter(|object| object % 2 == 0).collect();
    // The last message is for the other fleet; its token covers that fleet only.
    assert_eq!(objects_in(&mut queries, world(), Vec::new()).await, even);
    let options = v1::QueryOptions { fleet: "other".into(), min_token, ..Default::default() };
    let request = v1::RangeRequest { options: Some(options), region: Some(world()) };
    let answer = queries.range(request).await.unwrap().into_inner();
    assert_eq!(crate::running::whole(answer).await.unwrap().header.total, 50);
}
