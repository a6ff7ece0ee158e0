//! Round trips: every shape of columns, every range
//! of rows, reused buffers.

use shoal_codec::{BlockCodec, BlockError, Column, CpuCodec, FixColumns, FixRow};
use shoal_testkit::Random;

use crate::sample::{EARTH, PLANE, encode, full, parse, plain, random, read};

#[test]
fn hand_made_rows_round_trip_with_their_header() {
    let columns = full();
    let block = parse(&encode(&columns, &PLANE, 42)).unwrap();
    assert_eq!(block.decode().unwrap(), columns);
    let header = block.header();
    assert_eq!((header.version_major, header.version_minor), (1, 0));
    assert_eq!((header.rows, header.columns, header.sequence), (5, 8, 42));
    assert_eq!(header.space, PLANE);
    assert_eq!(header.time_min_ms(), *columns.time_ms.iter().min().unwrap());
    assert_eq!(header.time_max_ms(), *columns.time_ms.iter().max().unwrap());
    assert_eq!((header.x_min, header.x_max), (-1_800_000_000, i32::MAX));
    assert_eq!((header.y_min, header.y_max), (i32::MIN, 900_000_000));
    assert_eq!(block.chunks().len(), 8);
    for ((stored, chunk), column) in block.columns().zip(Column::ALL) {
        assert_eq!(stored, column);
        assert!(chunk.sections[0].start.is_multiple_of(64));
    }
}

#[test]
fn row_counts_around_every_boundary_round_trip() {
    let seed = 11;
    let mut chance = Random::new(seed);
    let counts = [0, 1, 2, 15, 16, 17, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 70_000];
    for rows in counts {
        for space in [EARTH, PLANE] {
            let columns = random(&mut chance, rows);
            let sequence = chance.edgy();
            let block = parse(&encode(&columns, &space, sequence)).unwrap();
            assert_eq!(block.header().sequence, sequence, "seed {seed}, {rows} rows");
            assert_eq!(block.rows(), rows, "seed {seed}");
            assert_eq!(block.decode().unwrap(), columns, "seed {seed}, {rows} rows");
        }
    }
}

#[test]
fn random_columns_and_ranges_round_trip_in_reused_buffers() {
    let seed = 12;
    let mut chance = Random::new(seed);
    let mut bytes = Vec::new();
    let mut out = FixColumns::new();
    for case in 0..2_000 {
        let rows = chance.below(200);
        let columns = random(&mut chance, rows);
        CpuCodec.encode(&columns, &EARTH, case, &mut bytes).unwrap();
        let block = parse(&bytes).unwrap();
        let start = chance.below(rows + 1);
        let end = start + chance.below(rows - start + 1);
        block.decode_rows(start..end, &mut out).unwrap();
        assert_eq!(out.len(), end - start, "seed {seed}, case {case}");
        out.check().unwrap();
        assert_eq!(out.column_set(), columns.column_set(), "seed {seed}, case {case}");
        for index in start..end {
            let (found, expected) = (out.row(index - start), columns.row(index));
            assert_eq!(found, expected, "seed {seed}, case {case}, row {index}");
        }
    }
}

#[test]
fn equal_input_gives_equal_bytes_whatever_the_buffer_held() {
    let mut dirty = vec![0xff; 100_000];
    CpuCodec.encode(&full(), &EARTH, 7, &mut dirty).unwrap();
    assert_eq!(dirty, encode(&full(), &EARTH, 7));
}

#[test]
fn extreme_times_fit_as_long_as_their_span_does() {
    for (first, last) in [
        (i64::MIN, i64::MIN + i64::from(u32::MAX)),
        (i64::MAX - i64::from(u32::MAX), i64::MAX),
        (-1, 1),
        (i64::MAX, i64::MAX),
    ] {
        let mut columns = FixColumns::new();
        columns.push_row(FixRow::new(1, last, 0, 0));
        columns.push_row(FixRow::new(2, first, 0, 0));
        assert_eq!(read(&encode(&columns, &EARTH, 0)).unwrap(), columns);
    }
}

#[test]
fn a_batch_that_cannot_be_a_block_is_refused_with_its_limit() {
    let mut out = vec![1, 2, 3];
    let mut columns = plain();
    columns.push_row(FixRow::new(1, columns.time_ms[1] + (1 << 32), 0, 0));
    let error = CpuCodec.encode(&columns, &EARTH, 0, &mut out).unwrap_err();
    assert_eq!(error, BlockError::TimeSpan { span_ms: 1 << 32, limit_ms: u32::MAX });
    let message = error.to_string();
    assert!(message.contains("4294967296") && message.contains("4294967295"), "{message}");
    assert!(out.is_empty());

    columns.time_ms[0] = i64::MIN;
    columns.time_ms[1] = i64::MAX;
    let error = CpuCodec.encode(&columns, &EARTH, 0, &mut out).unwrap_err();
    assert!(matches!(error, BlockError::TimeSpan { span_ms: u64::MAX, .. }));

    columns.x.pop();
    let error = CpuCodec.encode(&columns, &EARTH, 0, &mut out).unwrap_err();
    assert!(matches!(error, BlockError::ColumnLength { column: "x", length: 3, rows: 4 }));

    let flat = shoal_codec::SpaceTag { quantum: 0.0, ..EARTH };
    let error = CpuCodec.encode(&plain(), &flat, 0, &mut out).unwrap_err();
    assert!(matches!(error, BlockError::Space { field: "quantum", .. }));
}

#[test]
fn rows_that_the_block_lacks_are_refused() {
    let block = parse(&encode(&plain(), &EARTH, 0)).unwrap();
    let mut out = full();
    let backwards = std::ops::Range { start: 2, end: 1 };
    for rows in [0..4, 4..4, backwards, 0..usize::MAX] {
        let error = block.decode_rows(rows.clone(), &mut out).unwrap_err();
        let expected = BlockError::RowRange { start: rows.start, end: rows.end, rows: 3 };
        assert_eq!(error, expected);
        assert!(out.is_empty());
    }
    block.decode_rows(3..3, &mut out).unwrap();
    assert!(out.is_empty());
}
