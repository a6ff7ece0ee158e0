//! Columns of strings in tables: round trips, the golden file, hostile parts.
//!
//! A changed part has correct checksums, so that only the rules of text can refuse it.

use bytes::Bytes;
use shoal_codec::limits::BLOCK_ROWS_MAX;
use shoal_codec::{
    Aim, Block, BlockCodec, BlockError, Budget, CpuCodec, FixColumns, Part, Table, TableColumn,
    TablePlanner, TableValues, Text, Tree, Values, compact, encode_planned_table, encode_table,
};
use shoal_testkit::{
    Bound, Random, fuzz_seed,
    seal::{HEADER, seal, set, u64_at},
};

use crate::GOLDEN;
use crate::sample::tree;
use crate::walk::SPACE;

fn parse(bytes: &[u8]) -> Result<Table, BlockError> {
    Table::parse(Bytes::copy_from_slice(bytes), &Budget::default())
}

const NAMES: [&str; 6] = ["Aurora", "Bjørn", "", "Capella", "鷗", "Deneb IV"];

/// A kind of text: names of the keys, names at random, long strings of their own, empty ones.
fn text(chance: &mut Random, kind: usize, keys: &[u64]) -> Text {
    let strings: Vec<String> = keys
        .iter()
        .map(|key| match kind {
            0 => NAMES[*key as usize % NAMES.len()].to_owned(),
            1 => NAMES[chance.below(6)].repeat(chance.below(3)),
            2 => format!("{} of {}", NAMES[chance.below(6)], chance.word() % 1_000_000),
            _ => String::new(),
        })
        .collect();
    strings.iter().map(String::as_str).collect()
}

#[test]
fn planned_tables_with_text_come_back_whole_and_in_parts() {
    let seed = 81;
    let mut chance = Random::new(seed);
    for aim in Aim::ALL {
        let mut planners: Vec<_> = (0..6).map(|seed| TablePlanner::new(seed, aim)).collect();
        let mut has_indexes = [0; 4];
        for batch in 0..24 {
            let rows = if batch == 6 { 66_000 } else { chance.below(3000) };
            let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 40).collect();
            let mut columns: Vec<_> =
                (0..4).map(|kind| TableValues::Text(text(&mut chance, kind, &keys))).collect();
            columns.insert(2, TableValues::Numbers(Values::U64(keys.clone())));
            columns.insert(0, TableValues::Numbers(Values::U64(keys)));
            let numbered: Vec<_> = (300..).zip(&columns).collect();
            let mut bytes = Vec::new();
            encode_planned_table(&mut planners, &numbered, true, batch, &mut bytes).unwrap();
            if aim.is_compact() {
                compact(&mut bytes).unwrap();
            }
            let case = format!("seed {seed}, {aim}, batch {batch}, {rows} rows");
            let table = parse(&bytes).unwrap();
            assert_eq!(table.header().version_minor, 4, "{case}");
            assert!(table.decode_all(0..rows).unwrap() == columns, "{case}");
            let start = chance.below(rows + 1);
            let end = start + chance.below(rows - start + 1);
            for (from, to) in [(start, end), (start, start), (rows, rows)] {
                let all = table.decode_all(from..to).unwrap();
                for ((id, whole), part) in numbered.iter().zip(all) {
                    assert!(part == sliced(whole, from, to), "{case}, column {id}, {from} to {to}");
                    assert!(table.decode(*id, from..to).unwrap() == Some(part), "{case}");
                }
            }
            for (count, id) in has_indexes.iter_mut().zip([301, 302, 304, 305]) {
                let is_indexed =
                    |chunk: &&shoal_codec::Chunk| chunk.id == id && chunk.part == Part::Indexes;
                *count += u32::from(table.chunks().iter().any(|chunk| is_indexed(&chunk)));
            }
        }
        let [keyed, random, own, empty] = has_indexes;
        assert!(keyed > 20 && random > 20, "{aim}: names are indexed, {has_indexes:?}");
        assert_eq!((own, empty), (0, 0), "{aim}: indexes do not pay");
    }
}

/// The rows of a column.
fn sliced(values: &TableValues, start: usize, end: usize) -> TableValues {
    match values {
        TableValues::Numbers(values) => TableValues::Numbers(values.slice(start, end)),
        TableValues::Text(text) => {
            TableValues::Text((start..end).map(|row| text.get(row)).collect())
        }
    }
}

#[test]
fn names_that_repeat_take_few_bytes() {
    let mut chance = Random::new(82);
    let rows = 20_000;
    let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 500).collect();
    let names: Vec<String> = keys.iter().map(|key| format!("Vessel number {key}")).collect();
    let names: Text = names.iter().map(String::as_str).collect();
    let bytes_of = |columns: &[(u16, &TableValues)], aim| {
        let mut planners = vec![TablePlanner::new(1, aim); columns.len()];
        let mut bytes = Vec::new();
        encode_planned_table(&mut planners, columns, true, 0, &mut bytes).unwrap();
        bytes.len()
    };
    let key = TableValues::Numbers(Values::U64(keys));
    let names = TableValues::Text(names);
    for aim in Aim::ALL {
        let without = bytes_of(&[(256, &key)], aim);
        let with = bytes_of(&[(256, &key), (257, &names)], aim);
        // 500 names of 17 bytes and their lengths, and an index that the key orders; 340,000 bytes.
        assert!(with - without < 16_000, "{aim}: {with} - {without} bytes");
    }
}

/// The parts of names by index, names by row, and a key that orders them.
fn sample() -> Vec<(u16, Part, Values, Tree)> {
    let names: Text = (0..1100).map(|row| NAMES[row % 7 % 6]).collect();
    let own: Vec<String> = (0..1100).map(|row| format!("{row} {}", NAMES[row % 6])).collect();
    let own: Text = own.iter().map(String::as_str).collect();
    let mut columns = vec![(
        256,
        Part::Numbers,
        Values::U16((0..1100).map(|row| row % 7).collect()),
        tree("dict.65536(afl)"),
    )];
    let trees = ["group(rle(afl, afl))", "patch(afl)", "stateless.16.16"];
    for ((part, values), text) in names.parts_by_index().unwrap().into_iter().zip(trees) {
        columns.push((257, part, values, tree(text)));
    }
    for ((part, values), text) in own.parts_by_row().into_iter().zip(["afl", "lzw.64(afl)"]) {
        columns.push((258, part, values, tree(text)));
    }
    columns
}

fn encode(columns: &[(u16, Part, Values, Tree)]) -> Result<Vec<u8>, BlockError> {
    let columns: Vec<TableColumn<'_>> = columns
        .iter()
        .map(|(id, part, values, tree)| TableColumn { id: *id, part: *part, values, tree })
        .collect();
    let mut bytes = Vec::new();
    encode_table(&columns, Some(256), 5, &mut bytes).map(|_| bytes)
}

#[test]
fn text_columns_version_1_4() {
    let encoded = encode(&sample()).unwrap();
    GOLDEN.assert_is("text_columns_v1.4.block", &encoded);
    let table = parse(&encoded).unwrap();
    assert_eq!((table.header().version_major, table.header().version_minor), (1, 4));
    let Some(TableValues::Text(names)) = table.decode(257, 0..1100).unwrap() else { panic!() };
    assert!(names.iter().eq((0..1100).map(|row| NAMES[row % 7 % 6])));
    let Some(TableValues::Text(own)) = table.decode(258, 1000..1100).unwrap() else { panic!() };
    assert_eq!(own.get(7), "1007 Deneb IV");
    let mut compacted = encoded.clone();
    compact(&mut compacted).unwrap();
    GOLDEN.assert_is("compact_text_columns_v2.0.block", &compacted);
    let first = GOLDEN.bytes("compact_text_columns_v1.4.block");
    assert!(compacted.len() < first.len() && first.len() < encoded.len());
    for bytes in [compacted, first] {
        assert!(parse(&bytes).unwrap().bytes() == &encoded);
    }
}

#[test]
fn parts_that_are_no_text_are_refused_by_the_writer() {
    let columns = sample();
    let without = |missing: &[usize]| -> Vec<_> {
        let kept = columns.iter().enumerate().filter(|(index, _)| !missing.contains(index));
        kept.map(|(_, column)| column.clone()).collect()
    };
    let with = |index: usize, values: Values| {
        let mut columns = columns.clone();
        columns[index].2 = values;
        columns
    };
    for (columns, expected) in [
        (without(&[3]), "column 257 is text without bytes, which must follow"),
        (without(&[2]), "column 257 is text without lengths"),
        (without(&[5]), "column 258 is text without bytes"),
        (without(&[4]), "column 258 begins with bytes"),
        (with(1, Values::U32(vec![0; 7])), "7 values, the first one 1100"),
        (with(2, Values::U32(vec![0; 1101])), "1101 strings for 1100 rows"),
        (with(2, Values::U16(vec![0; 5])), "lengths of type U16"),
        (with(3, Values::I8(vec![0; 5])), "bytes of type I8"),
        (with(5, Values::U8(vec![0; BLOCK_ROWS_MAX as usize + 1])), "limit is 4194303"),
    ] {
        let error = encode(&columns).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// Replaces the values of part `index` of the sample and returns the error of reading its column.
fn refusal(index: usize, values: Values) -> String {
    let mut columns = sample();
    let id = columns[index].0;
    columns[index].2 = values;
    let table = parse(&encode(&columns).unwrap()).unwrap();
    let error = table.decode(id, 0..1100).unwrap_err();
    assert_eq!(table.decode_all(0..1100).unwrap_err(), error);
    match error {
        BlockError::Chunk { chunk, offset, .. } => {
            assert!(offset >= HEADER && (1..=5).contains(&chunk), "{error}");
        }
        _ => assert!(matches!(error, BlockError::Budget { unit: "text bytes", .. }), "{error}"),
    }
    error.to_string()
}

#[test]
fn parts_that_do_not_agree_are_refused_by_the_reader() {
    let part = |index: usize| sample()[index].2.clone();
    let bytes = |index: usize| part(index).to_le_bytes();
    let lengths = |index: usize| match part(index) {
        Values::U32(lengths) => lengths,
        _ => panic!("lengths"),
    };
    let changed = |index: usize, row: usize, by: i32| {
        let mut lengths = lengths(index);
        lengths[row] = lengths[row].wrapping_add_signed(by);
        Values::U32(lengths)
    };
    let mut indexes = lengths(1);
    indexes[900] = 6;
    assert!(refusal(1, Values::U32(indexes)).contains("index 6 of 6 strings"));
    assert!(refusal(2, changed(2, 0, 1)).contains("not at a character"));
    assert!(refusal(2, changed(2, 5, 1)).contains("ends at byte"));
    assert!(refusal(4, changed(4, 7, -1)).contains("lengths add up to"));
    assert!(refusal(4, changed(4, 7, i32::MAX)).contains("lengths add up to"));
    // The sum of the lengths stays right, but a string ends within a character.
    let Values::U32(mut cut) = changed(4, 4, -1) else { panic!() };
    cut[5] += 1;
    assert!(refusal(4, Values::U32(cut)).contains("not at a character"));
    let mut damaged = bytes(5);
    damaged[20] = 0xff;
    assert!(refusal(5, Values::U8(damaged)).contains("byte 20 of the text is not UTF-8"));
    damaged = bytes(3);
    damaged[1] = 0x80;
    assert!(refusal(3, Values::U8(damaged)).contains("byte 1 of the text is not UTF-8"));
    damaged = bytes(3);
    damaged.pop();
    assert!(refusal(3, Values::U8(damaged)).contains("chunk 3, byte "));
}

#[test]
fn strings_beyond_the_budget_are_refused_before_they_are_gathered() {
    let long = "x".repeat(1 << 20);
    let few: Text = std::iter::repeat_n("", 3).chain([&long[..]]).collect();
    let mut parts = few.parts_by_index().unwrap();
    let rows = 4_000_000;
    parts[0].1 = Values::U32(vec![1; rows]);
    let trees = [Tree::Const, Tree::Afl, Tree::Const];
    let columns: Vec<TableColumn<'_>> = parts
        .iter()
        .zip(&trees)
        .map(|((part, values), tree)| TableColumn { id: 257, part: *part, values, tree })
        .collect();
    let mut bytes = Vec::new();
    encode_table(&columns, None, 0, &mut bytes).unwrap();
    assert!(bytes.len() < 1000, "{} bytes", bytes.len());
    let error = parse(&bytes).unwrap().decode(257, 0..rows).unwrap_err();
    let value = (rows as u64) << 20;
    assert_eq!(error, BlockError::Budget { unit: "text bytes", value, limit: 64 << 20 });
    parse(&bytes).unwrap().decode(257, 100..164).unwrap();
    let budget = Budget { text_bytes_max: (1 << 20) - 1, ..Budget::default() };
    let error = Table::parse(Bytes::copy_from_slice(&bytes), &budget).unwrap_err();
    assert_eq!(
        error,
        BlockError::Budget { unit: "text bytes", value: 1 << 20, limit: (1 << 20) - 1 }
    );
    let scratch = 4 * rows as u64 + 8 + (1 << 20);
    let budget = Budget { scratch_bytes_max: scratch as usize - 1, ..Budget::default() };
    let error = Table::parse(Bytes::copy_from_slice(&bytes), &budget).unwrap_err();
    let limit = scratch - 1;
    assert_eq!(error, BlockError::Budget { unit: "scratch bytes", value: scratch, limit });
}

/// Offset of the entry of each chunk.
fn entries(bytes: &[u8]) -> Vec<usize> {
    let table = parse(bytes).unwrap();
    let mut start = HEADER;
    let mut entry = |chunk: &shoal_codec::Chunk| {
        let length = 24 + 24 * chunk.plan.nodes().len() + 8 * chunk.sections.len();
        start += length;
        start - length
    };
    table.chunks().iter().map(&mut entry).collect()
}

#[test]
fn hostile_entries_are_refused() {
    let whole = encode(&sample()).unwrap();
    let entries = entries(&whole);
    let [key, indexes, lengths, text, others, _] = entries[..] else { panic!("six chunks") };
    let decoded = |entry: usize| u64_at(&whole, entry + 8).unwrap();
    let more = |entry: usize, by: u64| (decoded(entry) + by).to_le_bytes();
    let huge = (u64::from(BLOCK_ROWS_MAX) + 1).to_le_bytes();
    let refused = |place: usize, field: &[u8], expected: &str| {
        let mut bytes = whole.clone();
        bytes[place..place + field.len()].copy_from_slice(field);
        seal(&mut bytes);
        let error = parse(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    refused(12, &2_u32.to_le_bytes(), "part is 1, it must be 0 in a block without text");
    refused(12, &8_u32.to_le_bytes(), "no table");
    refused(key + 4, &[4], "known are 0 to 3");
    refused(key + 4, &[1], "value type 2, it must be 3");
    refused(key + 4, &[3], "begins with bytes");
    refused(key + 7, &[1], "reserved bytes");
    refused(indexes + 4, &[2], "text without bytes");
    refused(indexes + 4, &[0], "column 257 is here twice");
    refused(lengths + 4, &[3], "text without lengths");
    refused(lengths, &[2], "column 257 is text without lengths");
    refused(text + 4, &[2], "text without bytes");
    refused(others, &[1], "twice");
    refused(indexes + 8, &more(indexes, 4), "1100 rows take 4400");
    refused(lengths + 8, &more(lengths, 4), "plan gives 6 values for 7");
    refused(lengths + 8, &more(lengths, 1), "4 for each of at most 1100 rows");
    refused(lengths + 8, &4404_u64.to_le_bytes(), "at most 1100 rows");
    refused(text + 8, &huge, "1 for each of at most 4194303 bytes");
    // Indexes may be keyed; lengths of stored strings may not.
    let node = lengths + 24;
    let mut bytes = whole.clone();
    set(&mut bytes, node, 13_u16.to_le_bytes());
    seal(&mut bytes);
    assert!(parse(&bytes).is_err());
}

#[test]
fn blocks_of_fixes_have_no_text() {
    let mut bytes = Vec::new();
    CpuCodec.encode(&FixColumns::new(), &SPACE, 1, &mut bytes).unwrap();
    set(&mut bytes, 12, 8_u32.to_le_bytes());
    seal(&mut bytes);
    let error = Block::parse(Bytes::from(bytes), &Budget::default()).unwrap_err().to_string();
    assert!(error.contains("byte 12: a block of fixes has no text columns"), "{error}");
}

#[test]
fn fuzz_text_columns() {
    let mut chance = Random::new(fuzz_seed(83));
    let budget = Budget { rows_max: 4000, text_bytes_max: 1 << 20, ..Budget::default() };
    let trees = |part| match part {
        Part::Bytes => ["afl", "lzw.64(afl)", "stateless.16.16", "huffman", "const", "raw"],
        _ => ["afl", "rle(afl, afl)", "group(afl)", "dict.9(afl, afl)", "const", "delta.z(afl)"],
    };
    let (mut accepted, mut refused, mut bound) = (0_u64, 0_u64, Bound::new(20_000));
    while bound.is_open() {
        let rows = 2 + chance.below(1200);
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 40).collect();
        let mut columns = vec![(256, Part::Numbers, Values::U64(keys.clone()), Tree::Afl)];
        for id in 0..1 + chance.below(3) as u16 {
            let kind = chance.below(4);
            let text = text(&mut chance, kind, &keys);
            let parts = text.parts_by_index().filter(|_| chance.below(2) == 0);
            for (part, values) in parts.unwrap_or_else(|| text.parts_by_row()) {
                columns.push((300 + id, part, values, tree(trees(part)[chance.below(6)])));
            }
        }
        let whole = encode(&columns).unwrap();
        for _ in 0..40 {
            if !bound.goes_on() {
                break;
            }
            let bytes = mutant(&mut chance, &whole);
            let read = Table::parse(Bytes::from(bytes), &budget)
                .and_then(|table| table.decode_all(0..table.rows()).map(|all| (table, all)));
            let Ok((table, columns)) = read else {
                refused += 1;
                continue;
            };
            accepted += 1;
            let bytes = columns.iter().map(|column| match column {
                TableValues::Text(text) => text.as_str().len(),
                TableValues::Numbers(_) => 0,
            });
            assert!(bytes.sum::<usize>() <= 1 << 20, "execution {}", bound.done());
            assert!(columns.iter().all(|column| column.len() == table.rows()));
        }
    }
    let counts = format!("{accepted} accepted, {refused} refused");
    assert!(accepted.min(refused) > bound.done() / 50, "{counts}: the target is lopsided");
}

/// The table with changes in its directory or its values and recomputed checksums.
fn mutant(chance: &mut Random, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=chance.below(2) {
        let place = match chance.below(3) {
            0 => HEADER + chance.below(bytes.len().min(900) - HEADER),
            _ => HEADER + chance.below(bytes.len() - HEADER),
        };
        match chance.below(3) {
            0 => bytes[place] ^= 1 << chance.below(8),
            1 => bytes[place] = chance.edgy() as u8,
            _ => bytes[place] = bytes[place].wrapping_add(1),
        }
    }
    seal(&mut bytes);
    bytes
}
