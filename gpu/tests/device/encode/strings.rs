//! Encodes bytes and text: the device writes the same codes and indexes as the CPU.
//!
//! SHOAL_TEST_ROWS is the maximum number of rows.

use shoal_codec::{Grouping, Values};
use shoal_testkit::Random;

use super::column::{agrees, encoder};
use crate::sample::{bytes_of, tree};

/// Numbers of rows: near the boundaries of tiles and chunks, and many chunks.
const ROWS: [usize; 10] = [0, 1, 2, 1023, 1025, 4096, 65_535, 65_537, 300_000, 1_000_000];
const TREES: [&str; 8] = [
    "lzw.1(afl)",
    "lzw.4(huffman)",
    "lzw.16(patch(afl))",
    "lzw.256(dict.65536(afl))",
    "stateless.1.1",
    "stateless.16.16",
    "stateless.200.64",
    "stateless.256.3",
];

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn bytes_and_text_are_encoded_as_on_the_cpu() {
    let seed = 64;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let most = std::env::var("SHOAL_TEST_ROWS").map_or(usize::MAX, |rows| rows.parse().unwrap());
    for rows in ROWS.into_iter().filter(|rows| *rows <= most) {
        let keys = (Values::U64(vec![7; rows]), Grouping::new(&vec![7; rows]));
        for kind in 0..5 {
            let values = Values::U8(bytes_of(&mut chance, kind, rows));
            for text in TREES {
                let context = format!("seed {seed}, {rows} rows of kind {kind}, {text}");
                let keys = (&keys.0, &keys.1);
                let applies = agrees(&mut encoder, &values, &tree(text), keys, &context);
                // A tree with a dictionary does not apply to a column without rows.
                assert!(applies || rows == 0, "{context}");
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn strings_of_equal_hash_have_entries_of_their_own() {
    // The two strings of a pair have the same hash in `kernels/codec/encode_strings.cu`.
    const PAIRS: [[&[u8]; 2]; 3] =
        [[b"bijrslox", b"fssnrnzc"], [b"ukqwbjbc", b"hlyarznc"], [b"vgnppyll", b"fjoeimhn"]];
    let seed = 65;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let words = (0..4000).flat_map(|_| PAIRS[chance.below(3)][chance.below(2)]);
    let values = Values::U8(words.copied().collect());
    let rows = values.len();
    let keys = (Values::U64(vec![7; rows]), Grouping::new(&vec![7; rows]));
    for text in ["lzw.4(afl)", "lzw.256(afl)"] {
        let context = format!("seed {seed}, {text}");
        assert!(agrees(&mut encoder, &values, &tree(text), (&keys.0, &keys.1), &context));
    }
}
