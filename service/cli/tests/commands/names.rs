//! Hazard: a command that shows, takes or writes another object than the one that a name means.

use std::collections::BTreeSet;
use std::fs;

use tempfile::TempDir;

use crate::shoal::Served;

/// All times.
const ALL: &str = "--from 0 --to 4000000000000";
/// Names that CSV, a shell or a terminal could take for something else.
const NAMES: [&str; 8] =
    ["truck-42", "007", "7", "a,b", "say \"hi\"", "../x", "\u{202e}gnol", "in the middle"];

/// A server whose fleet `default` is named, with a history that takes fixes at once.
fn with_history() -> (TempDir, Served) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = ["--named", "--clock", "event", "--history", "--limit", "history_seal_ms=1"];
    let served = Served::start(&[&settings[..], &["--data", data.to_str().unwrap()]].concat());
    (folder, served)
}

/// Lines of JSON, four fixes of each name.
fn reported() -> String {
    let line = |at: usize, name: &str| {
        let time_ms = 1_577_836_800_000 + 1_000 * at;
        let name = serde_json::to_string(name).unwrap();
        format!("{{\"object\":{name},\"time_ms\":{time_ms},\"x\":{},\"y\":2}}\n", at % 8)
    };
    (0..32).map(|at| line(at, NAMES[at % 8])).collect()
}

/// Names and times in the history.
fn rows(served: &Served) -> BTreeSet<(String, u64)> {
    let replayed = served.run(&format!("history replay {ALL} --json")).json(0);
    let rows = replayed["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["object"].as_str().unwrap().into(), row["time_ms"].as_u64().unwrap()))
        .collect()
}

#[test]
fn every_command_takes_and_shows_names() {
    let (folder, served) = with_history();
    let summary = served.run_with("history import - --json", &reported()).json(0);
    assert_eq!(summary["rows_sent"], 32);
    // `007` and `7` are two objects.
    let got = served.run("get 007 7 truck-42 --json").json(0);
    let names: Vec<_> = got["rows"].as_array().unwrap().iter().map(|row| &row["object"]).collect();
    assert_eq!(names, ["truck-42", "007", "7"]);

    let track = served.run(&format!("history track 7 truck-42 {ALL} --json")).json(0);
    let names: Vec<_> =
        track["rows"].as_array().unwrap().iter().map(|row| &row["object"]).collect();
    assert_eq!(names, ["7", "7", "7", "7", "truck-42", "truck-42", "truck-42", "truck-42"]);
    let none = served.run(&format!("history track nobody {ALL} --json"));
    assert!(none.err.contains("fleet default has no name `nobody`"), "{none:?}");
    assert_eq!(none.json(4)["rows"].as_array().unwrap().len(), 0);
    let as_of = |object: &str| {
        let line = format!("history as-of 4000000000000 --object {object} --csv");
        served.run(&line).expect(if object == "nobody" { 4 } else { 0 })
    };
    let expected = "object_id,t_ms,lon,lat,speed,heading,altitude,state,valid_s\n\
                    truck-42,1577836824000,0,2,,,,0,\n";
    assert_eq!(as_of("truck-42"), expected);
    assert_eq!(as_of("nobody").lines().count(), 1);
    let passed = served.run(&format!("history passed --rect -1,0,3.5,3 --ids {ALL}")).expect(0);
    assert_eq!(passed.lines().collect::<Vec<_>>(), ["truck-42", "007", "7", "a,b"]);
    let svg = folder.path().join("track.svg");
    let drawn = served.run(&format!("history track truck-42 {ALL} --svg {}", svg.display()));
    assert_eq!(drawn.code, 0, "{drawn:?}");
    assert!(fs::read_to_string(svg).unwrap().contains("<title>truck-42</title>"));

    // A pattern selects by name, and the shell leaves it alone if it is quoted.
    for (line, names) in [
        ("get --name *truck* --ids", vec!["truck-42"]),
        ("range --rect -1,0,9,3 --name ??7 --ids", vec!["007"]),
        ("range --rect -1,0,9,3 --name *7 --ids", vec!["007", "7"]),
        ("get 007 7 --name 0* --ids", vec!["007"]),
        ("names *7", vec!["007", "7"]),
        ("names --limit 3", vec!["truck-42", "007", "7"]),
        ("names --after 3 --limit 2", vec!["a,b", "say \"hi\""]),
    ] {
        let code = if line.starts_with("get 007") { 4 } else { 0 };
        let found = served.run(line).expect(code);
        assert_eq!(found.lines().collect::<Vec<_>>(), names, "{line}");
    }
    let near = served.run("nearest 0,2 -k 9 --name *7 --json").json(0);
    let names: Vec<_> = near["rows"].as_array().unwrap().iter().map(|row| &row["object"]).collect();
    assert_eq!(names, ["007", "7"]);
    let passed = format!("history passed --rect -1,0,3.5,3 --name *2 --ids {ALL}");
    assert_eq!(served.run(&passed).expect(0), "truck-42\n");
    let refused = served.run("names \\").refused(2);
    assert!(refused.contains("name_pattern"), "{refused}");

    let watched = served.run("watch --rect -1,0,9,3 --count 8 --format json").expect(0);
    let names: BTreeSet<String> = watched
        .lines()
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["object"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(names, NAMES.map(str::to_owned).into());
    // Tables and events for people have an escape for what turns the text around.
    for shown in ["range --rect -1,0,9,3", "watch --rect -1,0,9,3 --count 8"] {
        let text = served.run(shown).expect(0);
        assert!(text.contains("\\u{202e}gnol") && !text.contains('\u{202e}'), "{text}");
    }
}

#[test]
fn names_come_back_from_exports_and_replays() {
    let (folder, served) = with_history();
    served.run_with("history import - --json", &reported()).json(0);
    let sent = rows(&served);
    assert_eq!(sent.len(), 32);
    for name in ["all.csv", "all.parquet", "all.geojson"] {
        let file = folder.path().join(name);
        served.run(&format!("history export {} {ALL}", file.display())).expect(0);
        let (_folder, other) = with_history();
        other.run(&format!("history import {} --json", file.display())).json(0);
        assert_eq!(rows(&other), sent, "{name}");
    }
    let file = folder.path().join("some.csv");
    let line = format!("history export {} --object 007 --object nobody {ALL}", file.display());
    served.run(&line).expect(0);
    let text = fs::read_to_string(file).unwrap();
    assert!(text.lines().skip(1).all(|line| line.starts_with("007,")), "{text}");
    assert_eq!(text.lines().count(), 5);

    // What a query answers can be reported again.
    let line = "range --rect -1,0,9,3 --json";
    let rows: Vec<String> = served.run(line).json(0)["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let again = served
        .run_with("report - --fleet again --fleet-create named --json", &rows.join("\n"))
        .json(0);
    assert_eq!(again["rows"]["applied"], 8);
    let found = served.run("range --rect -1,0,9,3 --ids --fleet again").expect(0);
    assert_eq!(found.lines().collect::<BTreeSet<_>>(), NAMES.into());

    served.run("fleets create numbers --clock event").expect(0);
    let refused = served.run(&format!("history replay {ALL} --into numbers")).refused(2);
    assert!(refused.contains("fleet numbers takes numbers"), "{refused}");
    served.run("fleets create copy --named --clock event").expect(0);
    served.run(&format!("history replay {ALL} --into copy")).expect(0);
    let copied = served.run("range --rect -1,0,9,3 --ids --fleet copy").expect(0);
    let copied: BTreeSet<&str> = copied.lines().collect();
    assert_eq!(copied, NAMES.into());
}

#[test]
fn a_file_with_texts_makes_its_fleet() {
    let served = Served::start(&[]);
    let rows = "vehicle_id,t_ms,lon,lat\ntruck-42,1577836800000,1,2\n7,1577836800000,1,2\n";
    let told = served.run_with("report -", rows);
    assert_eq!(told.code, 3);
    assert!(told.out.contains("(--fleet NAME --fleet-create named)"), "{told:?}");
    let refused = served.run_with("report - --fleet-create named", rows).refused(2);
    assert!(refused.contains("fleet default exists, and takes numbers"), "{refused}");
    for (time, applied) in [("1577836800000", 2), ("1577836800001", 2)] {
        let rows = rows.replace("1577836800000", time);
        let line = "report - --fleet trucks --fleet-create named --json";
        let summary = served.run_with(line, &rows).json(0);
        assert_eq!(summary["rows"]["applied"], applied);
    }
    let rows_of_blocks = rows.replace("1577836800000", "1577836800002");
    let line = "report - --fleet trucks --encoding block --json";
    let summary = served.run_with(line, &rows_of_blocks).json(0);
    assert_eq!(summary["rows"]["applied"], 2);
    let names = served.run("get truck-42 7 --fleet trucks --ids").expect(0);
    assert_eq!(names, "truck-42\n7\n");
    let line = "report - --fleet trucks --fleet-create numeric";
    assert!(served.run_with(line, rows).refused(2).contains("takes names"));
}

#[test]
fn the_sample_is_played_as_buses_with_names() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");
    let flags = ["--named", "--name-prefix", "bus-", "--speedup", "1e9", "--replay", sample];
    let mut served = Served::start(&flags);
    served.lines_until("replay done");
    let names = served.run("names --json").expect(0);
    assert_eq!(names.lines().count(), 183);
    assert!(names.lines().all(|line| line.contains("\"object\":\"bus-")), "{names}");
    assert_eq!(served.run("get bus-402 --ids").expect(0), "bus-402\n");
    served.run("get 402").expect(4);
    let near = served.run("nearest -97.743,30.267 -k 3 --name bus-4* --ids").expect(0);
    assert!(near.lines().count() == 3 && near.lines().all(|line| line.starts_with("bus-4")));
}

#[test]
fn an_erased_name_is_in_no_answer() {
    let (_folder, served) = with_history();
    served.run_with("history import - --json", &reported()).json(0);
    let erased = served.run("history erase truck-42 nobody --yes");
    assert!(erased.err.contains("no name `nobody`"), "{erased:?}");
    let erased = erased.expect(4);
    assert!(
        erased.contains("1 objects are in no answer any more, 1 were in the fleet"),
        "{erased}"
    );
    assert!(erased.contains("the names stay"), "{erased}");
    assert_eq!(rows(&served).len(), 28);
    served.run("get truck-42").expect(4);
}
