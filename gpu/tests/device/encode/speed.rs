//! Prints the encode rates of columns in device memory, and asserts that the encoded size equals
//! the CPU's.

use shoal_codec::assemble::ChunkShape;
use shoal_codec::{BlockPlan, Column, Grouping, Keys, Tree, Values, encode_column};
use shoal_testkit::Random;

use super::column::encoder;
use crate::sample::{bytes_of, tree};

/// 64 MiB of u32.
const ROWS: usize = 16 << 20;
const ROUNDS: usize = 5;
const TEXT_TREES: [&str; 6] = [
    "stateless.16.16",
    "lzw.4(afl)",
    "lzw.16(afl)",
    "lzw.64(afl)",
    "lzw.256(afl)",
    "lzw.64(huffman)",
];

/// Size in bytes of the chunk that the CPU encodes from a column.
fn bytes_on_the_cpu(values: &Values, tree: &Tree, grouping: &Grouping) -> usize {
    let keys = tree.is_keyed().then_some(Keys { grouping, column: 1 });
    let expected = encode_column(values, tree, keys).unwrap();
    let lengths = expected.sections.iter().map(|section| section.len() as u64).collect();
    ChunkShape::new(expected.plan.nodes().to_vec(), lengths).unwrap().bytes()
}

#[test]
#[ignore = "needs an NVIDIA GPU, and measures"]
fn encoding_resident_columns() {
    let rows = std::env::var("SHOAL_TEST_ROWS").map_or(ROWS, |rows| rows.parse().unwrap());
    let mut chance = Random::new(81);
    let mut encoder = encoder();
    let objects: Vec<u64> = (0..rows).map(|_| chance.word() % 5000).collect();
    let mut at = 1_u32 << 20;
    let mut walk = |_: usize| {
        let far = if chance.below(100) == 0 { 1 << 14 } else { 0 };
        at = at.wrapping_add((chance.word() % 200) as u32 + far);
        at
    };
    let walk = Values::U32((0..rows).map(&mut walk).collect());
    let small = Values::U32((0..rows).map(|_| (chance.word() % 1000) as u32).collect());
    let wide = Values::U64((0..rows / 2).map(|_| chance.word() % 1_000_000).collect());
    let bytes = Values::U8(
        (0..4 * rows).map(|_| (chance.word() % 7 * (chance.word() % 11)) as u8).collect(),
    );
    let grouping = Grouping::new(&objects);
    let keyed = || tree("keyed_delta2.z(patch(afl), scale(afl))");
    let ids = BlockPlan::fixes().tree(Column::Object).clone();
    let cases = [
        ("raw", &small, Tree::Raw, 1),
        ("afl", &small, Tree::Afl, 1),
        ("afl, 64 bits", &wide, Tree::Afl, 1),
        ("scale+afl", &walk, tree("scale(afl)"), 1),
        ("delta+afl", &walk, tree("delta.z(afl)"), 1),
        ("delta+patch+afl", &walk, tree("delta.z(patch(afl))"), 1),
        ("keyed, grouping included", &walk, keyed(), 1),
        ("five keyed, grouping included", &walk, keyed(), 5),
        ("keyed, keys far apart, grouping included", &walk, keyed(), 1),
        ("dict+patch+afl", &small, ids, 1),
        ("delta+huffman", &walk, tree("delta.z(huffman)"), 1),
        ("huffman, bytes", &bytes, Tree::Huffman, 1),
    ];
    let far = objects.iter().map(|object| object * 1_000_003).collect();
    let near = encoder.upload(&Values::U64(objects)).unwrap();
    let far = encoder.upload(&Values::U64(far)).unwrap();
    for (name, values, tree, times) in cases {
        let resident = encoder.upload(values).unwrap();
        let expected = bytes_on_the_cpu(values, &tree, &grouping);
        let key = if name.contains("far apart") { &far } else { &near };
        let key = tree.is_keyed().then_some(key);
        let columns = vec![(&resident, &tree); times];
        let mut best_ms = f64::MAX;
        for _ in 0..ROUNDS {
            let encoded = encoder.encode_resident(&columns, key).unwrap();
            assert_eq!(encoded.encoded_bytes, vec![expected; times], "{name}");
            best_ms = best_ms.min(encoded.device_ms);
        }
        let bytes = times * values.len() * values.value_type().width_bytes();
        let rate = bytes as f64 / best_ms / 1e6;
        println!("{name}: {bytes} bytes to {expected} each, {best_ms:.3} ms, {rate:.1} GB/s");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU, and measures"]
fn encoding_resident_text() {
    let mut encoder = encoder();
    let values = Values::U8(bytes_of(&mut Random::new(82), 0, 4 * ROWS));
    let resident = encoder.upload(&values).unwrap();
    for name in TEXT_TREES {
        let tree = tree(name);
        let expected = bytes_on_the_cpu(&values, &tree, &Grouping::new(&[]));
        let mut best_ms = f64::MAX;
        for _ in 0..3 {
            let encoded = encoder.encode_resident(&[(&resident, &tree)], None).unwrap();
            assert_eq!(encoded.encoded_bytes, [expected], "{name}");
            best_ms = best_ms.min(encoded.device_ms);
        }
        let (bytes, rate) = (values.len(), values.len() as f64 / best_ms / 1e6);
        println!("{name}: {bytes} bytes to {expected}, {best_ms:.3} ms, {rate:.1} GB/s");
    }
}
