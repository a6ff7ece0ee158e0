//! Hazard: `shoal codec` does not restore a table byte for byte, or accepts a damaged file.
//!
//! Runs the built binary on files in a temporary folder. Unit tests of `shoal-table` cover type
//! inference.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::shoal::Ran;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The sample file, relative to the package folder, in which tests run.
const SAMPLE: &str = "../../sample/bus_austin.csv.gz";

/// A temporary working folder for the program.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The names of all files, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs `shoal codec`; `line` is split at spaces.
    fn run(&self, line: &str) -> Ran {
        let mut command = crate::shoal::shoal();
        command.arg("codec").args(line.split(' ')).current_dir(self.0.path());
        Ran::command(&mut command)
    }
}

fn absolute(path: &str) -> String {
    Path::new(path).canonicalize().unwrap().display().to_string()
}

/// A table with a column of every type, and fields that no numeric type restores.
fn mixed_table(rows: usize) -> String {
    let mut text = "object_id,lon,speed,ratio,note\r\n".to_owned();
    for row in 0..rows {
        let note = match row % 5 {
            0 => "\"a, \"\"b\"\"\nc\"".to_owned(),
            1 => String::new(),
            _ => format!("stop {}", row % 7),
        };
        let speed = if row % 11 == 0 { String::new() } else { format!("{}.{}", row % 30, row % 9) };
        let lon = -97_743_000 + (row as i64 * 37) % 5_000;
        let lon = format!("-{}.{:06}", -lon / 1_000_000, -lon % 1_000_000);
        let ratio = 1.0 / (row + 1) as f64;
        text.push_str(&format!("{},{lon},{speed},{ratio},{note}\r\n", row % 13));
    }
    text
}

#[test]
fn csv_text_round_trips_byte_for_byte() {
    let folder = Folder::new();
    for (index, text) in [
        mixed_table(5_000),
        mixed_table(1).trim_end().to_owned(),
        "a\n".to_owned(),
        "a,b".to_owned(),
        "a\n\n7\n\n".to_owned(),
        "v\n0.10\n0.2\n".to_owned(),
        "v\n18446744073709551615\n-0\n\u{e9}\n".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("{index}.csv");
        folder.write(&name, text);
        folder.run(&format!("compress {name} --block-rows 1000")).expect(0);
        folder.run(&format!("decompress {name}.shoal -o back.csv --force")).expect(0);
        assert!(folder.read("back.csv") == text.as_bytes(), "table {index} differs");
    }
    assert!(folder.read("0.csv.shoal").len() * 3 < folder.read("0.csv").len());
}

#[test]
fn the_sample_round_trips_and_its_trees_are_printed() {
    let folder = Folder::new();
    let sample = absolute(SAMPLE);
    let summary = folder.run(&format!("compress {sample} -o bus.shoal --json")).json(0);
    assert_eq!((&summary["rows"], &summary["key"]), (&33_140.into(), &"object_id".into()));
    assert_eq!(summary["columns"].as_array().unwrap().len(), 5);
    let raw: u64 = summary["raw_bytes"].as_u64().unwrap();
    assert!(summary["file_bytes"].as_u64().unwrap() * 2 < raw, "{summary}");

    folder.run("decompress bus.shoal -o bus.csv.gz").expect(0);
    folder.run("compress bus.csv.gz -o again.shoal").expect(0);
    assert!(folder.read("again.shoal") == folder.read("bus.shoal"), "the text differs");

    let shown = folder.run("inspect bus.shoal --check").expect(0);
    for text in ["33140 rows in 1 blocks", "key object_id", "lon", "ratio", "all values decoded"] {
        assert!(shown.contains(text), "{text} is not in\n{shown}");
    }
    let inspected = folder.run("inspect bus.shoal --json").json(0);
    assert_eq!(inspected["columns"], summary["columns"]);
    let nodes = &inspected["columns"][2]["trees"][0]["nodes"];
    assert_eq!(nodes[0]["given_bytes"], 4 * 33_140, "{nodes}");
    assert!(nodes[0]["section_bytes"].as_u64().unwrap() < 4 * 33_140, "{nodes}");

    let planned = folder.run(&format!("plan {sample} --json")).json(0);
    assert_eq!(planned["columns"], summary["columns"]);
    assert_eq!(planned["statistics"][0]["distinct"], 183, "buses");
    assert!(planned["header"].as_str().unwrap().contains("precision = "));
    assert_eq!(folder.names(), ["again.shoal", "bus.csv.gz", "bus.shoal"]);
}

#[test]
fn binary_columns_round_trip_with_their_header() {
    let folder = Folder::new();
    let ids: Vec<u8> = (0..3_000_u32).flat_map(|row| (row % 50).to_le_bytes()).collect();
    let values: Vec<u8> =
        (0..3_000_u32).flat_map(|row| (f64::from(row) / 8.0).to_le_bytes()).collect();
    folder.write("id.u32", &ids);
    folder.write("values.bin", &values);
    let header = "key = \"id\"\n[[column]]\nname = \"id\"\ntype = \"u32\"\n\
        [[column]]\nname = \"value\"\ntype = \"f64\"\nfile = \"values.bin\"\n";
    folder.write("table.toml", header);
    folder.run("compress table.toml --block-rows 1024").expect(0);
    folder.run("decompress table.shoal -o back").expect(0);
    assert_eq!(folder.read("back/id.u32"), ids);
    assert_eq!(folder.read("back/values.bin"), values);
    folder.run("compress back/columns.toml -o again.shoal --block-rows 1024").expect(0);
    assert!(folder.read("again.shoal") == folder.read("table.shoal"));

    let refused = folder.run("decompress table.shoal -o back").refused(2);
    assert!(refused.contains("exists; --force"), "{refused}");
    folder.run("decompress table.shoal -o back --force").expect(0);
    folder.write("id.u32", &ids[..40]);
    let refused = folder.run("compress table.toml -o short.shoal").refused(2);
    assert!(refused.contains("values.bin: 3000 values, the first column has 10"), "{refused}");
    folder.write("table.toml", header.replace("values.bin", "../values.bin"));
    let refused = folder.run("compress table.toml -o out.shoal").refused(2);
    assert!(refused.contains("not the plain name of a file"), "{refused}");
}

#[test]
fn a_header_fixes_the_types_and_refuses_fields_that_do_not_round_trip() {
    let folder = Folder::new();
    folder.write("t.csv", "id;v\n1;1.5\n2;2.25\n");
    let column = |precision| {
        format!(
            "[[column]]\nname = \"id\"\ntype = \"u64\"\n[[column]]\nname = \"v\"\n\
             type = \"i32\"\nprecision = {precision}\nprecision_min = 0\n"
        )
    };
    folder.write("good.toml", column(4));
    folder.run("compress t.csv --separator ; --header good.toml -o t.shoal").expect(0);
    folder.run("decompress t.shoal -o back.csv").expect(0);
    assert_eq!(folder.read("back.csv"), folder.read("t.csv"));
    folder.write("bad.toml", column(1));
    let refused =
        folder.run("compress t.csv --separator ; --header bad.toml -o u.shoal").refused(2);
    assert!(refused.contains("t.csv: line 3: column v: `2.25` would not come back"), "{refused}");
    assert!(
        !folder.names().iter().any(|name| name.starts_with("u.shoal")),
        "a partial file remains"
    );
    let refused = folder.run("compress t.csv --key v -o u.shoal").refused(2);
    assert!(refused.contains("no column v to be the key"), "{refused}");
}

#[test]
fn files_are_replaced_only_with_force() {
    let folder = Folder::new();
    folder.write("t.csv", "a\n1\n");
    folder.write("t.csv.shoal", "mine");
    let refused = folder.run("compress t.csv").refused(2);
    assert!(refused.contains("t.csv.shoal exists; --force"), "{refused}");
    assert_eq!(folder.read("t.csv.shoal"), b"mine");
    folder.run("compress t.csv --force").expect(0);
    let refused = folder.run("decompress t.csv.shoal").refused(2);
    assert!(refused.contains("t.csv exists; --force"), "{refused}");
    folder.write("bad.csv", "a,b\n1\n");
    let refused = folder.run("compress bad.csv").refused(2);
    assert!(refused.contains("bad.csv: line 2: 1 fields, the head line has 2"), "{refused}");
    folder.run("compress missing.csv").refused(2);
    assert_eq!(folder.names(), ["bad.csv", "t.csv", "t.csv.shoal"]);
}

#[test]
fn unseekable_inputs_and_folder_outputs_are_refused() {
    let folder = Folder::new();
    folder.write("t.csv", "a\n1\n");
    let refused = folder.run("compress /dev/null -o out.shoal").refused(2);
    assert!(refused.contains("/dev/null: it can be read only once; --header"), "{refused}");
    fs::create_dir(folder.path("folder")).unwrap();
    for line in ["compress t.csv -o folder --force", "compress t.csv -o folder"] {
        let refused = folder.run(line).refused(2);
        assert!(refused.contains("folder is no file that can be replaced"), "{refused}");
    }
    assert_eq!(folder.names(), ["folder", "t.csv"]);
}

#[test]
fn an_empty_table_reports_zero_speed_and_long_names_are_refused() {
    let folder = Folder::new();
    folder.write("t.csv", "a,b\n");
    for line in ["plan t.csv", "compress t.csv", "inspect t.csv.shoal --check"] {
        let shown = folder.run(line).expect(0);
        assert!(shown.contains(" 0.00 GB/s"), "{line}: {shown}");
    }
    let shown = folder.run("decompress t.csv.shoal -o back.csv").expect(0);
    assert!(shown.contains("decoded at 0.00 GB/s"), "{shown}");
    folder.write("long.csv", format!("{},b\n1,2\n", "n".repeat(1 << 20)));
    let refused = folder.run("compress long.csv").refused(2);
    assert!(refused.contains("long.csv: names and types take 1048"), "{refused}");
    assert_eq!(folder.names(), ["back.csv", "long.csv", "t.csv", "t.csv.shoal"]);
}

#[test]
fn damaged_files_are_refused_and_leave_no_output() {
    let folder = Folder::new();
    folder.write("t.csv", mixed_table(300));
    folder.run("compress t.csv -o t.shoal --block-rows 128").expect(0);
    let whole = folder.read("t.shoal");
    let refuse = |bytes: &[u8], what: &str| {
        folder.write("bad.shoal", bytes);
        for line in ["decompress bad.shoal -o out.csv", "inspect bad.shoal --check"] {
            let error = folder.run(line).refused(2);
            assert!(error.contains("bad.shoal: byte "), "{what}: {error}");
        }
        assert_eq!(folder.names(), ["bad.shoal", "t.csv", "t.shoal"], "{what}");
    };
    for length in (0..whole.len()).step_by(whole.len() / 23).chain([whole.len() - 1]) {
        refuse(&whole[..length], &format!("cut at {length}"));
    }
    for place in (0..whole.len()).step_by(whole.len() / 41) {
        let mut changed = whole.clone();
        changed[place] ^= 0x10;
        // Every minor version is accepted.
        if !(10..12).contains(&place) {
            refuse(&changed, &format!("bit of byte {place}"));
        }
    }
    refuse(&[whole.as_slice(), b"x"].concat(), "trailing byte");
    refuse(b"object_id,t_ms\n1,2\n and more text than a prefix has", "no codec file");
}

#[test]
fn without_a_gpu_a_device_is_refused_and_nothing_is_written() {
    if cfg!(feature = "cuda") {
        return;
    }
    let folder = Folder::new();
    folder.write("t.csv", mixed_table(100));
    let refused = folder.run("compress t.csv --device").refused(1);
    assert!(refused.contains("cuda") && refused.contains("not available"), "{refused}");
    assert_eq!(folder.names(), ["t.csv"]);
    folder.run("compress t.csv").expect(0);
    folder.run("decompress t.csv.shoal --device -o again.csv").refused(1);
    assert_eq!(folder.names(), ["t.csv", "t.csv.shoal"]);
    folder.run("inspect t.csv.shoal --device").refused(2);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_device_writes_the_same_file_and_restores_it() {
    let folder = Folder::new();
    folder.write("t.csv", mixed_table(200_000));
    folder.run("compress t.csv -o cpu.shoal --aim small --block-rows 70000").expect(0);
    folder.run("compress t.csv -o gpu.shoal --aim small --block-rows 70000 --device").expect(0);
    assert!(folder.read("cpu.shoal") == folder.read("gpu.shoal"), "other bytes");
    folder.run("decompress gpu.shoal -o again.csv --device").expect(0);
    assert!(folder.read("again.csv") == folder.read("t.csv"), "other text");
}

#[test]
fn a_small_file_does_not_fill_the_disk() {
    let folder = Folder::new();
    let text = "a,b\n".to_owned() + &"1,2\n".repeat(50_000);
    folder.write("t.csv", &text);
    folder.run("compress t.csv").expect(0);
    fs::remove_file(folder.path("t.csv")).unwrap();
    let bytes = text.len();
    let refused = folder.run(&format!("decompress t.csv.shoal --max-bytes {}", bytes - 2));
    refused.refused(2);
    let refused = folder.run("decompress t.csv.shoal --max-bytes 150000").refused(2);
    assert!(refused.contains("t.csv would have more than 150000 bytes; --max-bytes"), "{refused}");
    assert_eq!(folder.names(), ["t.csv.shoal"], "nothing is left");
    folder.run(&format!("decompress t.csv.shoal --max-bytes {bytes}")).expect(0);
    assert_eq!(folder.read("t.csv"), text.as_bytes());
    // Columns count as well.
    let header = "[[column]]\nname = \"id\"\ntype = \"u32\"\n";
    folder.write("c.toml", header);
    folder.write("id.u32", [7; 4 * 1_000]);
    folder.run("compress c.toml -o c.shoal").expect(0);
    let refused = folder.run("decompress c.shoal -o out --max-bytes 3999").refused(2);
    assert!(refused.contains("out would have more than 3999 bytes"), "{refused}");
    assert!(!folder.path("out").exists());
    folder.run("decompress c.shoal -o out --max-bytes 4000").expect(0);
}

#[test]
fn a_signal_leaves_no_partial_file() {
    let folder = Folder::new();
    folder.write("h.toml", "[[column]]\nname = \"a\"\ntype = \"u32\"\n");
    let made = std::process::Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap();
    assert!(made.success());
    let mut command = crate::shoal::shoal();
    command.args(["codec", "compress", "pipe", "--header", "h.toml", "-o", "t.shoal"]);
    command.current_dir(folder.0.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The command waits for the rest of its input.
    let mut pipe = fs::OpenOptions::new().write(true).open(folder.path("pipe")).unwrap();
    pipe.write_all(b"a\n1\n").unwrap();
    let is_partial = |name: &String| name.ends_with(".partial");
    while !folder.names().iter().any(is_partial) {
        assert!(child.try_wait().unwrap().is_none(), "ended early");
        sleep(Duration::from_millis(10));
    }
    let process = Pid::from_child(&child);
    kill_process(process, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(folder.names(), ["h.toml", "pipe"]);
}
