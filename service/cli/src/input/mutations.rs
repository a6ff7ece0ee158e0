//! Mutated samples of each format: no panic, and no row that is lost in silence.

use std::io::{Cursor, Write as _};

use serde_json::json;
use shoal_client::{AnswerRow, v1};
use shoal_engine::Space;
use shoal_table::FixFileOptions;
use shoal_testkit::{Random, fuzz_seed};

use super::{FixSource, IdKind, input_file};
use crate::geoparquet::{GeoParquetReader, GeoParquetWriter};

/// Mutations of each sample.
const MUTATIONS: usize = 1_000;

/// What loss a format excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each line that begins an object is a row or a fault.
    ObjectLines,
    /// Each line after the header is, unless a quoted field goes on in it.
    LinesAfterHeader,
    /// A file that is cut has a fault.
    Document,
    /// A file that is cut within an entity has a fault; the number of entities.
    Entities(usize),
    /// A line may be part of a row, or none.
    Sentences,
}

struct Sample {
    name: &'static str,
    bytes: &'static [u8],
    form: Form,
    rows: usize,
}

macro_rules! sample {
    ($name:literal, $form:expr, $rows:literal) => {
        Sample {
            name: $name,
            bytes: include_bytes!(concat!("../../tests/samples/", $name)),
            form: $form,
            rows: $rows,
        }
    };
}

const SAMPLES: [Sample; 7] = [
    sample!("taxis.csv", Form::LinesAfterHeader, 4),
    sample!("buses.ndjson", Form::ObjectLines, 4),
    sample!("trucks.geojson", Form::Document, 3),
    sample!("walk.gpx", Form::Document, 4),
    sample!("ships.nmea", Form::Sentences, 8),
    sample!("boat.nmea", Form::Sentences, 3),
    sample!("vehicles.pb", Form::Entities(9), 4),
];

/// Numbers of rows and faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    rows: usize,
    faults: usize,
}

fn drain(mut source: Box<dyn FixSource>, ids: IdKind) -> Read {
    let mut read = Read { rows: 0, faults: 0 };
    while let Some(row) = source.next_row(ids) {
        match row {
            Ok(_) => read.rows += 1,
            Err(_) => read.faults += 1,
        }
        assert!(read.rows + read.faults < 10_000, "it does not end");
    }
    source.summary();
    read
}

/// Reads a file. One that cannot be opened is one fault.
fn read(bytes: Vec<u8>) -> Read {
    let options = FixFileOptions { object: Some("7".to_owned()), ..FixFileOptions::default() };
    match input_file::open_stream("a", Box::new(Cursor::new(bytes)), &options) {
        Ok(source) => drain(source, IdKind::Names),
        Err(_) => Read { rows: 0, faults: 1 },
    }
}

fn filled_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty()).collect()
}

/// True if a quoted field may go on in the next line.
fn has_open_quote(bytes: &[u8]) -> bool {
    let quotes = |line: &[u8]| line.iter().filter(|byte| **byte == b'"').count();
    bytes.split(|byte| *byte == b'\n').any(|line| quotes(line) % 2 == 1)
}

/// A changed file.
fn mutated(bytes: &[u8], chance: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = chance.below(bytes.len());
    match chance.below(7) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes[at] = [b'"', b'\n', 0, 0xff, b',', b'{', b'<', b'\\', 0xc3][chance.below(9)],
        2 => {
            bytes.remove(at);
        }
        3 => bytes.insert(at, [b'"', b'\n', 0, 0xe9, b';', b'}', b'[', b'$'][chance.below(8)]),
        // Parts that are swapped, as columns or lines are.
        4 => {
            let length = 1 + chance.below(20);
            let other = chance.below(bytes.len());
            for offset in 0..length {
                let (a, b) = (at + offset, other + offset);
                if a.max(b) < bytes.len() {
                    bytes.swap(a, b);
                }
            }
        }
        5 => {
            let end = (at + chance.below(200)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let end = (at + chance.below(200)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
    }
    bytes
}

/// The text in another encoding.
fn encoded(bytes: &[u8], encoding: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let utf_16 = |bom: u16, swap: fn(u16) -> [u8; 2]| {
        std::iter::once(bom).chain(text.encode_utf16()).flat_map(swap).collect()
    };
    match encoding {
        0 => utf_16(0xfeff, u16::to_le_bytes),
        1 => utf_16(0xfeff, u16::to_be_bytes),
        2 => text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
        3 => ["\u{feff}".as_bytes(), bytes].concat(),
        _ => text.replace('\n', "\r\n").into_bytes(),
    }
}

#[test]
fn samples_are_read_whole() {
    for Sample { name, bytes, rows, .. } in &SAMPLES {
        assert_eq!(read(bytes.to_vec()).rows, *rows, "{name}");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        assert_eq!(read(packed.finish().unwrap()).rows, *rows, "{name}.gz");
    }
}

#[test]
fn mutations_lose_nothing_in_silence() {
    let mut chance = Random::new(fuzz_seed(1));
    for Sample { name, bytes, form, rows } in &SAMPLES {
        for _ in 0..MUTATIONS {
            let changed = mutated(bytes, &mut chance);
            let read = read(changed.clone());
            let lines = filled_lines(&changed);
            let shown = || format!("{name}: {read:?} of {:?}", String::from_utf8_lossy(&changed));
            match form {
                Form::ObjectLines => {
                    let objects = lines.iter().filter(|line| line.starts_with(b"{")).count();
                    // A file whose first byte is that of another format is refused.
                    let objects = if changed[0] == b'<' { 1 } else { objects };
                    assert!(read.rows + read.faults >= objects, "{}", shown());
                }
                // A header that is changed may be a fault of the whole file.
                Form::LinesAfterHeader if read.rows > 0 && !has_open_quote(&changed) => {
                    assert!(read.rows + read.faults >= lines.len() - 1, "{}", shown());
                }
                _ => {}
            }
        }
        let cuts = (1..bytes.len()).map(|end| read(bytes[..end].to_vec()));
        let unseen = cuts.filter(|read| read.faults == 0 && read.rows < *rows).count();
        match form {
            Form::Document => assert_eq!(unseen, 0, "{name}"),
            // A feed that is cut between two entities is a feed.
            Form::Entities(entities) => assert!(unseen <= *entities, "{name}: {unseen}"),
            _ => {}
        }
        for encoding in 0..5 {
            let read = read(encoded(bytes, encoding));
            assert!(read.rows > 0 || read.faults > 0, "{name} in encoding {encoding}");
        }
    }
}

#[test]
fn mutations_of_parquet_end_with_a_fault_or_all_rows() {
    const ROWS: usize = 500;
    let begun = GeoParquetWriter::begin(Vec::new(), Space::geographic(), false, &json!({}));
    let mut writer = begun.unwrap();
    let row = |row: usize| {
        let fix = v1::FixRecord { time_ms: row as i64, x: 1.0, y: 2.0, ..Default::default() };
        AnswerRow { object: row as u64, fix: Some(fix), ..AnswerRow::default() }
    };
    writer.rows((0..ROWS).map(row)).unwrap();
    let whole = writer.end().unwrap();
    let mut chance = Random::new(fuzz_seed(1));
    for _ in 0..MUTATIONS {
        let changed = mutated(&whole, &mut chance);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&changed).unwrap();
        // A panic of the decoder counts as a fault, as in the reading thread.
        let read = std::panic::catch_unwind(|| {
            match GeoParquetReader::open("a", file, &FixFileOptions::default()) {
                Ok(reader) => drain(Box::new(reader), IdKind::Numbers),
                Err(_) => Read { rows: 0, faults: 1 },
            }
        });
        let read = read.unwrap_or(Read { rows: 0, faults: 1 });
        assert!(read.faults > 0 || read.rows >= ROWS, "{read:?}");
    }
}
