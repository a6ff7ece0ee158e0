//! Output files of a run: keys and their order, a row per column and one for all, plots as text.

use std::fs;

use super::options;
use crate::codec::options::Experiment;
use crate::codec::run;
use crate::harness::{Common, Output};

/// The published keys, in order.
const KEYS: [&str; 10] = [
    "dataset",
    "column",
    "rows",
    "codec",
    "device",
    "raw_bytes",
    "encoded_bytes",
    "encode_gb_s",
    "decode_gb_s",
    "tree",
];

#[test]
fn every_experiment_writes_rows_with_their_keys_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let (json, svg) = (folder.path().join("rows.json"), folder.path().join("plots"));
    let (json, svg) = (json.display().to_string(), svg.display().to_string());
    let flags = [
        "--codecs",
        "shoal,shoal-small,shoal-balanced",
        "--block-rows",
        "2000,50000",
        "--json",
        &json,
        "--svg",
        &svg,
    ];
    run(&options(&flags)).unwrap();

    let text = fs::read_to_string(&json).unwrap();
    let mut places = KEYS.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap());
    assert!(places.clone().is_sorted() && places.next().is_some(), "{}", &text[..400]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let count = |experiment: &str, column: &str| {
        let of =
            |row: &&serde_json::Value| row["experiment"] == experiment && row["column"] == column;
        rows.iter().filter(of).count()
    };
    // Three codecs, two sizes of block; times the data sets of each.
    assert_eq!((count("recorded", "all"), count("recorded", "speed")), (6, 6));
    assert_eq!(count("generated", "heading"), 6 * 4);
    assert_eq!(count("thesis", "value"), 6 * 3);
    assert_eq!(count("outliers", "value"), 6 * 3 * 6);
    assert_eq!(count("tabular", "lon"), 6);
    assert_eq!(count("changing", "value"), 4 * 5, "one size of block, the fixed tree besides");
    for row in &rows {
        assert!(row["encode_gb_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["decode_gb_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["encoded_bytes"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(row["device"], "cpu");
    }

    for (name, text) in [
        ("codec_recorded_2000.svg", "bus_austin"),
        ("codec_recorded_50000_speed.svg", "decoded GB/s"),
        ("codec_changing_1000.svg", "shoal-fixed"),
        ("codec_tabular_2000.svg", "shoal-small"),
    ] {
        let plot = fs::read_to_string(format!("{svg}/{name}")).unwrap();
        assert!(plot.contains("<svg") && plot.contains(text), "{name} lacks {text}");
    }
}

#[test]
fn the_entropy_experiment_adds_its_trees() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("rows.json").display().to_string();
    let text = "../service/codec/src";
    let flags = ["--experiment", "entropy", "--codecs", "shoal", "--text", text, "--json", &json];
    run(&options(&flags)).unwrap();
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let ratio = |codec: &str, dataset: &str| {
        let of = |row: &&serde_json::Value| row["codec"] == codec && row["dataset"] == dataset;
        rows.iter().find(of).unwrap()["ratio"].as_f64().unwrap()
    };
    assert!(ratio("shoal-huffman", "src") > 1.5, "{}", ratio("shoal-huffman", "src"));
    assert!(ratio("shoal-lzw", "src") > ratio("shoal-huffman", "src"));
    assert!(ratio("shoal-lzw-huffman", "src") > ratio("shoal-huffman", "src"));
    assert!(ratio("shoal-stateless", "alphabet-16") > 1.3);
    assert!(ratio("shoal-huffman", "alphabet-16") > ratio("shoal-huffman", "alphabet-256"));
}

#[test]
fn unreadable_and_unwritable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().display().to_string();
    let flags = ["--experiment", "recorded", "--data", &empty];
    let error = run(&options(&flags)).unwrap_err().to_string();
    assert!(error.contains(&empty) && error.contains("no .csv"), "{error}");

    let json = folder.path().join("missing").join("rows.json").display().to_string();
    let common = Common { json: Some(json.into()), ..Common::default() };
    let ran = common.run(
        "head",
        &[Experiment::Thesis],
        |_, _, _: &mut Output<u8>| unreachable!("it runs with nowhere to write to"),
        |_, _, _| Ok(()),
    );
    let error = ran.unwrap_err().to_string();
    assert!(error.contains("rows.json"), "{error}");
}
