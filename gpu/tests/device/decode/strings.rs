//! Decodes bytes and text: long columns, and damaged columns, for which device and CPU give the
//! same result or the same error.
//!
//! SHOAL_MUTATIONS sets the number of damaged columns. SHOAL_TEST_ROWS is the maximum number of
//! rows of the other columns.

use shoal_codec::{Budget, EncodedTree, Values, decode_column, encode_column};
use shoal_gpu::EncodedColumn;
use shoal_testkit::Random;

use super::columns::damage;
use crate::sample::{bytes_of, tree};

const SEED: u64 = 91;
/// Numbers of rows: near the boundaries of tiles and chunks, and many chunks.
const ROWS: [usize; 10] = [0, 1, 2, 1023, 1025, 4096, 65_535, 65_537, 300_000, 1_000_000];
const TREES: [&str; 8] = [
    "lzw.1(afl)",
    "lzw.4(huffman)",
    "lzw.16(patch(afl))",
    "lzw.256(rle(afl, afl))",
    "stateless.1.1",
    "stateless.16.16",
    "stateless.200.64",
    "stateless.256.3",
];

fn encode(bytes: Vec<u8>, text: &str) -> EncodedTree {
    encode_column(&Values::U8(bytes), &tree(text), None).unwrap()
}

fn columns(encoded: &[EncodedTree]) -> Vec<EncodedColumn<'_>> {
    encoded.iter().map(|encoded| EncodedColumn { encoded, key: None }).collect()
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn bytes_and_text_round_trip() {
    let mut chance = Random::new(SEED);
    let most = super::decoder::count("SHOAL_TEST_ROWS", usize::MAX);
    for rows in ROWS.into_iter().filter(|rows| *rows <= most) {
        for kind in 0..5 {
            let bytes = bytes_of(&mut chance, kind, rows);
            let encoded = TREES.map(|text| encode(bytes.clone(), text));
            let decoded = super::decoder::decoder().columns(&columns(&encoded)).unwrap();
            for (text, decoded) in TREES.iter().zip(decoded) {
                let context = format!("seed {SEED}, {rows} rows of kind {kind}, {text}");
                let decoded = decoded.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(decoded == Values::U8(bytes.clone()), "{context}: other values");
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn damaged_text_is_refused_where_the_cpu_refuses_it() {
    let mut chance = Random::new(SEED + 1);
    let mutations = super::decoder::count("SHOAL_MUTATIONS", 4000);
    let (mut accepted, mut refused) = (0, 0);
    while accepted + refused < mutations {
        let mutants: Vec<EncodedTree> = (0..500)
            .map(|_| {
                let rows = 1 + chance.below(6000);
                let kind = [0, 0, 2, 4][chance.below(4)];
                let bytes = bytes_of(&mut chance, kind, rows);
                let mut encoded = encode(bytes, TREES[chance.below(TREES.len())]);
                damage(&mut chance, &mut encoded);
                encoded
            })
            .collect();
        let decoded = super::decoder::decoder().columns(&columns(&mutants)).unwrap();
        for (mutant, found) in mutants.iter().zip(decoded) {
            let expected = decode_column(mutant, None, &Budget::default());
            *(if expected.is_ok() { &mut accepted } else { &mut refused }) += 1;
            assert!(expected == found, "seed {SEED}: {:?}, {:?}", expected.err(), found.err());
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted.min(refused) > mutations / 20, "the test is lopsided");
}
