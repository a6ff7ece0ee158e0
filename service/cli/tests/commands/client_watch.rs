//! `shoal watch` prints events as they arrive and reconnects after a server restart.
//!
//! Runs the built binary against a server of the same binary.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::shoal::Served;
use serde_json::Value;

/// A running `shoal watch` whose output is read line by line; killed on drop.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(served: &Served, line: &str) -> Self {
        let mut command = served.client(line);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the watch ended").unwrap()
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Returns the exit code; fails if unread lines remain.
    fn end(mut self) -> Option<i32> {
        assert!(self.lines.next().is_none());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reports one fix.
fn at(served: &Served, object: u64, x: f64, second: u64) {
    let time_ms = 1_480_140_066_000 + second * 1_000;
    served.run(&format!("report --object {object} --x {x} --y 1 --time {time_ms}")).expect(0);
}

#[test]
fn events_are_geojson_lines_up_to_the_count() {
    let served = Served::start(&["--clock", "event"]);
    at(&served, 7, 1.0, 0);
    let mut watching =
        Watching::start(&served, "watch --circle 1,1,1000 --format geojson --count 5");
    let present = watching.line();
    at(&served, 8, 1.001, 1);
    at(&served, 7, 1.002, 2);
    at(&served, 8, 5.0, 3);
    served.run("remove 7").expect(0);
    let mut lines = vec![present];
    lines.extend((0..4).map(|_| watching.line()));
    let features: Vec<geojson::Feature> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let names: Vec<(&str, &str)> = features
        .iter()
        .map(|feature| {
            let property = |name| feature.property(name).unwrap().as_str().unwrap();
            (property("event"), property("object"))
        })
        .collect();
    let expected =
        [("present", "7"), ("enter", "8"), ("move", "7"), ("left", "8"), ("removed", "7")];
    assert_eq!(names, expected);
    assert_eq!(watching.end(), Some(0));
    // The watch closed its session.
    let again = served.run("watch --circle 1,1,1 --count 1 --fleet nobody");
    assert!(again.refused(4).contains("nobody"));
}

#[test]
fn flags_select_events_and_format() {
    let served = Served::start(&["--clock", "event"]);
    at(&served, 1, 1.0, 0);
    let line = "watch --rect 0,0,2,2 --events left,enter --no-snapshot --format json --ids";
    let mut watching = Watching::start(&served, line);
    let mut text = Watching::start(&served, "watch --rect 0,0,2,2 --max-age 1h");
    assert!(text.line().contains("present"));
    // Without a snapshot, the first report that this watch sees is not determined.
    let mut second = 1;
    let first = loop {
        at(&served, 2, 1.0, second);
        at(&served, 2, 9.0, second + 1);
        let is_delivered = text.line().contains("enter") && text.line().contains("left");
        assert!(is_delivered);
        second += 2;
        if second > 20 {
            break watching.json();
        }
    };
    assert!(first.get("x").is_none() && first["object"] == "2", "{first}");
    assert!(first["event"] == "enter" || first["event"] == "left", "{first}");
    served.run("watch --polygon no-such-file.geojson").refused(2);
    served.run("watch --circle 200,1,5").refused(2);
    served.run("fleets create yard --space planar:100x100").expect(0);
    let refused = served.run("watch --circle 1,1,5 --fleet yard --format geojson").refused(2);
    assert!(refused.contains("--format json"), "{refused}");
}

#[test]
fn a_watch_reconnects_to_a_restarted_server() {
    let served = Served::start(&["--clock", "event"]);
    at(&served, 1, 1.0, 0);
    let mut watching = Watching::start(&served, "watch --rect 0,0,2,2 --format json --count 2");
    assert_eq!(watching.json()["event"], "present");
    let address = served.address.clone();
    drop(served);
    let mut command = crate::shoal::shoal();
    command.args(["serve", "--clock", "event", "--listen", &address]).stderr(Stdio::null());
    let again = Served::spawn(&mut command);
    // The new session starts empty or with object 3 as a member.
    at(&again, 3, 1.5, 5);
    let event = watching.json();
    assert_eq!(event["object"], "3", "{event}");
    assert_eq!(watching.end(), Some(0));
}

#[test]
fn an_interrupted_watch_exits_with_0() {
    let served = Served::start(&["--clock", "event"]);
    at(&served, 1, 1.0, 0);
    let mut watching = Watching::start(&served, "watch --rect 0,0,2,2");
    watching.line();
    let pid = watching.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(watching.end(), Some(0));
}
