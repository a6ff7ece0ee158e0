//! Hazard: `shoal log` misses damage, shows damage where there is none, or a repair leaves a log
//! with which no server starts.
//!
//! Runs the built binary on data folders that a server of the same binary has written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::shoal::{Ran, Served};
use serde_json::Value;
use shoal_position_log::{
    CycleHeader, FileStorage, Group, LogOptions, LogReader, LogWriter, LoggedRequest, Manifest,
    ReadMode, ReadOptions, RequestBody, Storage,
};
use tempfile::TempDir;

const PAGE_BYTES: u64 = 4096;
/// Bytes of a frame before its cycles.
const FRAME_HEADER_BYTES: u64 = 128;

/// A data folder.
struct Data(TempDir);

impl Data {
    /// The log of two fleets in small segments: `default` with blocks and plain rows, and `yard`.
    fn new(is_closed: bool) -> Self {
        Self::with_limits(&[], is_closed)
    }

    fn with_limits(limits: &[&str], is_closed: bool) -> Self {
        let data = Self(tempfile::tempdir().unwrap());
        let served = data.serve(limits);
        let yard = "fleets create yard --space planar:1000x500:0.1 --ttl 10m --clock event";
        served.run(yard).expect(0);
        served.run("report --fleet yard --object 9 --x 9 --y 5 --time 1480140066000").expect(0);
        for (batch, encoding) in ["rows", "block", "rows", "block"].into_iter().enumerate() {
            let line = format!("report - --encoding {encoding} --batch 1500");
            served.run_with(&line, &rows(batch as u64)).expect(0);
        }
        served.run("remove 1 2").expect(0);
        if is_closed {
            assert_eq!(served.interrupt(), Some(0));
        }
        data
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Starts a server and waits until it has recovered its fleets.
    fn serve(&self, limits: &[&str]) -> Served {
        let folder = self.path().display().to_string();
        let mut arguments = vec!["--data", &folder, "--clock", "event", "--engine", "cpu"];
        for limit in ["log_segment_bytes=65536", "log_reserve_bytes=0"].iter().chain(limits) {
            arguments.extend(["--limit", limit]);
        }
        let served = Served::start(&arguments);
        for _ in 0..1_000 {
            if served.run("stats").code == 0 {
                return served;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not recover: {:?}", served.run("stats"));
    }

    /// Runs `shoal log COMMAND DIR REST`.
    fn log(&self, command: &str, rest: &str) -> Ran {
        let mut line = crate::shoal::shoal();
        line.args(["log", command]).arg(self.path());
        line.args(rest.split(' ').filter(|part| !part.is_empty()));
        Ran::command(&mut line)
    }

    /// The description of the fleet `default`.
    fn inspect(&self) -> Value {
        self.log("inspect", "default --json").json(0)
    }

    /// The frames of cycles of the fleet `default`.
    fn cycle_frames(&self) -> Vec<Value> {
        self.cycle_frames_of(0)
    }

    /// As `cycle_frames`, of a log that is shown with this exit code.
    fn cycle_frames_of(&self, code: i32) -> Vec<Value> {
        let lines = self.log("inspect", "default --frames --json").expect(code);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["kind"] == "cycles").collect()
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.path().join(format!("fleets/default/log/{number:016}.segment"))
    }

    /// Damages a frame; returns its segment and offset.
    fn damage(&self, frame: &Value) -> (u64, u64) {
        let (segment, offset) =
            (frame["segment"].as_u64().unwrap(), frame["offset"].as_u64().unwrap());
        flip(&self.segment(segment), offset + FRAME_HEADER_BYTES + 50);
        (segment, offset)
    }

    /// Name, modification time and content of all files.
    fn files(&self) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
        let (mut files, mut folders) = (Vec::new(), vec![self.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let changed = fs::metadata(&path).unwrap().modified().unwrap();
                    files.push((path.clone(), changed, fs::read(path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

/// 3,000 rows of as many objects; attributes vary, so that they take some space.
fn rows(batch: u64) -> String {
    let mut text = "object_id,t_ms,lon,lat,speed\n".to_owned();
    for row in 0..3_000_u64 {
        let mixed = (row + batch * 3_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (lon, lat, speed) = (mixed % 9_000_000, mixed % 8_999_993, mixed % 400);
        let time_ms = 1_480_140_066_000 + batch * 1_000;
        text.push_str(&format!("{row},{time_ms},-9{lon:07}e-6,3{lat:07}e-6,{speed}e-1\n"));
    }
    text
}

fn flip(file: &Path, offset: u64) {
    let mut bytes = fs::read(file).unwrap();
    bytes[offset as usize] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn inspect_shows_everything_and_changes_nothing() {
    let data = Data::new(true);
    let before = data.files();
    let fleet = data.inspect();
    assert_eq!(fleet["options"]["clock"], "event");
    assert_eq!((&fleet["requests"]["blocks"], &fleet["requests"]["rows"]), (&4.into(), &4.into()));
    assert_eq!((&fleet["rows"], &fleet["removed_ids"]), (&12_000.into(), &2.into()));
    assert_eq!((&fleet["is_clean"], &fleet["fault"]), (&true.into(), &Value::Null));
    let segments = fleet["segments"].as_array().unwrap();
    assert!(segments.len() > 2, "{fleet}");
    assert_eq!(segments.last().unwrap()["segment"], fleet["end"]["segment"]);
    assert_eq!(fleet["terms"].as_array().unwrap().len(), 1);
    let cycles: u64 = data.cycle_frames().iter().map(|it| it["cycles"].as_u64().unwrap()).sum();
    assert_eq!(fleet["cycles"], cycles);

    let text = data.log("inspect", "").expect(0);
    for part in ["fleet default (", "fleet yard (", "planar:1000x500:0.1", "ttl 10m", "12000 rows"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.contains("sealed") && text.contains("closed in order"), "{text}");
    let text = data.log("inspect", "yard --frames").expect(0);
    assert!(text.contains("clean") && !text.contains("default"), "{text}");

    let text = data.log("verify", "").expect(0);
    assert_eq!(text.matches(": whole;").count(), 2, "{text}");
    let text = data.log("repair", "default --yes").expect(0);
    assert!(text.contains("nothing was changed"), "{text}");
    let changed = |file: &PathBuf| !file.ends_with("lock");
    let (mut before, mut after) = (before, data.files());
    before.retain(|(file, ..)| changed(file));
    after.retain(|(file, ..)| changed(file));
    assert!(before == after, "a command changed the folder");
}

#[test]
fn a_damaged_frame_is_named_and_repaired_on_demand() {
    let data = Data::new(true);
    let frames = data.cycle_frames();
    let (segment, offset) = data.damage(&frames[frames.len() / 2]);
    let good = frames[frames.len() / 2 - 1]["epoch_last"].as_u64().unwrap();

    let found = data.log("verify", "default --json").json(5);
    let finding = &found["findings"][0];
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(finding["file"], data.segment(segment).display().to_string());
    assert_eq!(finding["offset"], offset);
    assert!(finding["lost"].as_str().unwrap().contains(&format!("epochs {}", good + 1)), "{found}");
    let text = data.log("verify", "").expect(5);
    for part in ["fleet default: DAMAGED", "fleet yard: whole", "shoal log repair"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.contains(&format!("{segment:016}.segment, byte {offset}")), "{text}");
    let text = data.log("inspect", "default").expect(5);
    assert!(text.contains(&format!("byte {offset}")), "{text}");

    let before = data.files();
    let refused = data.log("repair", "default");
    assert!(refused.err.contains("--yes") && refused.err.contains("not changed"), "{refused:?}");
    let plan = refused.expect(5);
    assert!(plan.contains(&format!("segment {segment}, byte {offset}, epoch {good}")), "{plan}");
    assert!(plan.contains(&format!("lose epochs {}", good + 1)), "{plan}");
    assert!(data.files() == before, "a repair without --yes changed the folder");

    let report = data.log("repair", "default --yes --json").json(0);
    assert_eq!((&report["is_repaired"], &report["epoch"]), (&true.into(), &good.into()));
    for file in report["set_aside"].as_array().unwrap() {
        assert!(Path::new(file.as_str().unwrap()).exists(), "{file}");
    }
    data.log("verify", "").expect(0);
    let served = data.serve(&[]);
    assert_eq!(served.run("stats --json").json(0)["epoch"], good);
    served.run("report --object 7 --x 1 --y 2").expect(0);
}

/// One checkpoint is taken in the third of four reports, when segment 1 is full.
const ONE_CHECKPOINT: &str = "checkpoint_log_bytes=200000";

#[test]
fn a_checkpoint_makes_earlier_damage_harmless() {
    let data = Data::with_limits(&[ONE_CHECKPOINT], true);
    let fleet = data.inspect();
    assert_eq!(fleet["checkpoints"][0]["objects"], 3_000, "{fleet}");
    assert_eq!(data.damage(&data.cycle_frames()[0]).0, 1);
    let found = data.log("verify", "default --json").json(5);
    assert!(found["findings"][0]["lost"].as_str().unwrap().contains("nothing"), "{found}");
    let text = data.log("repair", "default --yes").expect(0);
    assert!(text.contains("needs no truncation"), "{text}");
    let served = data.serve(&[]);
    assert_eq!(served.run("stats --json").json(0)["objects"], 2_998);
}

#[test]
fn a_damaged_checkpoint_is_rejected_with_its_reason() {
    let data = Data::with_limits(&[ONE_CHECKPOINT], true);
    let epoch = data.inspect()["checkpoints"][0]["epoch"].as_u64().unwrap();
    let file = data.path().join(format!("fleets/default/checkpoint/{epoch:016}.checkpoint"));
    // This byte is in the rows, which follow the header page and two section headers.
    flip(&file, PAGE_BYTES + 200);
    let found = data.log("verify", "default --json").json(5);
    assert_eq!(found["findings"][0]["file"], file.display().to_string());
    assert!(found["findings"][0]["lost"].as_str().unwrap().contains("nothing"), "{found}");
    let fleet = data.log("inspect", "default --json").json(5);
    assert!(fleet["checkpoints"][0]["rejected"].as_str().unwrap().contains("checksum"), "{fleet}");
    let served = data.serve(&[]);
    assert_eq!(served.run("stats --json").json(0)["objects"], 2_998);
}

#[test]
fn rows_that_do_not_decode_are_found() {
    const LOG: &str = "fleets/default/log";
    let data = Data::new(true);
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(data.path()));
    let fleets = Manifest::load(&*storage).unwrap().unwrap().fleets;
    let fleet = fleets.into_iter().find(|entry| entry.fleet.name == "default").unwrap().fleet;
    let read = ReadOptions { fleet: Some(fleet.clone()), after_epoch: 0, mode: ReadMode::Recover };
    let recovered = LogReader::open(storage.clone(), LOG, read).unwrap().finish().unwrap();
    let last = recovered.end().epoch;
    let options =
        LogOptions { segment_bytes: 65_536, reserve_bytes: 0, ..LogOptions::new(fleet, 1) };
    let mut log = LogWriter::open(storage, LOG, options, recovered, last, 1).unwrap();
    let cycle = CycleHeader { epoch: last + 1, system_ms: 0, time_max_ms: 0 };
    let request = LoggedRequest { body: RequestBody::Rows(&[7; 16]), batch: None };
    let mut group = Group::new();
    group.append(cycle, std::iter::once(request)).unwrap();
    log.write(&mut group).unwrap();
    log.close().unwrap();

    let found = data.log("verify", "default --json").json(5);
    let finding = &found["findings"][0];
    let reason = finding["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("epoch {}", last + 1)) && reason.contains("form"), "{found}");
    assert_eq!(finding["offset"], data.cycle_frames_of(5).last().unwrap()["offset"]);
    // Its checksum is right, so a truncation is no remedy.
    data.log("repair", "default --yes").expect(0);
    data.log("verify", "default").expect(5);
}

#[test]
fn an_incomplete_write_needs_no_repair() {
    let data = Data::new(false);
    let frames = data.cycle_frames();
    data.damage(frames.last().unwrap());
    let text = data.log("verify", "").expect(0);
    assert!(text.contains("an incomplete write of 1 frame"), "{text}");
    let fleet = data.inspect();
    assert_eq!((&fleet["is_clean"], &fleet["torn_tail"]["frames"]), (&false.into(), &1.into()));
    data.log("repair", "default").expect(0);
    data.serve(&[]);
    assert_eq!(data.inspect()["terms"].as_array().unwrap().len(), 2);
}

#[test]
fn a_missing_segment_is_named_and_repaired() {
    let data = Data::new(true);
    let segments = data.inspect()["segments"].as_array().unwrap().len() as u64;
    let missing = data.segment(segments - 1);
    fs::remove_file(&missing).unwrap();
    let found = data.log("verify", "default --json").json(5);
    assert_eq!(found["findings"][0]["file"], missing.display().to_string());
    data.log("repair", "default --yes").expect(0);
    data.log("verify", "default").expect(0);
    data.serve(&[]);
}

#[test]
fn a_log_without_a_readable_part_is_not_repaired() {
    let data = Data::new(true);
    flip(&data.segment(1), 50);
    let found = data.log("verify", "default --json").json(5);
    let remedy = found["findings"][0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("from a copy") && !remedy.contains("repair"), "{found}");
    let refused = data.log("repair", "default --yes").refused(5);
    assert!(refused.contains("does not repair"), "{refused}");
}

#[test]
fn other_folders_fleets_and_servers_are_refused() {
    let empty = tempfile::tempdir().unwrap();
    let missing = Data(empty);
    for command in ["inspect", "verify", "repair"] {
        let refused = missing.log(command, "default").refused(2);
        assert!(refused.contains("fleets.manifest"), "{refused}");
    }
    assert_eq!(missing.files(), []);

    let data = Data(tempfile::tempdir().unwrap());
    let served = data.serve(&[]);
    for (command, rest) in [("inspect", ""), ("verify", ""), ("repair", "default --yes")] {
        let refused = data.log(command, rest).refused(1);
        assert!(refused.contains("is held by"), "{refused}");
    }
    assert_eq!(served.interrupt(), Some(0));
    assert!(data.log("inspect", "nowhere").refused(4).contains("nowhere"));
    flip(&data.path().join("fleets.manifest"), 40);
    assert!(data.log("verify", "").refused(5).contains("fleets.manifest"));
}

const COMMANDS: [&str; 3] = ["inspect", "verify", "repair"];

#[test]
fn exit_codes_are_those_of_the_table() {
    let data = Data::new(true);
    let manifest = data.path().join("fleets.manifest");
    for command in COMMANDS {
        for dir in [data.path().join("nowhere"), manifest.clone(), manifest.join("deeper")] {
            let ran =
                Ran::command(crate::shoal::shoal().args(["log", command]).arg(dir).arg("default"));
            assert!(ran.refused(2).contains("not the data folder"), "{command}");
        }
        data.log(command, "nowhere").refused(4);
        let help = Ran::command(crate::shoal::shoal().args(["log", command, "--help"])).expect(0);
        assert!((0..=5).all(|code| code == 3 || help.contains(&format!("\n  {code}  "))), "{help}");
    }
    let away = data.path().join("away");
    let first = "fleets/default/log/0000000000000001.segment";
    for part in ["fleets/default", "fleets/default/log", "fleets/default/checkpoint", first] {
        let place = data.path().join(part);
        fs::rename(&place, &away).unwrap();
        for command in COMMANDS {
            let ran = data.log(command, "default");
            assert_eq!(ran.code, 5, "{command} without {part}: {ran:#?}");
        }
        let folder = data.path().display().to_string();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--engine", "cpu", "--data", &folder];
        let served = Ran::command(crate::shoal::shoal().args(serve));
        assert_eq!(served.code, 5, "serve without {part}: {served:#?}");
        fs::rename(&away, &place).unwrap();
    }
    for command in COMMANDS {
        data.log(command, "default").expect(0);
    }
}

#[test]
fn folders_that_the_list_does_not_name_are_reported() {
    let data = Data::new(true);
    let stray = data.path().join("fleets/stray");
    fs::create_dir(&stray).unwrap();
    let stray = stray.display().to_string();
    assert!(data.log("inspect", "").expect(0).contains(&stray));
    assert!(!data.log("inspect", "yard").expect(0).contains(&stray));
    let lines = data.log("inspect", "--json").expect(0);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["unlisted_folder"], stray);

    let messages = data.path().join("messages");
    let mut command = crate::shoal::shoal();
    command.args(["serve", "--listen", "127.0.0.1:0", "--engine", "cpu", "--data"]);
    command.arg(data.path()).stderr(fs::File::create(&messages).unwrap());
    let served = Served::spawn(&mut command);
    assert_eq!(served.interrupt(), Some(0));
    let messages = fs::read_to_string(messages).unwrap();
    assert!(messages.contains("fleets/stray") && messages.contains("WARN"), "{messages}");
}

#[test]
fn exchanged_files_are_named_with_their_places() {
    let data = Data::new(true);
    let swap = |one: &Path, other: &Path| {
        let away = data.path().join("away");
        fs::rename(one, &away).unwrap();
        fs::rename(other, one).unwrap();
        fs::rename(&away, other).unwrap();
    };
    swap(&data.segment(1), &data.segment(2));
    let found = data.log("verify", "default").expect(5);
    for part in ["0000000000000001.segment, byte 0", "that of 0000000000000002.segment"] {
        assert!(found.contains(part), "{part} is not in\n{found}");
    }
    swap(&data.segment(1), &data.segment(2));
    data.log("verify", "").expect(0);
    let yard = data.path().join("fleets/yard/log/0000000000000001.segment");
    swap(&data.segment(2), &yard);
    let found = data.log("verify", "default").expect(5);
    for part in ["0000000000000002.segment belongs to fleet yard", "0000000000000001.segment"] {
        assert!(found.contains(part), "{part} is not in\n{found}");
    }
    swap(&data.segment(2), &yard);
    data.log("verify", "").expect(0);
}
