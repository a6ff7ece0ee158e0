//! Hazard: a file of an earlier version, or text that is not UTF-8, is not restored.
//!
//! The golden files are of version 1.0, in which each text column has a block of its own.

use std::path::{Path, PathBuf};

use shoal_codec::Aim;
use shoal_table::{
    CpuTableCodec, FrameReader, Inspected, TableOptions, TableSink, TableSource, compress,
    decompress, inspect,
};

const GOLDEN: [(&str, Aim); 2] =
    [("names_fast_v1.0.shoal", Aim::Fast), ("names_small_v1.0.shoal", Aim::Small)];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The bytes of the compressed text.
fn compressed(text: &Path, aim: Aim) -> Vec<u8> {
    let options = TableOptions { separator: b',', ..TableOptions::default() };
    let mut source = TableSource::open(text, &options, &|_| ()).unwrap();
    let file = Path::new("out.shoal");
    compress(&mut source, (400, aim), &mut CpuTableCodec, Vec::new(), file).unwrap().0
}

/// The text of a compressed file.
fn decompressed(file: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("back.csv");
    let file = FrameReader::open_file(file).unwrap();
    let sink = TableSink::create(&path, file.header(), false, None).unwrap();
    decompress(file, &mut CpuTableCodec, sink, &|_| ()).unwrap();
    std::fs::read(path).unwrap()
}

fn inspected(file: &Path) -> Inspected {
    inspect(FrameReader::open_file(file).unwrap(), &mut CpuTableCodec, true).unwrap()
}

fn names(found: &Inspected) -> Vec<&str> {
    found.totals.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn files_of_version_1_0_are_read() {
    let text = std::fs::read(golden("names.csv")).unwrap();
    for (name, _) in GOLDEN {
        assert!(decompressed(&golden(name)) == text, "{name}");
        let found = inspected(&golden(name));
        // Two groups of a table and two texts.
        assert_eq!((found.trailer.rows, found.trailer.blocks), (600, 6), "{name}");
        let parts =
            ["object_id", "t_ms", "name (lengths)", "name (text)", "note (lengths)", "note (text)"];
        assert_eq!(names(&found), parts, "{name}");
        let stored = found.totals.stored_bytes();
        assert!(stored < found.trailer.file_bytes && stored * 10 > found.trailer.file_bytes * 9);
    }
}

#[test]
fn text_is_part_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.shoal");
    for (name, aim) in GOLDEN {
        let bytes = compressed(&golden("names.csv"), aim);
        std::fs::write(&path, &bytes).unwrap();
        assert!(decompressed(&path) == std::fs::read(golden("names.csv")).unwrap(), "{aim}");
        let found = inspected(&path);
        assert_eq!((found.trailer.rows, found.trailer.blocks), (600, 2), "{aim}");
        let parts: Vec<_> = names(&found);
        assert!(parts.contains(&"name (indexes)") && !parts.contains(&"note (indexes)"), "{aim}");
        let before = std::fs::read(golden(name)).unwrap().len();
        assert!(bytes.len() * 10 < before * 9, "{aim}: {} bytes, {before} before", bytes.len());
        assert_eq!(&bytes[8..12], [1, 0, 2, 0], "{aim}");
    }
}

#[test]
fn text_that_is_not_utf_8_has_blocks_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (folder.path().join("latin.csv"), folder.path().join("latin.shoal"));
    let mut bytes = b"id,name,word\n".to_vec();
    for row in 0..900_u32 {
        bytes.extend_from_slice(row.to_string().as_bytes());
        // Only the second of three groups has a name that is not UTF-8.
        let name: &[u8] = if row == 500 { b",n\xe4her,b\n" } else { b",near,bus\n" };
        bytes.extend_from_slice(name);
    }
    std::fs::write(&text, &bytes).unwrap();
    for aim in Aim::ALL {
        std::fs::write(&path, compressed(&text, aim)).unwrap();
        assert!(decompressed(&path) == bytes, "{aim}");
        assert_eq!(inspected(&path).trailer.blocks, 4, "{aim}");
    }
}
