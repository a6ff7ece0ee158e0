//! How fast are columns decoded that are on the device already? Prints, asserts nothing of it.
//!
//! 64 MiB of output a tree, the best of some runs by the device's clock; bytes written count.

use shoal_codec::{
    Block, BlockCodec, BlockPlan, Budget, Column, CpuCodec, EncodedTree, FixColumns, FixRow,
    Grouping, Keys, Mode, SpaceKind, SpaceTag, Tree, Values, encode_column,
};
use shoal_engine::{Backend as _, CycleInput, EngineOptions, Request, Space};
use shoal_gpu::{CudaBackend, EncodedColumn, Gpu};

use crate::random::Random;

const ROWS: usize = 16 << 20;
const RUNS: usize = 12;

/// Positions of objects on a walk, as one coordinate.
fn walk(chance: &mut Random, rows: usize, keys: &[u64]) -> Vec<i32> {
    let mut places = vec![0_i32; 1 + keys.iter().copied().max().unwrap_or(0) as usize];
    (0..rows)
        .map(|row| {
            let place = &mut places[keys.get(row).copied().unwrap_or(0) as usize];
            *place += (chance.next() % 4001) as i32 - 2000;
            if chance.below(200) == 0 {
                *place += 1_000_000;
            }
            *place
        })
        .collect()
}

/// Headings as recorded ones are: short runs of few directions, between stretches of others.
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
    let mut decoder = crate::decoder();
    let decoded = decoder.columns(&[EncodedColumn { encoded, key }]).unwrap();
    assert!(decoded.into_iter().all(|column| column.is_ok()), "{name}");
    let root = encoded.plan.root();
    let bytes = root.values as usize * root.value_type.width_bytes();
    let best = (0..RUNS).map(|_| decoder.decode().unwrap()).fold(f32::MAX, f32::min);
    let input: usize = encoded.sections.iter().map(Vec::len).sum();
    let rate = bytes as f32 / best / 1e6;
    let ratio = bytes as f32 / input as f32;
    println!("{name:44} {:8.1} us {rate:8.1} GB/s, ratio {ratio:.2}", 1e3 * best);
}

#[test]
#[ignore = "needs an NVIDIA GPU; measures"]
fn rates_of_common_trees() {
    let mut chance = Random::new(1);
    let z = Mode::Zigzag;
    let afl = || Box::new(Tree::Afl);
    let patched = || Box::new(Tree::Patch(afl()));
    let values = Values::I32(walk(&mut chance, ROWS, &[]));
    let wide: Vec<i64> =
        walk(&mut chance, ROWS / 2, &[]).into_iter().map(|it| i64::from(it) << 12).collect();
    let (wide, few) = (
        Values::I64(wide),
        Values::U64((0..ROWS / 2).map(|_| 1_000_003 * (chance.next() % 5000)).collect()),
    );
    let runs = Values::U32((0..ROWS as u32).map(|row| row / 40 * 1000).collect());
    let headings = headings(&mut chance, 2 * ROWS);
    let wider = Values::U32(headings[..ROWS].iter().map(|&it| u32::from(it)).collect());
    let headings = Values::U16(headings);
    let frequent =
        || Tree::Dict(15, Tree::Rle(afl(), afl()).into(), Some(Tree::Scale(afl()).into()));
    let cases = [
        (&values, Tree::Raw),
        (&values, Tree::Afl),
        (&values, Tree::Scale(afl())),
        (&values, Tree::Delta(z, afl())),
        (&values, Tree::Delta(z, patched())),
        (&values, Tree::Delta2(z, patched())),
        (&wide, Tree::Scale(afl())),
        (&wide, Tree::Delta(z, afl())),
        (&wide, Tree::Delta(z, patched())),
        (&few, Tree::Dict(65_536, patched(), None)),
        (&runs, Tree::Delta(z, Tree::Rle(afl(), afl()).into())),
        (&headings, frequent()),
        (&wider, frequent()),
        (&wider, Tree::Dict(65_536, Tree::Rle(afl(), afl()).into(), None)),
    ];
    for (values, tree) in cases {
        let encoded = encode_column(values, &tree, None).unwrap();
        measure(&format!("{:?} {tree}", values.value_type()), &encoded, None);
    }
    let keys: Vec<u64> = (0..ROWS).map(|_| chance.next() % 5000).collect();
    let walks = Values::I32(walk(&mut chance, ROWS, &keys));
    let grouping = Grouping::new(&keys);
    let keys = Values::U64(keys.into_iter().map(|key| key * 1_000_003).collect());
    let key = encode_column(&keys, &Tree::Dict(65_536, patched(), None), None).unwrap();
    let keyed = [
        Tree::Group(afl()),
        Tree::KeyedDelta(z, patched(), Tree::Scale(afl()).into()),
        Tree::KeyedDelta2(z, patched(), Tree::Scale(afl()).into()),
    ];
    measure("the key column alone", &key, None);
    for tree in keyed {
        let with = Keys { grouping: &grouping, column: 1 };
        let encoded = encode_column(&walks, &tree, Some(with)).unwrap();
        measure(&format!("{tree}, with its keys"), &encoded, Some(&key));
    }
    // The same with keys that are no dictionary's codes.
    let Values::U64(keys) = &keys else { unreachable!("as made above") };
    for (name, divisor) in [("far apart", 1), ("close together", 1_000_003)] {
        let keys = Values::U64(keys.iter().map(|key| key / divisor).collect());
        let key = encode_column(&keys, &Tree::Scale(afl()), None).unwrap();
        let tree = Tree::KeyedDelta(z, patched(), Tree::Scale(afl()).into());
        let with = Keys { grouping: &grouping, column: 1 };
        let encoded = encode_column(&walks, &tree, Some(with)).unwrap();
        measure(&format!("{tree}, keys {name}"), &encoded, Some(&key));
    }
}

/// Blocks of fixes of a walk, `rows` each.
fn blocks(count: usize, rows: usize, plan: &BlockPlan) -> Vec<Block> {
    let space =
        SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };
    let mut chance = Random::new(2);
    let keys: Vec<u64> = (0..rows).map(|_| chance.next() % 5000).collect();
    let mut columns = FixColumns::with_capacity(rows);
    let (x, y) = (walk(&mut chance, rows, &keys), walk(&mut chance, rows, &keys));
    for row in 0..rows {
        let time_ms = 1_700_000_000_000 + row as i64 / 9;
        columns.push_row(FixRow::new(keys[row] * 1_000_003, time_ms, x[row], y[row]));
    }
    let mut bytes = Vec::new();
    CpuCodec.encode_planned(&columns, plan, &space, 1, &mut bytes).unwrap();
    let block = Block::parse(bytes.into(), &Budget::default()).unwrap();
    vec![block; count]
}

#[test]
#[ignore = "needs an NVIDIA GPU; measures"]
fn rates_of_blocks() {
    let patched = || Box::new(Tree::Patch(Tree::Afl.into()));
    let delta = || Tree::Delta(Mode::Zigzag, patched());
    let flat = BlockPlan::fixes().with(Column::X, delta()).with(Column::Y, delta());
    let no_codes = BlockPlan::fixes().with(Column::Object, Tree::Scale(Tree::Afl.into()));
    for (name, plan) in [("fixes", BlockPlan::fixes()), ("no codes", no_codes), ("no keys", flat)] {
        for (count, rows) in [(1, 1 << 20), (16, 1 << 16), (64, 1 << 16), (1000, 3277)] {
            let blocks = blocks(count, rows, &plan);
            let mut decoder = crate::decoder();
            decoder.load_blocks(&blocks).unwrap();
            let best = (0..RUNS).map(|_| decoder.decode().unwrap()).fold(f32::MAX, f32::min);
            let bytes = 20 * count * rows;
            let ratio = bytes as f32 / (count * blocks[0].bytes().len()) as f32;
            let rate = bytes as f32 / best / 1e6;
            println!(
                "{name:8} {count:5} x {rows:7} rows {:8.1} us {rate:8.1} GB/s, ratio {ratio:.2}",
                1e3 * best
            );
        }
    }
}

/// Cycles of blocks of fixes, `rows` each, of objects that move on from cycle to cycle.
fn cycles(plan: &BlockPlan, space: &Space, rows: usize) -> Vec<Vec<Block>> {
    let mut chance = Random::new(3);
    let mut places: Vec<(i32, i32)> =
        (0..OBJECTS).map(|_| (chance.next() as i32 / 4, chance.next() as i32 / 8)).collect();
    let mut time_ms = 1_704_067_200_000;
    let mut block = || {
        let mut columns = FixColumns::with_capacity(rows);
        // Objects report by region, so a block has some of them only.
        let first = chance.below(OBJECTS - BLOCK_OBJECTS);
        for row in 0..rows {
            let object = first + chance.below(BLOCK_OBJECTS);
            let (x, y) = &mut places[object];
            *x += chance.below(4001) as i32 - 2000;
            *y += chance.below(4001) as i32 - 2000;
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
        let requests = blocks.iter().cloned().map(Request::Block).collect();
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
    let patched = || Box::new(Tree::Patch(Tree::Afl.into()));
    let delta = || Tree::Delta(Mode::Zigzag, patched());
    let flat = BlockPlan::fixes().with(Column::X, delta()).with(Column::Y, delta());
    for rows in [1 << 16, 1 << 18, 1 << 10] {
        for (name, plan) in
            [("raw", &BlockPlan::raw()), ("no keys", &flat), ("fixes", &BlockPlan::fixes())]
        {
            let cycles = cycles(plan, &space, rows);
            let bytes: usize = cycles[0].iter().map(|block| block.bytes().len()).sum();
            let mut spans = dispatch_ms(&space, &cycles);
            // The first cycles make room.
            let mut spans = spans.split_off(3);
            spans.sort_by(f32::total_cmp);
            let (middle, each) = (1e3 * spans[spans.len() / 2], bytes as f32 / CYCLE_ROWS as f32);
            println!("{name:8} {rows:7} rows a block, {each:5.2} bytes a row: {middle:7.1} us");
        }
    }
}
