//! Text and symbols for entropy and dictionary codecs: one column of bytes for each data set.
//!
//! Text comes from the files of a folder, such as installed documentation; symbols are drawn from
//! alphabets of several sizes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use shoal_codec::Values;

use super::data_set::DataSet;
use crate::error::BenchmarkError;

/// Alphabet sizes.
pub(super) const ALPHABETS: [usize; 5] = [16, 32, 64, 128, 256];
/// Maximum length of one file, so that no file dominates.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The text of a folder, its subfolders included, up to `bytes_max`: files in the order of their
/// paths, plain or gzip. Files that are not UTF-8, that contain a zero byte or that repeat an
/// earlier file are left out.
pub(super) fn data_set(folder: &Path, bytes_max: usize) -> Result<DataSet, BenchmarkError> {
    let mut paths = Vec::new();
    list(folder, &mut paths)?;
    paths.sort();
    let (mut text, mut seen) = (Vec::new(), HashSet::new());
    for path in paths {
        // A file that cannot be read, or is invalid gzip, is skipped.
        let Ok(bytes) = read(&path) else { continue };
        if is_text(&bytes) && seen.insert((crc32c::crc32c(&bytes), bytes.len())) {
            text.extend_from_slice(&bytes);
        }
        if text.len() >= bytes_max {
            text.truncate(bytes_max);
            break;
        }
    }
    if text.is_empty() {
        return Err(BenchmarkError::WorkloadRows(format!("{} has no text", folder.display())));
    }
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    Ok(DataSet::of_column(&name, "text", Values::U8(text)))
}

/// Regular files below a folder; links are not followed.
fn list(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), BenchmarkError> {
    let failed = |source| BenchmarkError::Read { path: folder.display().to_string(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            list(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// Whether bytes are UTF-8 without a zero byte. The last character may be incomplete, because files
/// are cut at [`FILE_BYTES_MAX`].
fn is_text(bytes: &[u8]) -> bool {
    let is_utf8 = std::str::from_utf8(bytes).err().is_none_or(|error| error.error_len().is_none());
    is_utf8 && !bytes.contains(&0)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = BufReader::new(File::open(path)?);
    let is_packed = path.extension().is_some_and(|ending| ending == "gz");
    let source: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut bytes = Vec::new();
    source.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Symbols of an alphabet; symbol k is drawn with a probability proportional to 1 / (k + 1), as
/// words and letters are.
pub(super) fn symbols(alphabet: usize, rows: usize, seed: u64) -> DataSet {
    let weights = (1..=alphabet).map(|rank| 1.0 / rank as f64);
    let sums: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let all = sums[alphabet - 1];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let symbol = |_| {
        let draw = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * all;
        sums.partition_point(|sum| *sum <= draw).min(alphabet - 1) as u8
    };
    let values = (0..rows).map(symbol).collect();
    DataSet::of_column(&format!("alphabet-{alphabet}"), "symbol", Values::U8(values))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use std::io::Write as _;

    use super::*;
    use crate::codec::data_set::Content;

    fn bytes(set: DataSet) -> Vec<u8> {
        let Content::Columns(mut columns) = set.content else { panic!("no columns") };
        let Values::U8(bytes) = columns.remove(0).1 else { panic!("no bytes") };
        bytes
    }

    #[test]
    fn text_is_read_in_order_once_and_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("b")).unwrap();
        std::fs::write(at("a.txt"), "first ").unwrap();
        std::fs::write(at("b/again.txt"), "first ").unwrap();
        let mut packed = flate2::write::GzEncoder::new(
            File::create(at("b/packed.gz")).unwrap(),
            flate2::Compression::fast(),
        );
        packed.write_all(b"second").unwrap();
        packed.finish().unwrap();
        std::fs::write(at("broken.gz"), "no gzip").unwrap();
        std::fs::write(at("image"), [0xff, 0xfe, 0]).unwrap();
        assert_eq!(bytes(data_set(folder.path(), 100).unwrap()), b"first second");
        assert_eq!(bytes(data_set(folder.path(), 8).unwrap()), b"first se");
        let empty = tempfile::tempdir().unwrap();
        let error = data_set(empty.path(), 8).unwrap_err().to_string();
        assert!(error.ends_with("has no text"), "{error}");
    }

    #[test]
    fn symbols_use_the_whole_alphabet_and_prefer_its_start() {
        for alphabet in ALPHABETS {
            let symbols = bytes(symbols(alphabet, 100_000, 1));
            let mut counts = vec![0_u32; alphabet];
            symbols.iter().for_each(|symbol| counts[usize::from(*symbol)] += 1);
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
            assert!(counts[0] > counts[alphabet - 1] * (alphabet as u32) / 2, "{counts:?}");
        }
    }
}
