//! Someone means harm: sections that lie. Each case changes one thing and expects its refusal.

use shoal_codec::{
    BlockError, Budget, EncodedTree, Grouping, Keys, Mode, Tree, Values, decode_column,
    encode_column,
};

fn afl() -> Box<Tree> {
    Box::new(Tree::Afl)
}

/// 1,100 values and 11 keys: a whole tile and a part of one.
fn values() -> Values {
    Values::U32((0..1100).map(|row| row / 10 * 7 + row % 3 + u32::from(row == 40) * 9000).collect())
}

fn grouping() -> Grouping {
    Grouping::new(&(0..1100).map(|row| row % 11).collect::<Vec<_>>())
}

fn encode(values: &Values, tree: &Tree) -> EncodedTree {
    let grouping = grouping();
    encode_column(values, tree, Some(Keys { grouping: &grouping, column: 1 })).unwrap()
}

/// Sets bytes of one section and gives what decoding says.
fn lie(encoded: &EncodedTree, section: usize, offset: usize, bytes: &[u8]) -> String {
    let mut encoded = encoded.clone();
    encoded.sections[section][offset..offset + bytes.len()].copy_from_slice(bytes);
    refusal(&encoded)
}

fn refusal(encoded: &EncodedTree) -> String {
    match decode_column(encoded, Some(&grouping()), &Budget::default()) {
        Err(error @ BlockError::Chunk { .. }) => error.to_string(),
        other => panic!("a lie was believed: {other:?}"),
    }
}

fn refused(said: &str, expected: &str) {
    assert!(said.contains(expected), "expected {expected}: {said}");
}

#[test]
fn afl_directories_are_checked() {
    let encoded = encode(&values(), &Tree::Afl);
    // Second entry: offset, values, least width, bits of widths.
    refused(&lie(&encoded, 0, 8, &[0xff; 4]), "follow each other");
    refused(&lie(&encoded, 0, 8, &[0; 4]), "bytes of words");
    refused(&lie(&encoded, 0, 0, &[1, 0, 0, 0]), "follow each other");
    refused(&lie(&encoded, 0, 12, &77_u16.to_le_bytes()), "values, expected 76");
    refused(&lie(&encoded, 0, 14, &[33]), "above 32");
    refused(&lie(&encoded, 0, 14, &[1]), "bytes of words");
    refused(&lie(&encoded, 0, 15, &[8]), "at most 7");
    refused(&lie(&encoded, 0, 7, &[7]), "tile 0");
    let mut longer = encoded.clone();
    longer.sections[1].extend_from_slice(&[0; 4]);
    refused(&refusal(&longer), "tile 1");
    let mut ragged = encoded.clone();
    ragged.sections[1].push(0);
    refused(&refusal(&ragged), "not whole words");
    let mut short = encoded;
    short.sections[0].truncate(8);
    refused(&refusal(&short), "afl section has 8 bytes, its values take 16");
}

#[test]
fn patches_are_checked() {
    let encoded = encode(&values(), &Tree::Patch(Tree::Afl.into()));
    assert_eq!(encoded.sections[0][4], 1, "the sample has one exception");
    refused(&lie(&encoded, 0, 4, &[65]), "65 exceptions");
    refused(&lie(&encoded, 0, 5, &[32]), "shifted by 32");
    refused(&lie(&encoded, 0, 6, &[33]), "33 bits");
    refused(&lie(&encoded, 0, 7, &[1]), "reserved");
    refused(&lie(&encoded, 0, 4, &[2]), "ascend");
    let mut elsewhere = encoded;
    elsewhere.sections[1][..2].copy_from_slice(&1023_u16.to_le_bytes());
    let back = decode_column(&elsewhere, None, &Budget::default()).unwrap();
    assert!(back != values(), "another position is legal and gives other values");
    let few = Values::U32((0..40).map(|row| row % 3 + u32::from(row == 5) * 9000).collect());
    let encoded = encode_column(&few, &Tree::Patch(Tree::Afl.into()), None).unwrap();
    let mut moved = encoded;
    moved.sections[1][..2].copy_from_slice(&40_u16.to_le_bytes());
    let error = decode_column(&moved, None, &Budget::default()).unwrap_err();
    refused(&error.to_string(), "ascend below 40");
    moved.sections[1][..2].copy_from_slice(&[0; 2]);
    decode_column(&moved, None, &Budget::default()).unwrap();
}

#[test]
fn runs_are_checked() {
    let runs = Values::U32((0..1100).map(|row| row / 40).collect());
    let encoded = encode(&runs, &Tree::Rle(afl(), afl()));
    refused(&lie(&encoded, 0, 0, &[0; 2]), "count");
    refused(&lie(&encoded, 0, 0, &[0xff; 2]), "count");
    // One run from the second tile to the first: the sum holds, the tiles do not.
    let first = u16::from_le_bytes([encoded.sections[0][0], encoded.sections[0][1]]);
    let second = u16::from_le_bytes([encoded.sections[0][2], encoded.sections[0][3]]);
    let moved = [(first + 1).to_le_bytes(), (second - 1).to_le_bytes()].concat();
    refused(&lie(&encoded, 0, 0, &moved), "tile 0");
    let lengths = encoded.sections.len() - 1;
    refused(&lie(&encoded, lengths, 0, &[0xff; 4]), "runs of");
}

#[test]
fn dictionaries_are_checked() {
    let few = Values::U32((0..1100).map(|row| row % 5 * 10).collect());
    let encoded = encode(&few, &Tree::Dict(65_536, Tree::Raw.into(), None));
    refused(&lie(&encoded, 0, 0, &[0xff; 4]), "ascend");
    refused(&lie(&encoded, 1, 3, &[5]), "code 5 of 5");
    let with_exceptions = Tree::Dict(3, Tree::Raw.into(), Some(afl()));
    let encoded = encode(&few, &with_exceptions);
    refused(&lie(&encoded, 2, 3, &[4]), "code 4 of 3");
    refused(&lie(&encoded, 2, 0, &[3]), "exceptions");
    refused(&lie(&encoded, 1, 0, &[0, 0]), "count");
}

#[test]
fn heads_are_checked_against_the_keys() {
    for tree in [
        Tree::KeyedDelta(Mode::Zigzag, afl(), afl()),
        Tree::KeyedDelta2(Mode::Zigzag, afl(), afl()),
    ] {
        let encoded = encode(&values(), &tree);
        refused(&lie(&encoded, 0, 0, &[0; 2]), "count");
        let counts = [encoded.sections[0][0] - 1, 0, encoded.sections[0][2] + 1, 0];
        refused(&lie(&encoded, 0, 0, &counts), "its keys make");
        let error = decode_column(&encoded, None, &Budget::default()).unwrap_err();
        refused(&error.to_string(), "0 keys");
    }
}

#[test]
fn floats_in_bytes_are_checked() {
    let floats = Values::F32((0..1100).map(|row| (row as f32).sin()).collect());
    let encoded = encode(&floats, &Tree::Gfc);
    refused(&lie(&encoded, 1, 0, &[5]), "byte code 5");
    refused(&lie(&encoded, 1, 0, &[0]), "bytes of words");
    refused(&lie(&encoded, 0, 4, &[9, 0]), "9 values");
    refused(&lie(&encoded, 0, 6, &[1]), "reserved");
}

#[test]
fn budgets_hold_for_a_column() {
    let encoded = encode(&values(), &Tree::Group(afl()));
    let budget = Budget { scratch_bytes_max: 1100 * 16, ..Budget::default() };
    decode_column(&encoded, Some(&grouping()), &budget).unwrap();
    let less = Budget { scratch_bytes_max: 1100 * 16 - 1, ..budget };
    let error = decode_column(&encoded, Some(&grouping()), &less).unwrap_err();
    assert_eq!(error, BlockError::Budget { unit: "scratch bytes", value: 17_600, limit: 17_599 });
    let less = Budget { rows_max: 1099, ..budget };
    let error = decode_column(&encoded, Some(&grouping()), &less).unwrap_err();
    assert_eq!(error, BlockError::Budget { unit: "rows", value: 1100, limit: 1099 });
}
