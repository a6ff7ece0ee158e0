//! Each client command has its documented effect, output and exit code.
//!
//! Runs the built binary against a server of the same binary. `client_output.rs` covers output
//! formats, `client_config.rs` server settings.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::shoal::{Ran, Served};
use serde_json::{Value, json};

const HEADER: &str = "object_id,t_ms,lon,lat,speed,heading\n";

/// Three buses around a stop, one far away.
const BUSES: &str = "object_id,t_ms,lon,lat,speed,heading\n\
    1,1480140066000,-97.7430,30.2670,5.0,10\n\
    2,1480140067000,-97.7431,30.2671,0.0,350.5\n\
    3,1480140068000,-97.7500,30.2672,,\n\
    4,1480140069000,-97.7000,30.4000,15.5,180\n";

fn with_buses() -> Served {
    let served = Served::start(&["--clock", "event"]);
    let summary = served.run_with("report - --json", BUSES).json(0);
    assert_eq!((&summary["rows_sent"], &summary["rows"]["applied"]), (&4.into(), &4.into()));
    served
}

/// Ids as `--ids` writes them.
fn ids(ran: Ran) -> Vec<u64> {
    ran.expect(0).lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn get_exits_with_4_for_missing_objects() {
    let served = with_buses();
    let table = served.run("get 1 4").expect(0);
    for text in ["object", "lon", "speed m/s", "-97.7430000", "2016-11-26T06:01:06.000Z", "15.5"] {
        assert!(table.contains(text), "{text} is not in\n{table}");
    }
    let partly = served.run("get 1 99");
    assert!(partly.err.contains("1 of 2 objects not found"), "{partly:?}");
    assert!(partly.expect(4).contains("-97.743"));
    assert_eq!(served.run("get 99 --count").expect(4), "0\n");
    let filtered = served.run("get 1 --speed 99..100");
    assert!(filtered.err.contains("not found, or not selected by the conditions"), "{filtered:?}");
    filtered.expect(4);
    assert_eq!(ids(served.run("get 4 1 1 --ids")), [1, 4]);
    served.run("get").refused(2);
    served.run("get minus-one").refused(2);
}

#[test]
fn range_takes_rectangles_circles_and_geojson_polygons() {
    let served = with_buses();
    assert_eq!(ids(served.run("range --rect -97.76,30.26,-97.74,30.27 --ids")), [1, 2, 3]);
    assert_eq!(ids(served.run("range --circle -97.743,30.267,100 --ids")), [1, 2]);
    assert_eq!(served.run("range --rect 170,-90,-170,90 --count").expect(0), "0\n");

    let polygon = r#"{"type":"Polygon","coordinates":
        [[[-97.76,30.26],[-97.745,30.26],[-97.745,30.27],[-97.76,30.27],[-97.76,30.26]]]}"#;
    let feature = format!(r#"{{"type":"Feature","properties":{{}},"geometry":{polygon}}}"#);
    assert_eq!(ids(served.run_with("range --polygon - --ids", polygon)), [3]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stop.geojson");
    fs::write(&file, feature).unwrap();
    let line = format!("range --polygon {} --ids", file.display());
    assert_eq!(ids(served.run(&line)), [3]);

    let point = r#"{"type":"Point","coordinates":[1,2]}"#;
    let refused = served.run_with("range --polygon -", point).refused(2);
    assert!(refused.contains("Point") && refused.contains("MultiPolygon"), "{refused}");
    let flat = r#"{"type":"Polygon","coordinates":[[[1,2],[3,4],[1,2]]]}"#;
    let refused = served.run_with("range --polygon -", flat).refused(2);
    assert!(refused.starts_with("error: ") && refused.contains("ring"), "{refused}");
    served.run("range --polygon no-such-file.geojson").refused(2);
    served.run("range --circle 200,30,10").refused(2);
}

#[test]
fn nearest_orders_by_distance() {
    let served = with_buses();
    assert_eq!(ids(served.run("nearest -97.7431,30.2671 -k 3 --ids")), [2, 1, 3]);
    let rows = served.run("nearest -97.7431,30.2671 -k 4 --json").json(0);
    let distances: Vec<f64> = rows["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["distance_m"].as_f64().unwrap())
        .collect();
    assert!(distances.is_sorted() && distances[0] == 0.0, "{distances:?}");
    assert!((10.0..20.0).contains(&distances[1]), "{distances:?}");
    let table = served.run("nearest -97.7431,30.2671").expect(0);
    assert!(table.contains("distance m") && table.contains("4 objects"), "{table}");
    assert!(served.run("nearest 0,0 -k 5000").refused(2).contains("4096"));
}

#[test]
fn conditions_are_combined_with_and() {
    let served = with_buses();
    served.run("report --object 5 --x -97.7 --y 30.3 --time 1480140069000 --state 0x6").expect(0);
    let range = "range --rect -180,-90,180,90 --ids";
    for (conditions, expected) in [
        ("--speed 0..5", vec![1, 2]),
        ("--speed 0..5 --heading 340..20", vec![1, 2]),
        ("--heading 0..20", vec![1]),
        ("--max-age 1s", vec![3, 4, 5]),
        ("--state-mask 0x2", vec![5]),
        ("--state-mask 3 --state-value 2", vec![5]),
        ("--state-mask 1 --state-value 0", vec![1, 2, 3, 4, 5]),
        ("--altitude -10..10", vec![]),
        ("--limit 2", vec![1, 2]),
    ] {
        assert_eq!(ids(served.run(&format!("{range} {conditions}"))), expected, "{conditions}");
    }
    served.run(&format!("{range} --state-value 1")).refused(2);
    served.run(&format!("{range} --speed fast")).refused(2);
}

#[test]
fn report_lists_refused_rows_and_exits_with_3() {
    let served = Served::start(&[]);
    let rows = "1,1480140066000,-97.7,30.2,5.0,10\n\
                2,1480140066000,-197.7,30.2,5.0,10\n\
                3,1480140066000,-97.7,30.2,5.0,400\n\
                4,1480140066000,-97.7,north,5.0,\n\
                5,1480140066000,-97.7,30.2,-5.0,\n";
    let text = format!("{HEADER}{rows}");
    let summary = served.run_with("report - --json --batch 2 --strict", &text).json(3);
    assert_eq!(summary["rows"]["applied"], 1);
    assert_eq!(summary["rows"]["refused"], 3);
    assert_eq!(summary["unreadable_rows"], 1);
    for reason in ["outside_space", "heading", "speed"] {
        assert_eq!(summary["refused_by_reason"][reason], 1, "{summary}");
    }
    let numbers: Vec<&Value> =
        summary["refused_rows"].as_array().unwrap().iter().map(|row| &row["row"]).collect();
    assert_eq!(numbers, [2, 3, 4], "rows are numbered among those sent");
    let first = &summary["refused_rows"][0];
    assert_eq!((&first["file_line"], &first["column"]), (&json!(3), &json!("lon")));
    assert_eq!(
        (&first["value"], &first["detail"]),
        (&json!("-197.7"), &json!("it must be -180 to 180"))
    );

    // Measures that cannot be stored cost no position.
    let said = served.run_with("report -", &text).expect(3);
    for part in [
        "applied 2, duplicate 1, superseded 0, late 0, refused 1",
        "refused for outside_space: 1",
        "standard input, line 3, lon: `-197.7`: it must be -180 to 180 [outside_space]",
        "standard input, line 5, lat: `north` is not a finite number",
        "measures dropped, which cannot be stored: 2\n    standard input, line 4, heading: `400`\n",
        "    standard input, line 6, speed: `-5.0`\n",
        "read as: object = object_id, time = t_ms (Unix milliseconds), x = lon, y = lat, speed = speed \
         (m/s), heading = heading\n",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    let seconds = served.run_with("report -", "id,t_ms,lon,lat\n1,1480140066,1,2\n").expect(3);
    assert!(seconds.contains("line 2, t_ms: `1480140066`"), "{seconds}");
    assert!(seconds.contains("as milliseconds it looks like seconds"), "{seconds}");
    let found = served.run_with("report -", "id,time,lon,lat\n1,1480140067,1,2\n").expect(0);
    assert!(found.contains("time = time (Unix seconds, found from the first)"), "{found}");
    served.run_with("report -", "a,b\n1,2\n").refused(2);
    served.run("report no-such.csv").refused(2);
    let said = served.run("report --object -5 --x 2 --y 0").refused(2);
    assert!(said.contains("`-5`: fleet default is numeric"), "{said}");
    served.run("report --object 1 --x 200 --y 0").expect(3);
    served.run("report --object 1 --x 2 --y 0 --heading 359.9 --altitude -5 --speed 3").expect(0);
}

#[test]
fn rows_of_a_pipe_arrive_at_once_and_a_signal_ends_with_the_summary() {
    let served = Served::start(&[]);
    let mut command = served.client("report -");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut report = command.spawn().unwrap();
    let mut rows = report.stdin.take().unwrap();
    rows.write_all(b"id,t_ms,lon,lat\n7,1480140066000,1,2\n8,soon,1,2\n").unwrap();
    let arrived = (0..1_000).any(|_| {
        thread::sleep(Duration::from_millis(20));
        served.run("get 7").code == 0
    });
    assert!(arrived, "the row waits for others");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&report),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let ended = report.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    for part in ["1 rows to fleet default", "stopped by a signal", "rows that cannot be read: 1"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    drop(rows);
}

#[test]
fn blocks_and_rows_store_the_same_records() {
    let served = Served::start(&[]);
    served.run("fleets create blocks").expect(0);
    let bad = format!("{BUSES}5,1480140066000,500,30.2,5.0,10\n");
    let of_rows = served.run_with("report - --json", &bad).json(3);
    let of_blocks =
        served.run_with("report - --json --fleet blocks --encoding block --batch 3", &bad).json(3);
    for key in ["rows", "refused_by_reason", "rows_sent"] {
        assert_eq!(of_rows[key], of_blocks[key], "{key}");
    }
    let rows_of = |fleet: &str| {
        let line = format!("range --rect -180,-90,180,90 --json --fleet {fleet}");
        let mut rows = served.run(&line).json(0)["rows"].take();
        for row in rows.as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("age_ms");
        }
        rows
    };
    assert_eq!(rows_of("default"), rows_of("blocks"));
}

#[test]
fn remove_deletes_objects() {
    let served = with_buses();
    assert!(served.run("remove 1 2").expect(0).starts_with("2 removed, 0 not found"));
    let again = served.run("remove 1 3 --json").json(4);
    assert_eq!((&again["removed"], &again["missing"]), (&1.into(), &1.into()));
    assert_eq!(ids(served.run("range --rect -180,-90,180,90 --ids")), [4]);
}

#[test]
fn fleets_are_created_described_cleared_and_dropped() {
    let served = with_buses();
    let created = "fleets create yard --space planar:1000x500:0.1 --clock event --ttl 10m --json";
    let yard = served.run(created).json(0);
    assert_eq!(yard["space"], "planar:1000x500:0.1");
    assert_eq!((&yard["clock"], &yard["ttl_ms"]), (&"event".into(), &600_000.into()));
    let refused = served.run("fleets create yard").refused(1);
    assert!(refused.contains("yard") && refused.contains("help:"), "{refused}");
    served.run("fleets create Yard").refused(2);
    served.run("report --fleet yard --object 9 --x 999.94 --y 0.5 --time 1480140066000").expect(0);
    let table = served.run("get 9 --fleet yard").expect(0);
    assert!(table.contains("x m") && table.contains("999.90"), "{table}");

    let list = served.run("fleets").expect(0);
    assert!(list.contains("default") && list.contains("planar:1000x500:0.1"), "{list}");
    let lines = served.run("fleets list --json").expect(0);
    let names: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].take())
        .collect();
    assert_eq!(names, ["default", "yard"]);

    assert_eq!(served.run("fleets clear default --json").json(0)["removed"], 4);
    assert_eq!(served.run("fleets describe default --json").json(0)["objects"], 0);
    served.run("fleets drop yard").expect(0);
    let missing = served.run("fleets describe yard").refused(4);
    assert!(missing.contains("yard") && missing.contains("shoal fleets list"), "{missing}");
    served.run("get 1 --fleet yard").refused(4);
    served.run("report --fleet yard --object 1 --x 1 --y 1").refused(4);
}

#[test]
fn stats_show_totals_and_rates() {
    let served = with_buses();
    let stats = served.run("stats --json").json(0);
    assert_eq!((&stats["objects"], &stats["rows"]["applied"]), (&4.into(), &4.into()));
    let text = served.run("stats").expect(0);
    assert!(text.contains("rows applied") && text.contains("4 of at most"), "{text}");
    let lines = served.run("stats --watch 50ms --lines 2 --json").expect(0);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[1]["objects"], &lines[1]["rows_per_s"]), (&4.into(), &0.0.into()));
    served.run("stats --lines 2").refused(2);
}

#[test]
fn a_refused_connection_prints_a_remedy() {
    let mut command = crate::shoal::shoal();
    // Port 1 of loopback is privileged and has no listener.
    command.args(["stats", "--target", "127.0.0.1:1"]);
    let text = Ran::command(&mut command).refused(1);
    assert!(text.contains("127.0.0.1:1") && text.contains("is `shoal serve` running"), "{text}");
}

#[test]
fn the_sample_is_reported_in_both_encodings() {
    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");
    let served = Served::start(&["--clock", "event"]);
    served.run("fleets create blocks --clock event").expect(0);
    let everywhere = "range --rect -180,-90,180,90 --ids";
    for (fleet, encoding) in [("default", "rows"), ("blocks", "block")] {
        let line = format!("report {SAMPLE} --fleet {fleet} --encoding {encoding} --json");
        let summary = served.run(&line).json(0);
        assert_eq!(summary["rows_sent"], 33_140, "{encoding}");
        assert_eq!((&summary["messages"], &summary["rows"]["refused"]), (&9.into(), &0.into()));
        assert_eq!(ids(served.run(&format!("{everywhere} --fleet {fleet}"))).len(), 183);
    }
}

#[test]
fn an_unresponsive_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let silent = |line: &str| {
        let mut command = crate::shoal::shoal();
        command.args(line.split(' ')).args(["--timeout", "100ms", "--target", &target]);
        Ran::command(&mut command).refused(1)
    };
    for line in ["stats", "get 1", "report --object 1 --x 1 --y 1"] {
        let text = silent(line);
        assert!(text.contains(&target) && text.contains("--timeout"), "{line}: {text}");
    }
}

#[test]
fn a_server_of_another_protocol_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let mut command = crate::shoal::shoal();
    command.args(["stats", "--target", &target]);
    let text = Ran::command(&mut command).refused(1);
    assert!(text.starts_with("error: "), "{text}");
    other.join().unwrap();
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let served = Served::start(&["--clock", "event"]);
    let rows: String = (0..20_000).map(|id| format!("{id},1480140066000,1,2\n")).collect();
    served.run_with("report -", &format!("object_id,t_ms,lon,lat\n{rows}")).expect(0);
    let mut command = served.client("range --rect -180,-90,180,90 --json");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap()),
        (Some(0), String::new())
    );
}

fn history_is_drawn_and_replayed(served: &Served, folder: &Path) {
    let window = "--from 2016-11-26T06:00:00Z --to 2016-11-26T07:00:00Z";
    let csv = served.run(&format!("history replay {window}")).expect(0);
    let times = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap());
    let seconds = [66, 67, 68, 69, 90].map(|second| 1_480_140_000_000 + second * 1_000_i64);
    assert!(times.eq(seconds.map(|ms| ms.to_string())), "{csv}");
    let at_a_rate = served.run(&format!("history replay {window} --speed 100000")).expect(0);
    assert_eq!(at_a_rate, csv);
    served.run("fleets create copy --clock event").expect(0);
    let summary = served.run(&format!("history replay {window} --into copy")).expect(0);
    assert!(summary.starts_with("5 rows to fleet copy"), "{summary}");
    let copied = served.run("get 1 2 3 4 --fleet copy --json").json(0);
    assert_eq!(copied["rows"].as_array().unwrap().len(), 4, "{copied}");

    let density = format!("history density --cell 0.01 {window}");
    let text = served.run(&density).expect(0);
    assert!(text.ends_with("y 30.26 to 30.41\n") && text.contains("5 fixes, at most 3"), "{text}");
    let steps = served.run(&format!("{density} --step 1m")).expect(0);
    assert!(steps.starts_with("2016-11-26T06:01:00.000Z  5 fixes in 3 squares"), "{steps}");
    let csv = served.run(&format!("{density} --csv")).expect(0);
    assert!(csv.contains("\n1480140000000,-97.75,30.26,3\n"), "{csv}");
    let squares = served.run(&format!("{density} --json")).json(0)["squares"].clone();
    assert_eq!(squares.as_array().unwrap().len(), 3);
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (png, svg, track) = (file("a.png"), file("a.svg"), file("track.svg"));
    served.run(&format!("{density} --png {png} --svg {svg}")).expect(0);
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let drawn = served.run(&format!("history track 1 2 {window} --svg {track}")).expect(0);
    assert!(drawn.starts_with("3 fixes in "), "{drawn}");
    assert_eq!(fs::read_to_string(&track).unwrap().matches("<polyline").count(), 2);
    let unsure = served.run("history erase 2").refused(2);
    assert!(unsure.contains("--yes"), "{unsure}");
    let erased = served.run("history erase 2 --yes").expect(0);
    assert!(erased.starts_with("1 objects are in no answer any more, 1 were"), "{erased}");
    assert!(erased.ends_with("no file of the server has them any more\n"), "{erased}");
    let csv = served.run(&format!("history replay {window}")).expect(0);
    assert_eq!(csv.lines().count(), 5, "{csv}");

    let nowhere = file("no/such/folder.png");
    let refused = served.run(&format!("{density} --png {nowhere}")).refused(1);
    assert!(refused.contains(&nowhere), "{refused}");
}

#[test]
fn history_shows_tracks_passages_and_past_states() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let soon = ["--limit", "history_seal_ms=1"];
    let settings = ["--clock", "event", "--data", data, "--history"];
    let served = Served::start(&[settings.as_slice(), &soon].concat());
    served.run_with("report - --json", BUSES).json(0);
    let later = format!("{HEADER}1,1480140090000,-97.7400,30.2600,1.5,\n");
    served.run_with("report - --json", &later).json(0);
    // Fixes become part of the history some seconds later.
    let epoch = served.run("stats --json").json(0)["epoch"].as_u64().unwrap();
    let track = "history track 1 2 --from 2016-11-26T00:00:00Z --to 2016-11-27T00:00:00Z";
    while served.run(&format!("{track} --json")).json(0)["epoch"].as_u64().unwrap() < epoch {
        thread::sleep(Duration::from_millis(50));
    }
    let csv = served.run(&format!("{track} --csv")).expect(0);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[0], "object_id,t_ms,lon,lat,speed,heading,altitude,state,valid_s");
    assert_eq!(lines[1], "1,1480140066000,-97.743,30.267,5,10,,0,");
    assert_eq!((lines.len(), lines[2].split(',').nth(1)), (4, Some("1480140090000")));
    let window = "--from 1480140060000 --to 1480140080000";
    let passed = format!("history passed --rect -97.76,30.26,-97.74,30.27 {window}");
    assert_eq!(ids(served.run(&format!("{passed} --ids"))), [1, 2, 3]);
    assert_eq!(ids(served.run(&format!("{passed} --speed 1..9 --ids"))), [1]);
    let table = served.run(&passed).expect(0);
    assert!(table.contains("3 fixes of the history up to epoch"), "{table}");
    let before = served.run("history as-of 1480140068000 --geojson").json(0);
    assert_eq!(before["features"].as_array().unwrap().len(), 3);
    assert_eq!(before["features"][0]["properties"]["age_ms"], 2_000);
    let after = served.run("history as-of 2016-11-26T06:02:00Z --object 1 --json").json(0);
    assert_eq!(after["rows"][0]["time_ms"], 1_480_140_090_000_i64);
    history_is_drawn_and_replayed(&served, folder.path());
    let wrong = "history track 1 --from 2 --to 1";
    assert!(served.run(wrong).refused(2).contains("from_ms 2"), "{wrong}");
    let without = with_buses().run("history as-of 0").refused(1);
    assert!(without.contains("--history"), "{without}");
}
