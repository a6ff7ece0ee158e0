//! Hostile sections. Each case makes one change
//! and expects its refusal.

use shoal_codec::{
    BlockError, Budget, EncodedTree, Grouping, Keys, Values, decode_column, encode_column,
};

use crate::sample::tree;

/// A section, an offset in it, the bytes to write there, and the refusal.
type Change<'a> = (usize, usize, &'a [u8], &'a str);

/// 1,100 values, which are a whole tile and a shorter one.
fn values() -> Values {
    Values::U32((0..1100).map(|row| row / 10 * 7 + row % 3 + u32::from(row == 40) * 9000).collect())
}

/// 1,100 values of a function of the row.
fn column(value: impl Fn(u32) -> u32) -> Values {
    Values::U32((0..1100).map(value).collect())
}

/// 11 keys.
fn grouping() -> Grouping {
    Grouping::new(&(0..1100).map(|row| row % 11).collect::<Vec<_>>())
}

fn encode(values: &Values, text: &str) -> EncodedTree {
    let grouping = grouping();
    encode_column(values, &tree(text), Some(Keys { grouping: &grouping, column: 1 })).unwrap()
}

/// Checks that decoding refuses the column for this reason.
fn assert_refused(encoded: &EncodedTree, expected: &str) {
    match decode_column(encoded, Some(&grouping()), &Budget::default()) {
        Err(error @ BlockError::Chunk { .. }) => {
            assert!(error.to_string().contains(expected), "expected {expected}: {error}");
        }
        other => panic!("expected {expected}: {other:?}"),
    }
}

/// Makes one change after another and checks that each is refused.
fn assert_changes_refused(encoded: &EncodedTree, changes: &[Change<'_>]) {
    for (section, offset, bytes, expected) in changes {
        let mut changed = encoded.clone();
        changed.sections[*section][*offset..offset + bytes.len()].copy_from_slice(bytes);
        assert_refused(&changed, expected);
    }
}

#[test]
fn changed_sections_are_refused() {
    let floats = Values::F32((0..1100).map(|row| (row as f32).sin()).collect());
    let cases: [(Values, &str, &[Change<'_>]); 6] = [
        // Second entry of a directory: offset, values, least width, bits of widths.
        (
            values(),
            "afl",
            &[
                (0, 8, &[0xff; 4], "follow each other"),
                (0, 8, &[0; 4], "bytes of words"),
                (0, 0, &[1, 0, 0, 0], "follow each other"),
                (0, 12, &[77, 0], "values, expected 76"),
                (0, 14, &[33], "above 32"),
                (0, 14, &[1], "bytes of words"),
                (0, 15, &[8], "at most 7"),
                (0, 7, &[7], "tile 0"),
            ],
        ),
        // First entry: exceptions, shift, width, reserved.
        (
            values(),
            "patch(afl)",
            &[
                (0, 4, &[65], "65 exceptions"),
                (0, 5, &[32], "shifted by 32"),
                (0, 6, &[33], "33 bits"),
                (0, 7, &[1], "reserved"),
                (0, 4, &[2], "ascend"),
            ],
        ),
        (
            column(|row| row / 40),
            "rle(afl, afl)",
            &[(0, 0, &[0; 2], "count"), (0, 0, &[0xff; 2], "count"), (4, 0, &[0xff; 4], "runs of")],
        ),
        (
            column(|row| row % 5 * 10),
            "dict.65536(raw)",
            &[(0, 0, &[0xff; 4], "ascend"), (1, 3, &[5], "code 5 of 5")],
        ),
        (
            column(|row| row % 5 * 10),
            "dict.3(raw, afl)",
            &[(2, 3, &[4], "code 4 of 3"), (2, 0, &[3], "exceptions"), (1, 0, &[0, 0], "count")],
        ),
        (
            floats,
            "gfc",
            &[
                (1, 0, &[5], "byte code 5"),
                (1, 0, &[0], "bytes of words"),
                (0, 4, &[9, 0], "9 values"),
                (0, 6, &[1], "reserved"),
            ],
        ),
    ];
    for (values, text, changes) in cases {
        assert_changes_refused(&encode(&values, text), changes);
    }
}

#[test]
fn changed_codes_are_refused() {
    // The changes are in the lengths of codes, in the second entry of the directory (offset,
    // values, sizes) and in the words.
    let changes: &[Change<'_>] = &[
        (0, 0, &[0xff], "do not form a prefix code"),
        (0, 0, &[0; 4], "do not form a prefix code"),
        (1, 8, &[0xff; 4], "follow each other"),
        (1, 12, &[77], "values, expected 76"),
        (1, 15, &[14], "sizes of tile 1"),
        (1, 7, &[13], "bytes of words"),
        (2, 64, &[0xff; 12], "groups of tile 0 end"),
    ];
    assert_changes_refused(&encode(&values(), "huffman"), changes);
    let changes: &[Change<'_>] = &[
        (0, 0, &[0xff], "do not form a prefix code"),
        (1, 12, &[77], "values, expected 76"),
        (1, 15, &[0x40], "sizes of tile 1 have more than 15 bits"),
        (1, 7, &[0x34], "bytes of words"),
        (2, 64, &[0xff; 12], "groups of tile 0 end"),
    ];
    assert_changes_refused(&encode(&values(), "huffman_long"), changes);
}

#[test]
fn sections_of_other_lengths_are_refused() {
    let whole = encode(&values(), "afl");
    let changed = |change: fn(&mut EncodedTree)| {
        let mut changed = whole.clone();
        change(&mut changed);
        changed
    };
    assert_refused(&changed(|it| it.sections[1].extend_from_slice(&[0; 4])), "tile 1");
    assert_refused(&changed(|it| it.sections[1].push(0)), "not whole words");
    let short = changed(|it| it.sections[0].truncate(8));
    assert_refused(&short, "afl section has 8 bytes, its values take 16");
}

#[test]
fn positions_of_exceptions_lie_in_their_tile() {
    let mut elsewhere = encode(&values(), "patch(afl)");
    assert_eq!(elsewhere.sections[0][4], 1, "the sample has one exception");
    elsewhere.sections[1][..2].copy_from_slice(&1023_u16.to_le_bytes());
    let back = decode_column(&elsewhere, None, &Budget::default()).unwrap();
    assert!(back != values(), "another position is legal and gives other values");
    let few = Values::U32((0..40).map(|row| row % 3 + u32::from(row == 5) * 9000).collect());
    let mut moved = encode_column(&few, &tree("patch(afl)"), None).unwrap();
    moved.sections[1][..2].copy_from_slice(&40_u16.to_le_bytes());
    assert_refused(&moved, "ascend below 40");
    moved.sections[1][..2].copy_from_slice(&[0; 2]);
    decode_column(&moved, None, &Budget::default()).unwrap();
}

#[test]
fn runs_fit_their_tile() {
    let encoded = encode(&column(|row| row / 40), "rle(afl, afl)");
    // One run moves from the second tile to the first. The sum stays right, but each tile is wrong.
    let first = u16::from_le_bytes([encoded.sections[0][0], encoded.sections[0][1]]);
    let second = u16::from_le_bytes([encoded.sections[0][2], encoded.sections[0][3]]);
    let moved = [(first + 1).to_le_bytes(), (second - 1).to_le_bytes()].concat();
    assert_changes_refused(&encoded, &[(0, 0, &moved, "tile 0")]);
}

#[test]
fn heads_are_checked_against_the_keys() {
    for text in ["keyed_delta.z(afl, afl)", "keyed_delta2.z(afl, afl)"] {
        let encoded = encode(&values(), text);
        let counts = [encoded.sections[0][0] - 1, 0, encoded.sections[0][2] + 1, 0];
        let changes: [Change<'_>; 2] = [(0, 0, &[0; 2], "count"), (0, 0, &counts, "its keys make")];
        assert_changes_refused(&encoded, &changes);
        let error = decode_column(&encoded, None, &Budget::default()).unwrap_err();
        assert!(error.to_string().contains("0 keys"), "{error}");
    }
}

#[test]
fn budgets_hold_for_a_column() {
    let encoded = encode(&values(), "group(afl)");
    let budget = Budget { scratch_bytes_max: 1100 * 16, ..Budget::default() };
    decode_column(&encoded, Some(&grouping()), &budget).unwrap();
    let less = Budget { scratch_bytes_max: 1100 * 16 - 1, ..budget };
    let error = decode_column(&encoded, Some(&grouping()), &less).unwrap_err();
    assert_eq!(error, BlockError::Budget { unit: "scratch bytes", value: 17_600, limit: 17_599 });
    let less = Budget { rows_max: 1099, ..budget };
    let error = decode_column(&encoded, Some(&grouping()), &less).unwrap_err();
    assert_eq!(error, BlockError::Budget { unit: "rows", value: 1100, limit: 1099 });
}
