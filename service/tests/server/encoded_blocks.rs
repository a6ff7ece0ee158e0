//! Encoded blocks have the effect of their rows, are validated row by row, and fail atomically.

use bytes::Bytes;
use shoal_client::{BlockEncoder, EncodedBlock};
use shoal_codec::limits::BLOCK_ROWS_MAX;
use shoal_codec::{Block, Budget, Chunk, Column, Encoding, PlanChoice};
use shoal_proto::v1;
use shoal_testkit::Random;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, detail, fix, objects_in, reason, refused, report,
    rows, sums, whole, world,
};

/// A message of moving objects; one row in fifty is invalid.
fn message(random: &mut Random, round: i64) -> Vec<v1::Fix> {
    let row = |row: i64| {
        let object = random.below(400);
        let x = object as f64 / 10.0 + (round + row / 500) as f64 * 1e-4;
        let good = fix(object, START_MS + round * 1_000 + row, x, -x);
        match random.below(100) {
            0 => v1::Fix { object: u64::MAX, ..good },
            1 => v1::Fix { speed_mps: Some(-1.0), ..good },
            _ => v1::Fix { speed_mps: Some((object % 30) as f32), ..good },
        }
    };
    (0..1_500).map(row).collect()
}

/// Each message as one block.
fn blocks(messages: &[Vec<v1::Fix>], plans: PlanChoice) -> Vec<Bytes> {
    let mut encoder = BlockEncoder::new(None, plans);
    let mut encode = |fixes: &Vec<v1::Fix>| {
        let [EncodedBlock { rows, block, .. }] = encoder.encode(fixes).unwrap().try_into().unwrap();
        assert_eq!(rows, fixes.len());
        block
    };
    messages.iter().map(&mut encode).collect()
}

/// Sends messages to a fresh server; returns the acknowledgements and all stored records.
async fn acks_and_records(
    messages: impl IntoIterator<Item = v1::ReportRequest>,
) -> (Vec<v1::ReportAck>, Vec<v1::FixRecord>) {
    let server = Running::start().await;
    let (mut client, mut acks) = (server.positions().await, Vec::new());
    for message in messages {
        // One message per cycle: superseded rows depend on cycle boundaries.
        acks.push(client.once(message).await.unwrap().into_inner());
    }
    let min_token = acks.last().unwrap().token.clone();
    let projection = v1::Projection::Fixes.into();
    let options = Some(v1::QueryOptions { min_token, projection, ..Default::default() });
    let request = v1::RangeRequest { options, region: Some(world()) };
    let stream = server.queries().await.range(request).await.unwrap().into_inner();
    let held = whole(stream).await.unwrap().fixes;
    server.stop().await;
    for ack in &mut acks {
        // Term and epochs differ between servers.
        (ack.token, ack.term, ack.epoch, ack.first_epoch) = (Vec::new(), 0, 0, 0);
    }
    (acks, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_blocks_of_every_plan_produce_the_same_acks_and_records() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let messages: Vec<_> = (0..12).map(|round| message(&mut random, round)).collect();
    let (acks, held) = acks_and_records(messages.iter().cloned().map(rows)).await;
    assert!(held.len() > 350 && acks.iter().all(|ack| ack.refused_rows.len() > 5));
    let mut bytes = Vec::new();
    for plans in PlanChoice::ALL {
        let blocks = blocks(&messages, plans);
        bytes.push(blocks.iter().map(Bytes::len).sum::<usize>());
        let answers = acks_and_records(blocks.into_iter().map(|bytes| block(bytes.into()))).await;
        assert_eq!(answers.0, acks, "{plans}");
        assert_eq!(answers.1, held, "{plans}");
    }
    let [raw, fixes, planned] = bytes[..] else { panic!("three plans") };
    assert!(fixes * 2 < raw && planned <= fixes, "{bytes:?}");
}

/// A planned block of 3,000 rows of 400 objects.
fn planned() -> Vec<u8> {
    let row = |row: i64| fix(row as u64 % 400, START_MS + row, row as f64 * 1e-4, 5.0);
    let fixes: Vec<_> = (0..3_000).map(row).collect();
    blocks(&[fixes], PlanChoice::Fixes).remove(0).into()
}

/// Changes one byte of a column section and recomputes all checksums (offsets from FORMAT.md,
/// sections 2 to 4).
fn damaged(whole: &[u8], column: Column, section: usize, at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let block = Block::parse(bytes.clone().into(), &Budget::default()).unwrap();
    let place = block.columns().position(|(stored, _)| stored == column).unwrap();
    let entry_bytes = |chunk: &Chunk| 24 + 24 * chunk.plan.nodes().len() + 8 * chunk.sections.len();
    let entry = 128 + block.chunks()[..place].iter().map(entry_bytes).sum::<usize>();
    let chunk = &block.chunks()[place];
    assert_ne!(bytes[chunk.sections[section].start + at], byte);
    bytes[chunk.sections[section].start + at] = byte;
    let directory_bytes = u32::from_le_bytes(*bytes[24..].first_chunk().unwrap()) as usize;
    let crcs =
        [(entry + 20, chunk.payload.clone()), (28, 128..128 + directory_bytes), (124, 0..124)];
    for (at, covered) in crcs {
        let crc = crc32c::crc32c(&bytes[covered]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// A block with an error that only row decoding detects: a wrong tile length in the time column.
pub(crate) fn corrupt_block() -> Vec<u8> {
    damaged(&planned(), Column::Time, 3, 8 + 4, 9)
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_fail_during_decoding_have_no_effect() {
    let whole = planned();
    let parsed = Block::parse(whole.clone().into(), &Budget::default()).unwrap();
    let encodings: Vec<_> =
        parsed.chunks().iter().map(|chunk| chunk.plan.nodes()[0].encoding).collect();
    let [object, time, keyed] = [Encoding::Dict, Encoding::Delta, Encoding::KeyedDelta2];
    assert_eq!(encodings, [object, time, keyed, keyed], "the offsets below belong to this plan");
    // Sections: dict: entries, then those of patch(afl); delta: bases, patch(afl); keyed_delta2:
    // heads, patch(afl), scale(afl). patch(afl): directory, words, directory, words.
    let cases = [
        (damaged(&whole, Column::Object, 3, 6, 77), "tile 0 has a width of"),
        (damaged(&whole, Column::Time, 3, 8 + 4, 9), "tile 1 has 1033 values"),
        (damaged(&whole, Column::X, 0, 4, 1), "tiles count"),
        (damaged(&whole, Column::Y, 1, 16 + 7, 1), "tile 2 has 0 exceptions"),
        (damaged(&whole, Column::Y, 3, 0, 3), "tile 0"),
    ];
    let server = Running::start().await;
    let mut messages = vec![rows(vec![fix(1_000, START_MS, 1.0, 1.0)])];
    messages.extend(cases.iter().map(|(bytes, _)| block(bytes.clone())));
    messages.push(rows(vec![fix(1_001, START_MS, 1.0, 1.0)]));
    let acks = report(&mut server.positions().await, messages).await;
    assert_eq!(sums(&acks), (2, 0, cases.len() as u64));
    let failed: Vec<_> = acks.iter().flat_map(|ack| &ack.failed).collect();
    for (failed, (_, expected)) in failed.iter().zip(&cases) {
        assert_eq!(reason(failed.status.as_ref()), "BLOCK");
        assert!(
            detail(failed.status.as_ref()).contains(expected),
            "{expected}: {}",
            detail(failed.status.as_ref())
        );
        assert!(
            detail(failed.status.as_ref()).contains("chunk")
                && detail(failed.status.as_ref()).contains("byte")
        );
    }
    let token = acks.last().unwrap().token.clone();
    let held = objects_in(&mut server.queries().await, world(), token).await;
    assert_eq!(held, [1_000, 1_001]);
    // Refused blocks do not affect later messages.
    let acks = report(&mut server.positions().await, vec![block(whole)]).await;
    assert_eq!((sums(&acks).1, sums(&acks).2), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flipped_bit_of_header_and_directory_is_detected() {
    let whole = planned();
    let directory_bytes = u32::from_le_bytes(*whole[24..].first_chunk().unwrap()) as usize;
    let bits = 0..8 * (128 + directory_bytes);
    let flipped = |bit: usize| {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        block(bytes)
    };
    let server = Running::start().await;
    let messages: Vec<_> = bits.map(flipped).collect();
    let count = messages.len() as u64;
    let acks = report(&mut server.positions().await, messages).await;
    assert_eq!(sums(&acks), (0, 0, count));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_count_above_the_limit_is_refused_before_decoding() {
    let server = Running::start().await;
    let mut bytes = planned();
    let rows = BLOCK_ROWS_MAX + 1;
    bytes[80..84].copy_from_slice(&rows.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    let status = refused(server.positions().await.once(block(bytes)).await, "BLOCK");
    let (found, limit) = (rows.to_string(), BLOCK_ROWS_MAX.to_string());
    assert!(status.message().contains(&found) && status.message().contains(&limit), "{status:?}");
}
