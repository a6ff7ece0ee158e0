//! Fuzz target of the reader of compressed files: mutated files, most with recomputed checksums.
//!
//! The reader may accept or refuse a file, but must not panic, and must refuse a file with wrong
//! checksums. `shoal_testkit::Bound` limits the time of a run.

use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use shoal_testkit::seal::{seal, set};
use shoal_testkit::{Bound, Random, fuzz_seed};

use crate::TableError;
use crate::csv_sink::CsvSink;
use crate::csv_source::{CsvSource, infer};
use crate::frame::{FrameReader, FrameWriter};
use crate::table_codec::CpuTableCodec;
use crate::table_decoder::TableDecoder;
use crate::table_encoder::TableEncoder;

/// Rows of a group.
const GROUP_ROWS: usize = 40;
/// Bytes of a file's prefix.
const PREFIX_BYTES: usize = 24;
/// Bytes of a file's trailer.
const TRAILER_BYTES: usize = 64;

/// A valid file and its text.
struct Whole {
    bytes: Vec<u8>,
    text: Vec<u8>,
    header_text: Range<usize>,
    blocks: Vec<Range<usize>>,
}

/// A table of numbers, decimals and words with a key; some words are not UTF-8.
fn whole(chance: &mut Random) -> Whole {
    let mut text = b"id,t,x,word\n".to_vec();
    let words: [&[u8]; 4] =
        [b"", b"b", b"bus", [&b"n\xe4her"[..], "näher".as_bytes()][chance.below(2)]];
    for row in 0..chance.below(3 * GROUP_ROWS) {
        let (id, x) = (chance.below(5), chance.below(100_000));
        write!(text, "{id},{},{}.{:03},", 1_000 * row, x / 1_000, x % 1_000).unwrap();
        text.extend_from_slice(words[chance.below(4)]);
        text.push(b'\n');
    }
    let header = infer("table", text.as_slice(), b',').unwrap();
    let key = (chance.below(2) == 0).then(|| "id".to_owned());
    let mut source = CsvSource::open("table", text.as_slice(), &header.columns, b',', key).unwrap();
    let header = source.header.clone();
    let mut frame = FrameWriter::open(Vec::new(), Path::new("table"), &header).unwrap();
    let mut codec = CpuTableCodec;
    let mut encoder = TableEncoder::new(&header, shoal_codec::Aim::Small, &mut codec);
    let mut lengths = Vec::new();
    while let Some(group) = source.group(GROUP_ROWS).unwrap() {
        let blocks = encoder.encode(&group, frame.sequence()).unwrap();
        frame.group(&blocks, group.rows).unwrap();
        lengths.extend(blocks.iter().map(Vec::len));
    }
    let (bytes, _) = frame.finish(!source.last_has_end()).unwrap();
    let header_text = PREFIX_BYTES..PREFIX_BYTES + header.text().len();
    let mut start = header_text.end.next_multiple_of(64);
    let mut next = |length: &usize| {
        start += length;
        start - length..start
    };
    let blocks = lengths.iter().map(&mut next).collect();
    Whole { bytes, text, header_text, blocks }
}

/// Reads a file as `decompress` does; returns the text.
fn read(bytes: &[u8]) -> Result<Vec<u8>, TableError> {
    let mut codec = CpuTableCodec;
    let mut decoder = TableDecoder::new(FrameReader::open("file", bytes)?, &mut codec);
    let header = decoder.frame.header().clone();
    let mut sink =
        header.csv.map(|form| CsvSink::open(Vec::new(), Path::new("text"), form, header).unwrap());
    while let Some(group) = decoder.group()? {
        if let Some(sink) = &mut sink {
            sink.write(&group).unwrap();
        }
    }
    let has_end = !decoder.finish()?.last_without_end;
    Ok(sink.map(|sink| sink.finish(has_end).unwrap()).unwrap_or_default())
}

/// Changes a byte or two within a range, which is not empty.
fn change(chance: &mut Random, bytes: &mut [u8], range: Range<usize>) {
    for _ in 0..=chance.below(2) {
        let place = range.start + chance.below(range.len());
        match chance.below(3) {
            0 => bytes[place] ^= 1 << chance.below(8),
            1 => bytes[place] = chance.edgy() as u8,
            _ => bytes[place] = bytes[range.start + chance.below(range.len())],
        }
    }
}

/// Writes the checksum of the bytes in `covered` at offset `at`.
fn seal_at(bytes: &mut [u8], covered: Range<usize>, at: usize) {
    let crc = crc32c::crc32c(&bytes[covered]);
    set(bytes, at, crc.to_le_bytes());
}

/// A mutant, and true if all its checksums are right.
fn mutant(chance: &mut Random, whole: &Whole) -> (Vec<u8>, bool) {
    let mut bytes = whole.bytes.clone();
    let length = bytes.len();
    match chance.below(6) {
        0 => {
            change(chance, &mut bytes, 0..length);
            return (bytes, false);
        }
        1 => {
            bytes.truncate(chance.below(length));
            return (bytes, false);
        }
        2 => {
            change(chance, &mut bytes, whole.header_text.clone());
            seal_at(&mut bytes, whole.header_text.clone(), 16);
            seal_at(&mut bytes, 0..20, 20);
        }
        3 => {
            let trailer = length - TRAILER_BYTES;
            change(chance, &mut bytes, trailer..length);
            seal_at(&mut bytes, trailer..length - 4, length - 4);
        }
        _ if !whole.blocks.is_empty() => {
            let block = whole.blocks[chance.below(whole.blocks.len())].clone();
            let place = block.start + chance.below(block.len());
            change(chance, &mut bytes, place..block.end);
            seal(&mut bytes[block]);
        }
        _ => {}
    }
    (bytes, true)
}

#[test]
fn fuzz_compressed_file() {
    let mut chance = Random::new(fuzz_seed(91));
    let (mut taken, mut refused, mut bound) = (0_u64, 0_u64, Bound::new(6000));
    while bound.is_open() {
        let whole = whole(&mut chance);
        assert_eq!(read(&whole.bytes).unwrap(), whole.text);
        for _ in 0..30 {
            if !bound.goes_on() {
                break;
            }
            let (bytes, is_sealed) = mutant(&mut chance, &whole);
            match read(&bytes) {
                Ok(text) => {
                    let is_same = bytes == whole.bytes && text == whole.text;
                    assert!(is_sealed || is_same, "a wrong checksum was accepted");
                    taken += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    let counts = format!("{taken} taken, {refused} refused");
    assert!(taken.min(refused) > bound.done() / 30, "{counts}: the target is lopsided");
}
