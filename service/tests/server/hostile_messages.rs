//! Malformed messages fail alone, in their own acknowledgement.

use bytes::Bytes;
use prost::Message as _;
use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;
use tonic::Code;

use crate::raw_client::report_raw;
use crate::running::{
    ReportsOnce as _, Running, START_MS, detail, fix, objects_in, options, reason, refused, report,
    rows, sums, world,
};

fn good(object: u64) -> v1::ReportRequest {
    rows(vec![fix(object, START_MS, 1.0, 1.0)])
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_fail_alone_and_the_stream_continues() {
    let server = Running::start().await;
    let bad: Vec<(&[u8], &str)> = vec![
        (b"", "FIELD"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "MALFORMED"),
        (b"\x0a\x05ab", "MALFORMED"),
        (b"\x22\x02\x0a\x05", "MALFORMED"),
        (b"\x22\x04\x0a\x02\x09\x00", "MALFORMED"),
        (b"\x0a\x02\xff\xfe", "MALFORMED"),
        (b"\x0a\x03A B\x22\x00", "FLEET_NAME"),
        (b"\x0a\x04none\x22\x00", "FLEET_UNKNOWN"),
    ];
    let mut messages = vec![Bytes::from(good(1).encode_to_vec())];
    for (index, (bytes, _)) in bad.iter().enumerate() {
        messages.push(Bytes::copy_from_slice(bytes));
        messages.push(good(2 + index as u64).encode_to_vec().into());
    }
    let acks = report_raw(server.channel().await, messages).await.unwrap();
    assert_eq!(sums(&acks), (bad.len() as u64 + 1, 0, bad.len() as u64));
    let failed: Vec<_> = acks.iter().flat_map(|ack| &ack.failed).collect();
    for (index, ((_, expected), failed)) in bad.iter().zip(&failed).enumerate() {
        assert_eq!(failed.message, 2 * index as u64 + 2);
        assert_eq!(reason(failed.status.as_ref()), *expected, "{}", detail(failed.status.as_ref()));
        assert_ne!(failed.status.as_ref().unwrap().code, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_message_does_not_affect_others() {
    let server = Running::start().await;
    let whole = v1::ReportRequest {
        fleet: "default".into(),
        producer: "p".into(),
        batch_seq: 1,
        ..rows(vec![v1::Fix { speed_mps: Some(1.0), ..fix(5, START_MS, 1.0, 1.0) }; 3])
    };
    let bytes = Bytes::from(whole.encode_to_vec());
    let cuts = (0..bytes.len()).map(|length| bytes.slice(..length));
    let messages: Vec<Bytes> = cuts.chain([good(1).encode_to_vec().into()]).collect();
    let count = messages.len() as u64;
    let acks = report_raw(server.channel().await, messages).await.unwrap();
    assert_eq!(sums(&acks), (1, 0, count - 1));
    assert_eq!(acks.last().unwrap().last_message, count);
    let objects = objects_in(&mut server.queries().await, world(), Vec::new()).await;
    assert_eq!(objects, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_are_acknowledged_as_failed() {
    let server = Running::start().await;
    let seed = 20_260_101;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let messages: Vec<Bytes> = (0..2000)
        .map(|_| {
            let mut bytes = good(9).encode_to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.word() as u8;
            }
            bytes.into()
        })
        .collect();
    let acks = report_raw(server.channel().await, messages).await.unwrap();
    sums(&acks);
    assert_eq!(acks.last().unwrap().last_message, 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_without_rows_are_acknowledged() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let acks = report(&mut client, vec![rows(Vec::new()), good(1)]).await;
    assert_eq!(sums(&acks), (1, 0, 0));
    let ack = client.once(rows(Vec::new())).await.unwrap().into_inner();
    assert_eq!((ack.first_message, ack.last_message), (1, 1));
    assert!(!ack.token.is_empty());
    refused(client.once(v1::ReportRequest::default()).await, "FIELD");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_64_mib_is_refused_and_others_go_on() {
    let server = Running::start().await;
    let large = v1::ReportRequest {
        payload: Some(v1::report_request::Payload::Block(vec![0; 65 << 20].into())),
        ..v1::ReportRequest::default()
    };
    let mut client = server.positions().await;
    let status = refused(client.once(large.clone()).await, "MESSAGE_TOO_LARGE");
    assert!(status.message().contains("67108864"), "{status:?}");
    let messages = tokio_stream::iter(vec![good(1), large]);
    let mut stream = client.report(messages).await.unwrap().into_inner();
    let mut applied = 0;
    let status = loop {
        match stream.message().await {
            Ok(Some(ack)) => applied += ack.ack.unwrap().rows.unwrap().applied,
            Ok(None) => panic!("the stream ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), applied), (Code::OutOfRange, 1));
    assert_eq!(sums(&report(&mut client, vec![good(2)]).await), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_maximum_size_is_accepted() {
    let limits = ServerLimits { message_rows_max: 2 << 20, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..options() }).await;
    let mut client = server.positions().await;
    // Per row 36 bytes of fix and 2 bytes of framing.
    let count = (63 << 20) / 38;
    let fixes = (0..count).map(|row| fix(row % 1000, START_MS + row as i64, 1.0, 1.0));
    let message = rows(fixes.collect());
    assert!(message.encoded_len() > 62 << 20);
    let ack = client.once(message).await.unwrap().into_inner();
    let counts = ack.rows.unwrap();
    assert_eq!((counts.applied, counts.superseded), (1000, count - 1000));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_and_names_are_refused_with_the_limit() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let objects = vec![1; 65_537];
    let request = v1::RemoveRequest { objects, ..Default::default() };
    let status = refused(client.remove(request).await, "FIELD");
    assert!(status.message().contains("65536"), "{status:?}");
    let request = v1::ReportRequest { producer: "p".repeat(129), ..good(1) };
    refused(client.once(request).await, "FIELD");
    let request = v1::RemoveRequest { producer: "p".repeat(129), ..Default::default() };
    refused(client.remove(request).await, "FIELD");
}
