//! Hostile blocks with valid checksums.
//!
//! Each case makes one change, recomputes the checksums, and expects the error that names the
//! change.

use bytes::Bytes;
use shoal_codec::{Block, BlockError, Budget, ColumnSet, FixColumns};
use shoal_testkit::seal::{BLOCK_BYTES, COLUMNS, DIRECTORY_BYTES, HEADER, ROWS, seal, set, u64_at};

use crate::sample::{EARTH, encode, full, parse, plain, read};

/// Bytes of a directory entry with one raw node.
const ENTRY: usize = 56;

/// Changes a sealed copy of the full sample and returns the error of reading it.
fn refusal(offset: usize, field: &[u8]) -> BlockError {
    let mut bytes = encode(&full(), &EARTH, 3);
    bytes[offset..offset + field.len()].copy_from_slice(field);
    seal(&mut bytes);
    read(&bytes).expect_err("hostile bytes were accepted")
}

/// Checks changes of directory entries: chunk, offset in its entry, bytes, problem. The error
/// names chunk and byte.
fn assert_entries_refused(cases: &[(usize, usize, &[u8], &str)]) {
    for (chunk, offset, field, expected) in cases {
        let at = HEADER + chunk * ENTRY + offset;
        let error = refusal(at, field);
        match &error {
            BlockError::Chunk { chunk: named, offset, problem } => {
                assert_eq!((*named, *offset), (*chunk, at), "{error}");
                assert!(problem.contains(expected), "{expected}: {error}");
            }
            _ => panic!("chunk {chunk}, offset {offset}: {error}"),
        }
    }
}

#[test]
fn sealing_a_good_block_changes_nothing() {
    let whole = encode(&full(), &EARTH, 3);
    let mut bytes = whole.clone();
    seal(&mut bytes);
    assert_eq!(bytes, whole);
}

#[test]
fn identity_is_checked_first() {
    assert!(matches!(refusal(0, b"SHOALBLK"), BlockError::Magic { .. }));
    for major in [0_u16, 3, u16::MAX] {
        let error = refusal(8, &major.to_le_bytes());
        assert_eq!(error, BlockError::Version { major, minor: 0, known: 2 });
        assert!(error.to_string().contains(&major.to_string()));
    }
    // Bit 2 marks compact blocks. Bit 3 marks text columns, which only tables have.
    for flag in (0..32).filter(|flag| ![2, 3].contains(flag)) {
        let required = 1_u32 << flag;
        let error = refusal(12, &required.to_le_bytes());
        assert_eq!(error, BlockError::RequiredFlags { required, unknown: required });
    }
}

#[test]
fn newer_minor_versions_and_optional_flags_are_read() {
    let mut bytes = encode(&full(), &EARTH, 3);
    set(&mut bytes, 10, 7_u16.to_le_bytes());
    set(&mut bytes, 16, u32::MAX.to_le_bytes());
    seal(&mut bytes);
    assert_eq!(read(&bytes).unwrap(), full());
}

#[test]
fn a_billion_rows_in_a_tiny_block_are_refused_by_budget_and_by_bytes() {
    let error = refusal(ROWS, &1_000_000_000_u32.to_le_bytes());
    assert_eq!(
        error,
        BlockError::Budget { unit: "rows", value: 1_000_000_000, limit: (1 << 22) - 1 }
    );
    // With a generous budget and the same number of rows in all fields, the missing bytes are
    // reported.
    let mut bytes = encode(&plain(), &EARTH, 3);
    let rows = 1_000_000_000_u32;
    set(&mut bytes, ROWS, rows.to_le_bytes());
    for (chunk, width) in [8_u64, 4, 4, 4].into_iter().enumerate() {
        let entry = HEADER + chunk * ENTRY;
        let length = u64::from(rows) * width;
        set(&mut bytes, entry + 8, length.to_le_bytes());
        set(&mut bytes, entry + 24 + 8, rows.to_le_bytes());
        set(&mut bytes, entry + 48, length.to_le_bytes());
    }
    seal(&mut bytes);
    let (rows_max, bytes_max) = (u32::MAX, usize::MAX);
    let budget = Budget { rows_max, bytes_max, scratch_bytes_max: 0, text_bytes_max: 0 };
    let error = Block::parse(Bytes::from(bytes), &budget).unwrap_err();
    assert!(matches!(error, BlockError::Chunk { chunk: 0, .. }), "{error}");
    assert!(error.to_string().contains("8000000000"), "{error}");
}

#[test]
fn budgets_hold_at_limit_and_one_below() {
    let bytes = Bytes::from(encode(&full(), &EARTH, 3));
    let (rows_max, bytes_max) = (5, bytes.len());
    let budget = Budget { rows_max, bytes_max, scratch_bytes_max: 0, text_bytes_max: 0 };
    Block::parse(bytes.clone(), &budget).unwrap();
    let error = Block::parse(bytes.clone(), &Budget { rows_max: 4, ..budget }).unwrap_err();
    assert_eq!(error, BlockError::Budget { unit: "rows", value: 5, limit: 4 });
    let less = Budget { bytes_max: bytes_max - 1, ..budget };
    let error = Block::parse(bytes, &less).unwrap_err();
    let (value, limit) = (bytes_max as u64, bytes_max as u64 - 1);
    assert_eq!(error, BlockError::Budget { unit: "bytes", value, limit });
}

#[test]
fn header_fields_are_checked() {
    let reserved: [(usize, &[u8]); 12] = std::array::from_fn(|index| (112 + index, &[1][..]));
    let cases: [(usize, &[u8]); 7] = [
        (20, &64_u32.to_le_bytes()),
        (20, &u32::MAX.to_le_bytes()),
        (DIRECTORY_BYTES, &449_u32.to_le_bytes()),
        (DIRECTORY_BYTES, &32_768_u32.to_le_bytes()),
        (DIRECTORY_BYTES, &u32::MAX.to_le_bytes()),
        (86, &0_u16.to_le_bytes()),
        (86, &3_u16.to_le_bytes()),
    ];
    for (offset, field) in cases.into_iter().chain(reserved) {
        match refusal(offset, field) {
            BlockError::Header { offset: named, .. } => assert_eq!(named, offset),
            error => panic!("header byte {offset}: {error}"),
        }
    }
    for (offset, field) in [(88, "origin_x"), (96, "origin_y"), (104, "quantum")] {
        for value in [f64::NAN, f64::INFINITY] {
            let error = refusal(offset, &value.to_le_bytes());
            assert!(matches!(error, BlockError::Space { field: named, .. } if named == field));
        }
    }
    assert!(matches!(refusal(104, &(-1.0_f64).to_le_bytes()), BlockError::Space { .. }));
    for bytes in [0_u64, 1, 64, 128, 1024 + 1] {
        assert!(matches!(refusal(BLOCK_BYTES, &bytes.to_le_bytes()), BlockError::Header { .. }));
    }
    let error = refusal(BLOCK_BYTES, &u64::MAX.to_le_bytes());
    assert!(matches!(error, BlockError::Truncated { part: "block", needed: u64::MAX, .. }));
}

#[test]
fn time_beyond_the_range_of_i64_is_refused() {
    for base_time_ms in [i64::MAX, i64::MAX - i64::from(u32::MAX) + 1] {
        let error = refusal(48, &base_time_ms.to_le_bytes());
        assert_eq!(error, BlockError::TimeOverflow { base_time_ms, offset_ms: u32::MAX });
    }
}

#[test]
fn ranges_stand_least_first() {
    for (min_offset, max_offset) in [(64, 68), (72, 76)] {
        let mut bytes = encode(&full(), &EARTH, 3);
        set(&mut bytes, min_offset, 5_i32.to_le_bytes());
        set(&mut bytes, max_offset, 4_i32.to_le_bytes());
        seal(&mut bytes);
        let error = read(&bytes).unwrap_err();
        assert!(matches!(error, BlockError::Header { offset, .. } if offset == min_offset));
    }
    let mut bytes = encode(&full(), &EARTH, 3);
    set(&mut bytes, 56, 2_u32.to_le_bytes());
    set(&mut bytes, 60, 1_u32.to_le_bytes());
    seal(&mut bytes);
    assert!(matches!(read(&bytes).unwrap_err(), BlockError::Header { offset: 56, .. }));
    let mut bytes = encode(&FixColumns::new(), &EARTH, 3);
    set(&mut bytes, 68, 1_i32.to_le_bytes());
    seal(&mut bytes);
    assert!(matches!(read(&bytes).unwrap_err(), BlockError::Header { offset: 64, .. }));
}

#[test]
fn rows_outside_the_stated_range_and_box_are_named() {
    // Least and greatest value of the sample: time in rows 1 and 4, x in rows 2 and 4, y in rows 4
    // and 2.
    let cases = [
        (56, 1_i64, 1, "time", 1),
        (60, 4_294_967_294, 1, "time", 4),
        (64, -1_799_999_999, 2, "x", 2),
        (68, i64::from(i32::MAX) - 1, 2, "x", 4),
        (72, i64::from(i32::MIN) + 1, 3, "y", 4),
        (76, 899_999_999, 3, "y", 2),
    ];
    for (offset, limit, chunk, column, row) in cases {
        let mut bytes = encode(&full(), &EARTH, 3);
        set(&mut bytes, offset, (limit as u32).to_le_bytes());
        seal(&mut bytes);
        let block = parse(&bytes).unwrap();
        let error = block.decode().unwrap_err();
        let named = matches!(
            &error,
            BlockError::RowOutside { chunk: c, column: n, row: r, .. }
                if (*c, *n, *r) == (chunk, column, row)
        );
        assert!(named, "{error}");
        // A range without the bad row decodes. For a range that begins at the bad row, the error
        // has its number in the block.
        let mut out = full();
        block.decode_rows(0..1, &mut out).unwrap();
        let again = block.decode_rows(row..5, &mut out).unwrap_err();
        assert!(matches!(again, BlockError::RowOutside { row: r, .. } if r == row), "{again}");
        assert!(out.is_empty());
        // The error appears only if the column is requested.
        let own = ColumnSet::ALL.iter().filter(|own| own.name() == column);
        let own = own.fold(ColumnSet::NONE, ColumnSet::with);
        block.decode_columns(0..5, ColumnSet::ALL.without(own), &mut out).unwrap();
        let alone = block.decode_columns(row..5, own, &mut out).unwrap_err();
        assert_eq!(alone, again);
        assert!(out.is_empty());
    }
}

#[test]
fn chunk_entries_are_checked() {
    assert_entries_refused(&[
        (0, 0, &0_u16.to_le_bytes(), "not known"),
        (3, 0, &10_u16.to_le_bytes(), "not known"),
        (3, 0, &u16::MAX.to_le_bytes(), "not known"),
        (1, 0, &1_u16.to_le_bytes(), "twice"),
        (5, 0, &5_u16.to_le_bytes(), "twice"),
        (2, 0, &1_u16.to_le_bytes(), "ascending"),
        (0, 0, &2_u16.to_le_bytes(), "missing"),
        (3, 0, &5_u16.to_le_bytes(), "missing"),
        (2, 2, &[3], "value type"),
        (2, 3, &[0], "nodes"),
        (2, 3, &[17], "nodes"),
        (2, 4, &1_u32.to_le_bytes(), "part is 1, it must be 0"),
        (2, 8, &19_u64.to_le_bytes(), "decoded length"),
        (2, 8, &u64::MAX.to_le_bytes(), "decoded length"),
        (2, 16, &65_u32.to_le_bytes(), "sections"),
        (2, 16, &u32::MAX.to_le_bytes(), "sections"),
    ]);
}

#[test]
fn plans_are_checked() {
    const NODE: usize = 24;
    assert_entries_refused(&[
        (4, NODE, &0_u16.to_le_bytes(), "encoding 0"),
        (4, NODE, &20_u16.to_le_bytes(), "encoding 20"),
        (4, NODE + 2, &[0], "value type"),
        (4, NODE + 2, &[11], "value type"),
        (4, NODE + 2, &[7], "value type"),
        (4, NODE + 3, &[1], "children"),
        (4, NODE + 4, &[0], "sections"),
        (4, NODE + 4, &[2], "sections"),
    ]);
    for reserved in 5..8 {
        assert_entries_refused(&[(4, NODE + reserved, &[1], "reserved")]);
    }
    assert_entries_refused(&[
        (4, NODE + 8, &6_u32.to_le_bytes(), "6 values"),
        (4, NODE + 12, &1_u32.to_le_bytes(), "parameter"),
        (4, NODE + 16, &1_u64.to_le_bytes(), "parameter"),
    ]);
}

#[test]
fn sections_tile_the_payload() {
    for length in [0_u64, 19, 21, 64] {
        assert_entries_refused(&[(4, 48, &length.to_le_bytes(), "raw section")]);
    }
    for length in [65_536, u64::MAX, u64::MAX - 63] {
        assert_entries_refused(&[(4, 48, &length.to_le_bytes(), "the block has")]);
    }
}

#[test]
fn padding_is_zero() {
    let whole = encode(&full(), &EARTH, 3);
    // The last section holds five u32, so the last 44 bytes are padding.
    for offset in [whole.len() - 1, whole.len() - 44] {
        let mut bytes = whole.clone();
        bytes[offset] = 1;
        seal(&mut bytes);
        let error = read(&bytes).unwrap_err();
        assert!(matches!(error, BlockError::Chunk { chunk: 7, offset: o, .. } if o == offset));
    }
    let mut bytes = encode(&plain(), &EARTH, 3);
    bytes[HEADER + 4 * ENTRY] = 1;
    seal(&mut bytes);
    let error = read(&bytes).unwrap_err();
    assert!(error.to_string().contains("padding"), "{error}");
}

#[test]
fn column_counts_agree_with_the_directory() {
    for columns in [0_u16, 1, 3] {
        let error = refusal(COLUMNS, &columns.to_le_bytes());
        assert!(error.to_string().contains("missing"), "{columns}: {error}");
    }
    for columns in [4_u16, 7, 9, u16::MAX] {
        let error = refusal(COLUMNS, &columns.to_le_bytes());
        let refused = matches!(error, BlockError::Chunk { .. } | BlockError::Truncated { .. });
        assert!(refused, "{columns}: {error}");
    }
}

#[test]
fn a_directory_with_too_much_room_is_refused() {
    let mut bytes = encode(&plain(), &EARTH, 3);
    let length = u64_at(&bytes, BLOCK_BYTES).unwrap();
    bytes.splice(HEADER + 256..HEADER + 256, [0; 64]);
    set(&mut bytes, BLOCK_BYTES, (length + 64).to_le_bytes());
    set(&mut bytes, DIRECTORY_BYTES, 320_u32.to_le_bytes());
    seal(&mut bytes);
    let error = read(&bytes).unwrap_err();
    assert!(error.to_string().contains("directory must end"), "{error}");
}
