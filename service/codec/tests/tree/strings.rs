//! Bytes and text: `stateless` and `lzw` against a model, at their limits, and with damaged
//! sections.
//!
//! The model of `lzw` keeps every string in a map; it shares nothing with the codec.

use std::collections::HashMap;

use bytes::Bytes;
use shoal_codec::{
    BlockError, Budget, EncodedTree, Table, TableColumn, TableValues, Tree, Values, decode_column,
    encode_column, encode_table,
};
use shoal_testkit::Random;

use crate::GOLDEN;
use crate::sample::{bytes_of, tree};

/// Returns the codes of each tile by the rules of the format; keeps entries as strings.
fn model(bytes: &[u8], chunk_tiles: usize) -> Vec<Vec<u16>> {
    let mut tiles = vec![Vec::new(); bytes.len().div_ceil(1024)];
    for (number, chunk) in bytes.chunks(chunk_tiles * 1024).enumerate() {
        let mut entries: HashMap<&[u8], u16> = HashMap::new();
        let mut start = 0;
        while start < chunk.len() {
            let code_of = |string: &[u8]| match string {
                [byte] => Some(u16::from(*byte)),
                _ => entries.get(string).copied(),
            };
            let longest = (start + 1..=chunk.len())
                .take_while(|end| code_of(&chunk[start..*end]).is_some())
                .last();
            let end = longest.expect("a byte has a code");
            let code = code_of(&chunk[start..end]).expect("the longest has a code");
            tiles[number * chunk_tiles + start / 1024].push(code);
            let entry = u16::try_from(256 + entries.len());
            if let (Ok(entry), true) = (entry, end < chunk.len()) {
                entries.insert(&chunk[start..=end], entry);
            }
            start = end;
        }
    }
    tiles
}

fn assert_round_trip(bytes: &[u8], text: &str, context: &str) -> EncodedTree {
    let values = Values::U8(bytes.to_vec());
    let encoded = encode_column(&values, &tree(text), None).unwrap();
    let back = decode_column(&encoded, None, &Budget::default()).unwrap();
    assert!(back == values, "{context}, {text}: other values came back");
    encoded
}

#[test]
fn codes_are_those_of_the_model() {
    let seed = 91;
    let mut chance = Random::new(seed);
    for case in 0..250 {
        let rows = if case % 25 == 0 { 90_000 } else { chance.below(5000) };
        let bytes = bytes_of(&mut chance, case % 5, rows);
        let chunk_tiles = [1, 2, 3, 64, 256][chance.below(5)];
        let context = format!("seed {seed}, case {case}, {rows} rows");
        let encoded = assert_round_trip(&bytes, &format!("lzw.{chunk_tiles}(afl)"), &context);
        let tiles = model(&bytes, chunk_tiles);
        let counts: Vec<u8> =
            tiles.iter().flat_map(|codes| (codes.len() as u16).to_le_bytes()).collect();
        assert_eq!(encoded.sections[0], counts, "{context}");
        // One column of all codes in whole tiles has the same values in the same order.
        let codes = encoded.plan.nodes()[1].values as usize;
        assert_eq!(codes, tiles.iter().map(Vec::len).sum::<usize>(), "{context}");
        assert_round_trip(&bytes, &format!("lzw.{chunk_tiles}(huffman)"), &context);
    }
}

#[test]
fn noise_fills_the_dictionary() {
    let bytes = bytes_of(&mut Random::new(92), 3, 300_000);
    let encoded = assert_round_trip(&bytes, "lzw.256(afl)", "noise");
    let longest = encoded.plan.nodes()[1].values;
    assert!(longest > 65_536, "{longest} codes fit the dictionary");
}

#[test]
fn parts_of_text_decode_alone() {
    let seed = 93;
    let mut chance = Random::new(seed);
    let values = Values::U8(bytes_of(&mut chance, 0, 200_000));
    for text in ["lzw.64(afl)", "lzw.3(huffman)", "stateless.16.16"] {
        let tree = tree(text);
        let columns = [TableColumn::numbers(256, &values, &tree)];
        let mut bytes = Vec::new();
        assert!(encode_table(&columns, None, 1, &mut bytes).unwrap()[0].is_planned);
        let table = Table::parse(Bytes::from(bytes), &Budget::default()).unwrap();
        for _ in 0..100 {
            let start = chance.below(200_001);
            let end = start + chance.below(200_001 - start).min(3000);
            let part = table.decode_chunk(0, start..end).unwrap();
            assert!(part == values.slice(start, end), "seed {seed}, {text}, {start} to {end}");
        }
    }
}

#[test]
fn text_version_1_3() {
    let golden = GOLDEN.bytes("text_v1.3.block");
    let table = Table::parse(Bytes::from(golden), &Budget::default()).unwrap();
    assert_eq!((table.header().version_major, table.header().version_minor), (1, 3));
    let mut crc = 0;
    let columns: Vec<(u16, Values, Tree)> =
        ["lzw.1(afl)", "lzw.64(huffman)", "stateless.16.16", "stateless.3.1", "stateless.1.2"]
            .iter()
            .zip(256..)
            .map(|(text, id)| {
                let values = match table.decode(id, 0..2500).unwrap() {
                    Some(TableValues::Numbers(Values::U8(values))) => values,
                    other => panic!("column {id} is {other:?}"),
                };
                crc = crc32c::crc32c_append(crc, &values);
                (id, Values::U8(values), tree(text))
            })
            .collect();
    assert_eq!(crc, 0xa7ae_c1b2, "the content of the released file");
    let wanted: Vec<TableColumn<'_>> =
        columns.iter().map(|(id, values, tree)| TableColumn::numbers(*id, values, tree)).collect();
    let mut bytes = Vec::new();
    let outcome = encode_table(&wanted, None, 5, &mut bytes).unwrap();
    assert!(outcome.iter().all(|column| column.is_planned), "{outcome:?}");
    GOLDEN.assert_is("text_v1.3.block", &bytes);
}

#[test]
fn the_examples_of_the_format_are_what_it_says() {
    let encode = |bytes: &[u8], text| assert_round_trip(bytes, text, "example").sections;
    let indexed = encode(&[9, 9, 9, 2, 7], "stateless.2.1");
    assert_eq!(indexed[0], [9, 2]);
    assert_eq!(indexed[1], [0, 0, 0, 0, 5, 0, 4, 0]);
    assert_eq!(indexed[2], [0xf, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(model(b"abababab", 1), [[97, 98, 256, 258, 98]]);
    assert_eq!(encode(b"abababab", "lzw.1(afl)")[0], [5, 0]);
}

/// Checks that decoding refuses the column for this reason.
fn assert_refused(encoded: &EncodedTree, expected: &str) {
    match decode_column(encoded, None, &Budget::default()) {
        Err(error @ BlockError::Chunk { .. }) => {
            assert!(error.to_string().contains(expected), "expected {expected}: {error}");
        }
        other => panic!("expected {expected}: {other:?}"),
    }
}

#[test]
fn changed_indexes_are_refused() {
    let bytes = bytes_of(&mut Random::new(95), 0, 1100);
    let whole = assert_round_trip(&bytes, "stateless.5.1", "sample");
    // Second entry of the directory: offset, values, indexes. Flags of the first tile.
    let flag = whole.sections[2][0] ^ 1;
    let count = whole.sections[1][6];
    let cases: [(usize, usize, &[u8], &str); 6] = [
        (1, 8, &[0xff; 4], "follow each other"),
        (1, 12, &[77], "values, expected 76"),
        (1, 14, &[77], "77 indexes"),
        (1, 6, &[count.wrapping_add(100)], "bytes of words"),
        (2, 0, &[flag], "flags for"),
        (2, 128, &[0xff; 4], "index 7 of 5"),
    ];
    for (section, offset, bytes, expected) in cases {
        let mut changed = whole.clone();
        changed.sections[section][offset..offset + bytes.len()].copy_from_slice(bytes);
        assert_refused(&changed, expected);
    }
    let mut short = whole;
    short.sections[0].pop();
    assert_refused(&short, "stateless section has 9 bytes, its values take 10");
    // Bits after the last flag are not read.
    let mut beyond = assert_round_trip(&[1, 1, 2], "stateless.1.1", "few");
    beyond.sections[2][3] = 0xff;
    decode_column(&beyond, None, &Budget::default()).unwrap();
}

/// The codes of one tile as a column of `rows` bytes.
fn of_codes(codes: &[u16], rows: usize) -> EncodedTree {
    // In noise no string occurs twice, so there are as many codes as rows.
    let noise: Vec<u8> = (0..rows).map(|row| (row * 7 % 251) as u8).collect();
    let mut encoded = encode_column(&Values::U8(noise), &tree("lzw.1(afl)"), None).unwrap();
    assert_eq!(encoded.sections[0], (rows as u16).to_le_bytes(), "noise has no strings");
    let mut all = codes.to_vec();
    all.resize(rows, 0);
    let wide = encode_column(&Values::U16(all), &Tree::Afl, None).unwrap();
    encoded.sections.splice(1.., wide.sections);
    encoded
}

#[test]
fn changed_codes_are_refused() {
    let decoded =
        |codes: &[u16], rows| decode_column(&of_codes(codes, rows), None, &Budget::default());
    // A code for the entry that it completes.
    decoded(&[7, 8, 9], 3).unwrap();
    assert_refused(&of_codes(&[256, 7, 7], 3), "entry 0, a later one");
    assert_refused(&of_codes(&[7, 257, 7], 3), "entry 1, a later one");
    assert_refused(&of_codes(&[7, u16::MAX, 7], 3), "a later one");
    assert_refused(&of_codes(&[7, 256, 7], 3), "begins at byte 3");
    assert_refused(&of_codes(&[7, 256, 257, 9], 4), "a string of 3 bytes at byte 3 of 4");
    let bytes = bytes_of(&mut Random::new(96), 0, 3000);
    let whole = assert_round_trip(&bytes, "lzw.2(afl)", "sample");
    let [first, second] = [whole.sections[0][0], whole.sections[0][2]];
    for (counts, expected) in [
        ([first.wrapping_add(1), second], "count"),
        ([first - 1, second + 1], "tile 0"),
        ([first + 1, second - 1], "tile 0"),
    ] {
        let mut changed = whole.clone();
        (changed.sections[0][0], changed.sections[0][2]) = (counts[0], counts[1]);
        assert_refused(&changed, expected);
    }
    let mut many = whole;
    many.sections[0][0..2].copy_from_slice(&1025_u16.to_le_bytes());
    assert_refused(&many, "count");
    // With one code too few, the strings end before the tile does.
    let noise: Vec<u8> = (0..1500).map(|row| (row * 7 % 251) as u8).collect();
    let mut short = encode_column(&Values::U8(noise), &tree("lzw.1(afl)"), None).unwrap();
    let [.., low, high] = short.sections[0][..] else { panic!("two tiles") };
    assert!(u16::from_le_bytes([low, high]) > 0);
    short.sections[2].clear();
    assert_refused(&short, "tile 0");
}

#[test]
fn places_and_parameters_are_checked() {
    let refused = |values: &Values, text: &str, reason: &str| {
        let refusal = encode_column(values, &tree(text), None).unwrap_err();
        assert!(refusal.reason.contains(reason), "{text}: {}", refusal.reason);
    };
    let bytes = Values::U8(vec![1, 2, 1, 2, 3]);
    for text in ["stateless.0.1", "stateless.257.1", "stateless.4.0", "stateless.4.65"] {
        refused(&bytes, text, "entries and chunks");
    }
    refused(&bytes, "lzw.0(afl)", "1 to 256");
    refused(&bytes, "lzw.257(afl)", "1 to 256");
    refused(&bytes, "dict.9(lzw.1(afl))", "must be the root");
    refused(&bytes, "rle(stateless.4.1, afl)", "every row");
    refused(&bytes, "lzw.1(raw)", "every row");
    for values in [Values::I8(vec![1]), Values::U16(vec![1]), Values::F64(vec![1.0])] {
        refused(&values, "lzw.1(afl)", "takes values of u8");
        refused(&values, "stateless.4.1", "takes values of u8");
    }
    let encoded = assert_round_trip(&[5; 3000], "lzw.2(afl)", "budget");
    let budget = |bytes| Budget { scratch_bytes_max: bytes, ..Budget::default() };
    decode_column(&encoded, None, &budget(5 * 2048)).unwrap();
    let error = decode_column(&encoded, None, &budget(5 * 2048 - 1)).unwrap_err();
    assert_eq!(error, BlockError::Budget { unit: "scratch bytes", value: 10_240, limit: 10_239 });
}
