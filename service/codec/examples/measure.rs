//! Measures ratio and speed of the codec on one core.
//!
//! `measure AIM FILE...` cuts gzip CSV files into blocks of 65,536 rows in file order, encodes each
//! with the trees of a planner, checks that it decodes to the same rows, and prints ratio (against
//! 20 bytes a row), bits a row of each column, and speeds (bytes of raw columns, best of five
//! runs). `measure --trees` times single trees on columns of 1 Mi values; `measure --text FILE...`
//! times trees of bytes on columns of 4 MiB of each file. No speed is checked.

#![allow(clippy::unwrap_used, reason = "an example stops where something is wrong")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use shoal_codec::limits::TIME_SPAN_MS_MAX;
use shoal_codec::{
    Aim, Block, BlockCodec, Budget, Column, CpuCodec, EncodedTree, FixColumns, Grouping, Keys,
    Planner, SpaceKind, SpaceTag, Tree, Values, decode_column, decode_column_into, encode_column,
};
use shoal_table::{CsvReader, FixFileOptions, SpeedUnit};

const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };
const BLOCK_ROWS: usize = 65_536;
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--trees") {
        return trees();
    }
    if arguments.first().is_some_and(|argument| argument == "--text") {
        return text(&arguments[1..]);
    }
    let mut total = Sizes::default();
    let (aims, files) = arguments.split_at(arguments.len().min(1));
    let aim = aims.first().map_or(Aim::Fast, |aim| aim.parse().unwrap());
    for file in files {
        let mut sizes = Sizes::default();
        let mut planner = Planner::new(1, aim);
        for batch in batches(Path::new(file)) {
            sizes.add(&batch, &mut planner);
        }
        sizes.print(Path::new(file).file_name().unwrap().to_str().unwrap());
        total.raw += sizes.raw;
        total.encoded += sizes.encoded;
    }
    println!("total ratio {:.3}", total.raw as f64 / total.encoded as f64);
}

/// Reads the rows of a file in batches that fit a block.
fn batches(file: &Path) -> Vec<FixColumns> {
    let mut batches = vec![FixColumns::new()];
    for row in CsvReader::open(file, &FixFileOptions::strict(SpeedUnit::MetresPerSecond)).unwrap() {
        let fix = row.unwrap();
        let batch = batches.last_mut().unwrap();
        let first = batch.time_ms.first().copied().unwrap_or(fix.time_ms);
        if batch.len() == BLOCK_ROWS || fix.time_ms - first > i64::from(TIME_SPAN_MS_MAX) {
            batches.push(FixColumns::new());
        }
        let batch = batches.last_mut().unwrap();
        batch.object.push(fix.object);
        batch.time_ms.push(fix.time_ms);
        batch.x.push((fix.x * 1e7).round_ties_even() as i32);
        batch.y.push((fix.y * 1e7).round_ties_even() as i32);
    }
    batches
}

/// Sizes and times of the blocks of one file.
#[derive(Default)]
struct Sizes {
    rows: usize,
    raw: usize,
    encoded: usize,
    columns: [usize; 4],
    plan_s: f64,
    encode_s: f64,
    decode_s: f64,
}

impl Sizes {
    fn add(&mut self, batch: &FixColumns, planner: &mut Planner) {
        let start = Instant::now();
        let plan = planner.plan(batch).unwrap();
        self.plan_s += start.elapsed().as_secs_f64();
        let mut bytes = Vec::new();
        let mut outcome = Vec::new();
        self.encode_s += best(|| {
            outcome = CpuCodec.encode_planned(batch, &plan, &SPACE, 0, &mut bytes).unwrap();
        });
        planner.finish(&outcome, &mut bytes).unwrap();
        let block = Block::parse(bytes.clone().into(), &Budget::default()).unwrap();
        let mut decoded = FixColumns::new();
        self.decode_s += best(|| block.decode_rows(0..block.rows(), &mut decoded).unwrap());
        assert_eq!(&decoded, batch);
        self.rows += batch.len();
        self.raw += 20 * batch.len();
        self.encoded += bytes.len();
        for (sum, column) in self.columns.iter_mut().zip(&outcome) {
            assert!(Column::ALL.contains(&column.column));
            *sum += column.encoded_bytes;
        }
    }

    fn print(&self, name: &str) {
        let bits = self.columns.map(|bytes| 8.0 * bytes as f64 / self.rows as f64);
        println!(
            "{name:34} ratio {:6.3}  bits a row: id {:5.2} time {:5.2} x {:5.2} y {:5.2}  \
             plan {:.1} MB/s encode {:.2} GB/s decode {:.2} GB/s",
            self.raw as f64 / self.encoded as f64,
            bits[0],
            bits[1],
            bits[2],
            bits[3],
            self.raw as f64 / self.plan_s / 1e6,
            self.raw as f64 / self.encode_s / 1e9,
            self.raw as f64 / self.decode_s / 1e9,
        );
    }
}

/// Runs `work` several times; returns the seconds of the fastest run.
fn best(mut work: impl FnMut()) -> f64 {
    let time = |()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| ()).map(time).fold(f64::INFINITY, f64::min)
}

/// Times single trees.
fn trees() {
    let rows = 1 << 20;
    let noise = |row: usize| (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let walk: Vec<i32> = (0..rows)
        .scan(0_i32, |at, row| {
            *at += noise(row) as i32 % 1000 - 500;
            Some(*at)
        })
        .collect();
    let keys: Vec<u64> = (0..rows).map(|row| noise(row) % 500).collect();
    let grouping = Grouping::new(&keys);
    let keys = Keys { grouping: &grouping, column: 1 };
    let ids = Values::U64((0..rows).map(|row| noise(row) % 500 + 1_000_000).collect());
    let wide = Values::I64(walk.iter().map(|value| i64::from(*value) << 8).collect());
    let steps = Values::U32((0..rows as u32).map(|row| row / 50 * 1000).collect());
    let floats = Values::F64(walk.iter().map(|value| f64::from(*value) / 100.0).collect());
    let walk = Values::I32(walk);
    let cases = [
        (&walk, "raw"),
        (&walk, "afl"),
        (&walk, "scale(afl)"),
        (&walk, "delta.z(afl)"),
        (&walk, "delta.z(patch(afl))"),
        (&walk, "delta2.z(patch(afl))"),
        (&walk, "keyed_delta.z(patch(afl), scale(afl))"),
        (&wide, "delta.z(patch(afl))"),
        (&wide, "divisor(delta.z(patch(afl)))"),
        (&ids, "dict.65536(afl)"),
        (&steps, "delta.z(rle(afl, afl))"),
        (&steps, "divisor(delta(patch(afl)))"),
        (&floats, "float_to_int(delta.z(patch(afl)))"),
        (&floats, "gfc"),
        (&walk, "delta.z(huffman)"),
        (&walk, "keyed_delta.z(huffman, scale(afl))"),
        (&wide, "delta.z(huffman)"),
        (&ids, "dict.65536(huffman)"),
    ];
    for (values, text) in cases {
        time_tree(std::slice::from_ref(values), &text.parse().unwrap(), Some(keys));
    }
}

/// Times trees of bytes on the files.
fn text(files: &[String]) {
    let trees = [
        "huffman",
        "stateless.16.16",
        "stateless.32.64",
        "lzw.1(afl)",
        "lzw.16(huffman)",
        "lzw.64(afl)",
        "lzw.64(huffman)",
        "lzw.256(afl)",
        "lzw.256(huffman)",
    ];
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        let columns: Vec<Values> = bytes
            .chunks(4 << 20)
            .map(|part| Values::U8(part[..part.len().min((4 << 20) - 1)].to_vec()))
            .collect();
        trees.iter().for_each(|tree| time_tree(&columns, &tree.parse().unwrap(), None));
    }
}

/// Times a tree on columns.
fn time_tree(columns: &[Values], tree: &Tree, keys: Option<Keys<'_>>) {
    let encode = || -> Vec<EncodedTree> {
        columns.iter().map(|values| encode_column(values, tree, keys).unwrap()).collect()
    };
    let bytes: usize =
        columns.iter().map(|values| values.len() * values.value_type().width_bytes()).sum();
    let mut encoded = encode();
    let encode_s = best(|| encoded = encode());
    let (budget, grouping) = (Budget::default(), keys.map(|keys| keys.grouping));
    let mut decoded = columns[0].clone();
    let decode_s = best(|| {
        for column in &encoded {
            decode_column_into(column, grouping, &budget, &mut decoded).unwrap();
            black_box(&decoded);
        }
    });
    for (column, values) in encoded.iter().zip(columns) {
        assert_eq!(&decode_column(column, grouping, &budget).unwrap(), values);
    }
    let size: usize = encoded.iter().flat_map(|column| &column.sections).map(Vec::len).sum();
    println!(
        "{:?} {tree:52} ratio {:6.2} ({:5.2} %) encode {:5.2} GB/s decode {:5.2} GB/s",
        columns[0].value_type(),
        bytes as f64 / size as f64,
        100.0 * size as f64 / bytes as f64,
        bytes as f64 / encode_s / 1e9,
        bytes as f64 / decode_s / 1e9,
    );
}
