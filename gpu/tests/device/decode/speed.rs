//! Prints the decode rates of given trees and the times of stage dispatch. Asserts no time.
//!
//! Each tree decodes to 64 MiB in device memory. The time is the shortest of several runs, measured
//! by the device. Rates count the bytes written.

use std::sync::Arc;

use shoal_codec::{
    Block, BlockCodec, BlockPlan, Budget, Column, CpuCodec, EncodedTree, FixColumns, FixRow,
    Grouping, Keys, Values, encode_column,
};
use shoal_engine::{Backend as _, CycleInput, EngineOptions, Request, Space};
use shoal_gpu::{CudaBackend, EncodedColumn, Gpu};
use shoal_testkit::Random;

use crate::sample::{bytes_of, tree};

const ROWS: usize = 16 << 20;
const RUNS: usize = 12;

/// Positions of objects on a walk, as one coordinate.
fn walk(chance: &mut Random, rows: usize, keys: &[u64]) -> Vec<i32> {
    let mut places = vec![0_i32; 1 + keys.iter().copied().max().unwrap_or(0) as usize];
    (0..rows)
        .map(|row| {
            let place = &mut places[keys.get(row).copied().unwrap_or(0) as usize];
            *place = place.wrapping_add((chance.word() % 4001) as i32 - 2000);
            if chance.below(200) == 0 {
                *place = place.wrapping_add(1_000_000);
            }
            *place
        })
        .collect()
}

/// Headings similar to recorded ones: short runs of a few directions, with other values between
/// the runs.
fn headings(chance: &mut Random, rows: usize) -> Vec<u16> {
    let mut headings = Vec::with_capacity(rows);
    while headings.len() < rows {
        let direction = 2400 * chance.below(15) as u16;
        headings.extend(std::iter::repeat_n(direction, 1 + chance.below(3)));
        for _ in 0..=chance.below(7) {
            headings.push(chance.below(36_000) as u16);
        }
    }
    headings.truncate(rows);
    headings
}

fn measure(name: &str, encoded: &EncodedTree, key: Option<&EncodedTree>) {
    measure_together(name, &[EncodedColumn { encoded, key }]);
}

/// Columns that one launch decodes.
fn measure_together(name: &str, columns: &[EncodedColumn<'_>]) {
    let mut decoder = super::decoder::decoder();
    let decoded = decoder.columns(columns).unwrap();
    assert!(decoded.into_iter().all(|column| column.is_ok()), "{name}");
    let bytes = |column: &EncodedColumn<'_>| {
        let root = column.encoded.plan.root();
        root.values as usize * root.value_type.width_bytes()
    };
    let bytes: usize = columns.iter().map(bytes).sum();
    let best = (0..RUNS).map(|_| decoder.decode().unwrap()).fold(f32::MAX, f32::min);
    let input: usize =
        columns.iter().flat_map(|column| &column.encoded.sections).map(Vec::len).sum();
    let rate = bytes as f32 / best / 1e6;
    let ratio = bytes as f32 / input as f32;
    println!("{name:44} {:8.1} us {rate:8.1} GB/s, ratio {ratio:.2}", 1e3 * best);
}

/// 1,000 columns of 64 KiB in one launch.
fn rates_of_small_columns(values: &Values, bytes: &Values) {
    for (values, text) in
        [(values, "delta.z(afl)"), (values, "delta.z(huffman)"), (bytes, "huffman")]
    {
        let rows = (64 << 10) / values.value_type().width_bytes();
        let parts: Vec<EncodedTree> = (0..1000)
            .map(|part| values.slice(part * rows, (part + 1) * rows))
            .map(|part| encode_column(&part, &tree(text), None).unwrap())
            .collect();
        let columns: Vec<_> =
            parts.iter().map(|encoded| EncodedColumn { encoded, key: None }).collect();
        measure_together(&format!("1,000 of 64 KiB, {:?} {text}", values.value_type()), &columns);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU; measures"]
fn rates_of_common_trees() {
    let mut chance = Random::new(1);
    let values = Values::I32(walk(&mut chance, ROWS, &[]));
    let wide: Vec<i64> =
        walk(&mut chance, ROWS / 2, &[]).into_iter().map(|it| i64::from(it) << 12).collect();
    let (wide, few_ids) = (
        Values::I64(wide),
        Values::U64((0..ROWS / 2).map(|_| 1_000_003 * (chance.word() % 5000)).collect()),
    );
    let runs = Values::U32((0..ROWS as u32).map(|row| row / 40 * 1000).collect());
    let headings = headings(&mut chance, 2 * ROWS);
    let wider = Values::U32(headings[..ROWS].iter().map(|&it| u32::from(it)).collect());
    let headings = Values::U16(headings);
    let bytes = Values::U8(
        (0..4 * ROWS).map(|_| (chance.word() % 7 * (chance.word() % 11)) as u8).collect(),
    );
    let cases = [
        (&values, "raw"),
        (&values, "afl"),
        (&values, "scale(afl)"),
        (&values, "delta.z(afl)"),
        (&values, "delta.z(patch(afl))"),
        (&values, "delta2.z(patch(afl))"),
        (&wide, "scale(afl)"),
        (&wide, "delta.z(afl)"),
        (&wide, "delta.z(patch(afl))"),
        (&few_ids, "dict.65536(patch(afl))"),
        (&runs, "delta.z(rle(afl, afl))"),
        (&headings, "dict.15(rle(afl, afl), scale(afl))"),
        (&wider, "dict.15(rle(afl, afl), scale(afl))"),
        (&wider, "dict.65536(rle(afl, afl))"),
        (&values, "delta.z(huffman)"),
        (&values, "delta2.z(huffman)"),
        (&wide, "delta.z(huffman)"),
        (&bytes, "huffman"),
    ];
    for (values, text) in cases {
        let encoded = encode_column(values, &tree(text), None).unwrap();
        measure(&format!("{:?} {text}", values.value_type()), &encoded, None);
    }
    rates_of_small_columns(&values, &bytes);
    let keys: Vec<u64> = (0..ROWS).map(|_| chance.word() % 5000).collect();
    let walks = Values::I32(walk(&mut chance, ROWS, &keys));
    let grouping = Grouping::new(&keys);
    let keys = Values::U64(keys.into_iter().map(|key| key * 1_000_003).collect());
    let key = encode_column(&keys, &tree("dict.65536(patch(afl))"), None).unwrap();
    let keyed = [
        "group(afl)",
        "keyed_delta.z(patch(afl), scale(afl))",
        "keyed_delta2.z(patch(afl), scale(afl))",
        "keyed_delta2.z(huffman, scale(afl))",
    ];
    measure("the key column alone", &key, None);
    for text in keyed {
        let with = Keys { grouping: &grouping, column: 1 };
        let encoded = encode_column(&walks, &tree(text), Some(with)).unwrap();
        measure(&format!("{text}, with its keys"), &encoded, Some(&key));
    }
    // The same with keys that are not codes of a dictionary.
    let Values::U64(keys) = &keys else { unreachable!("as made above") };
    for (name, divisor) in [("far apart", 1), ("close together", 1_000_003)] {
        let keys = Values::U64(keys.iter().map(|key| key / divisor).collect());
        let key = encode_column(&keys, &tree("scale(afl)"), None).unwrap();
        let with = Keys { grouping: &grouping, column: 1 };
        let encoded = encode_column(&walks, &tree(keyed[1]), Some(with)).unwrap();
        measure(&format!("{}, keys {name}", keyed[1]), &encoded, Some(&key));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU; measures"]
fn rates_of_text() {
    let text = Values::U8(bytes_of(&mut Random::new(2), 0, 4 * ROWS));
    let trees = ["stateless.16.16", "lzw.4(afl)", "lzw.16(afl)", "lzw.16(huffman)", "lzw.64(afl)"];
    for name in trees {
        measure(name, &encode_column(&text, &tree(name), None).unwrap(), None);
    }
}

/// Blocks of `rows` fixes each, grouped by cycle. The objects move from cycle to cycle.
fn cycles(plan: &BlockPlan, space: &Space, rows: usize) -> Vec<Vec<Block>> {
    let mut chance = Random::new(3);
    let mut places: Vec<(i32, i32)> =
        (0..OBJECTS).map(|_| (chance.word() as i32 / 4, chance.word() as i32 / 8)).collect();
    let mut time_ms = 1_704_067_200_000;
    let mut block = || {
        let mut columns = FixColumns::with_capacity(rows);
        // Objects report by region, so a block has only some of them.
        let first = chance.below(OBJECTS - BLOCK_OBJECTS);
        for row in 0..rows {
            let object = first + chance.below(BLOCK_OBJECTS);
            let (x, y) = &mut places[object];
            *x += chance.below(4001) - 2000;
            *y += chance.below(4001) - 2000;
            let time_ms = time_ms + row as i64 / 7;
            columns.push_row(FixRow::new(object as u64 * 1_000_003, time_ms, *x, *y));
        }
        time_ms += 10;
        let mut bytes = Vec::new();
        CpuCodec.encode_planned(&columns, plan, &space.tag(), 1, &mut bytes).unwrap();
        Block::parse(bytes.into(), &Budget::default()).unwrap()
    };
    (0..CYCLES).map(|_| (0..CYCLE_ROWS / rows).map(|_| block()).collect()).collect()
}

/// Milliseconds of stage dispatch of each cycle, one after another.
fn dispatch_ms(space: &Space, cycles: &[Vec<Block>]) -> Vec<f32> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    let mut backend = CudaBackend::new(&gpu, EngineOptions::new(*space)).unwrap();
    let recorder = backend.recorder();
    let mut spans = Vec::new();
    for blocks in cycles {
        let requests = Arc::new(blocks.iter().cloned().map(Request::Block).collect());
        let (system_ms, time_max_ms) = (1_704_067_200_000, i64::MAX);
        recorder.start().unwrap();
        let input = CycleInput { system_ms, time_max_ms, requests, ..CycleInput::default() };
        let ticket = backend.submit(input).unwrap();
        let output = backend.wait(ticket).unwrap();
        assert!(output.requests.iter().all(|outcome| outcome.block_error.is_none()));
        let recorded = recorder.stop().unwrap().spans;
        let dispatch = recorded.iter().find(|span| span.stage == "dispatch").unwrap();
        spans.push(dispatch.end_ms - dispatch.begin_ms);
    }
    spans
}

const OBJECTS: usize = 1_000_000;
const BLOCK_OBJECTS: usize = 8_000;
const CYCLE_ROWS: usize = 1 << 20;
const CYCLES: usize = 8;

#[test]
#[ignore = "needs an NVIDIA GPU; measures"]
fn dispatch_of_encoded_blocks() {
    let space = Space::geographic();
    let delta = || tree("delta.z(patch(afl))");
    let flat = BlockPlan::fixes().with(Column::X, delta()).with(Column::Y, delta());
    for rows in [1 << 16, 1 << 18, 1 << 10] {
        for (name, plan) in
            [("raw", &BlockPlan::raw()), ("no keys", &flat), ("fixes", &BlockPlan::fixes())]
        {
            let cycles = cycles(plan, &space, rows);
            let bytes: usize = cycles[0].iter().map(|block| block.bytes().len()).sum();
            let mut spans = dispatch_ms(&space, &cycles);
            // The first cycles allocate memory, so their times are dropped.
            let mut spans = spans.split_off(3);
            spans.sort_by(f32::total_cmp);
            let (middle, each) = (1e3 * spans[spans.len() / 2], bytes as f32 / CYCLE_ROWS as f32);
            println!("{name:8} {rows:7} rows a block, {each:5.2} bytes a row: {middle:7.1} us");
        }
    }
}
