//! Inconsistent blocks fail alone: none of their rows is applied and other messages are unaffected.

use shoal_codec::{BlockCodec as _, CpuCodec, FixColumns, FixRow};
use shoal_engine::Space;
use shoal_proto::v1;
use shoal_service::{ServerLimits, ServerOptions};
use shoal_testkit::Random;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, fix, objects_in, options, reason, refused, report,
    rows, sums, world,
};

/// A valid block of `count` objects.
fn encoded(space: &Space, count: u64) -> Vec<u8> {
    let mut columns = FixColumns::new();
    for object in 0..count {
        columns.push_row(FixRow::new(object, START_MS, object as i32, 5));
    }
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &space.tag(), 1, &mut bytes).unwrap();
    bytes
}

fn marker(object: u64) -> v1::ReportRequest {
    rows(vec![fix(object, START_MS, 1.0, 1.0)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_block_is_applied_like_rows() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let acks = report(&mut client, vec![block(encoded(&Space::geographic(), 100))]).await;
    assert_eq!(sums(&acks), (100, 0, 0));
    let mut queries = server.queries().await;
    let objects = objects_in(&mut queries, world(), acks[0].token.clone()).await;
    assert_eq!(objects, (0..100).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_block_are_validated_one_by_one() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let mut columns = FixColumns::new();
    columns.push_row(FixRow::new(1, START_MS, 0, 0));
    columns.push_row(FixRow::new(2, START_MS, 2_000_000_000, 0));
    columns.push_row(FixRow::new(u64::MAX, START_MS, 0, 0));
    let mut bytes = Vec::new();
    CpuCodec.encode(&columns, &Space::geographic().tag(), 1, &mut bytes).unwrap();
    let acks = report(&mut client, vec![block(bytes)]).await;
    assert_eq!(sums(&acks), (1, 2, 0));
    let listed: Vec<_> =
        acks[0].refused_rows.iter().map(|row| (row.row, row.field.as_str())).collect();
    assert_eq!(listed, [(1, "block"), (2, "object")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_truncated_at_any_length_fail_alone() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let whole = encoded(&Space::geographic(), 3);
    let mut messages: Vec<_> =
        (0..whole.len()).map(|length| block(whole[..length].to_vec())).collect();
    let count = messages.len() as u64;
    messages.push(marker(77));
    let acks = report(&mut client, messages).await;
    assert_eq!(sums(&acks), (1, 0, count));
    let mut queries = server.queries().await;
    let objects = objects_in(&mut queries, world(), acks.last().unwrap().token.clone()).await;
    assert_eq!(objects, [77]);
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bits_are_detected() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let whole = encoded(&Space::geographic(), 50);
    let seed = 7;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let messages: Vec<_> = (0..500)
        .map(|_| {
            let mut bytes = whole.clone();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
            block(bytes)
        })
        .collect();
    let acks = report(&mut client, messages).await;
    assert_eq!(sums(&acks), (0, 0, 500));
    let reasons = acks
        .iter()
        .flat_map(|ack| &ack.failed)
        .all(|failed| reason(failed.status.as_ref()) == "BLOCK");
    assert!(reasons);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_too_many_rows_fails_alone() {
    let limits = ServerLimits { message_rows_max: 4_096, ..ServerLimits::default() };
    let server = Running::start_with(ServerOptions { limits, ..options() }).await;
    let mut client = server.positions().await;
    let many = rows((0..4_097).map(|object| fix(object, START_MS, 1.0, 1.0)).collect());
    for (object, message) in [(7, many), (8, block(encoded(&Space::geographic(), 4_097)))] {
        let acks = report(&mut client, vec![message.clone(), marker(object)]).await;
        assert_eq!(sums(&acks), (1, 0, 1));
        let status = refused(client.once(message).await, "LIMIT");
        assert!(status.message().contains("message_rows_max"), "{status:?}");
    }
    let most = block(encoded(&Space::geographic(), 4_096));
    assert_eq!(sums(&report(&mut client, vec![most]).await), (4_096, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_row_count_in_a_tiny_block_allocates_nothing() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let mut bytes = encoded(&Space::geographic(), 3);
    // The row count (FORMAT.md, section 2), with a valid checksum.
    bytes[80..84].copy_from_slice(&1_000_000_000_u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    let status = refused(client.once(block(bytes)).await, "BLOCK");
    assert!(status.message().contains("1000000000"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_another_space_is_refused() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let planar = Space::planar(1000.0, 1000.0, 0.01).unwrap();
    let acks = report(&mut client, vec![block(encoded(&planar, 3)), marker(1)]).await;
    assert_eq!(sums(&acks), (1, 0, 1));
    let failed = &acks.iter().find(|ack| ack.failed_messages > 0).unwrap().failed[0];
    assert_eq!((failed.message, reason(failed.status.as_ref()).as_str()), (1, "SPACE_MISMATCH"));
    refused(client.once(block(encoded(&planar, 3))).await, "SPACE_MISMATCH");
}
