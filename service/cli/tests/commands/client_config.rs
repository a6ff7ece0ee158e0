//! Settings have a precedence, and invalid ones are reported by name.
//!
//! Checks the effective configuration in the server's log, and the errors of a refused start.

use std::fs;
use std::path::PathBuf;

use crate::shoal::{Ran, Served, shoal};
use serde_json::Value;
use tempfile::TempDir;

/// A configuration file in a temporary folder.
fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shoal.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// Starts a server and returns the effective configuration from its log.
fn effective(text: &str, variables: &[(&str, &str)], flags: &[&str]) -> Value {
    let (folder, path) = file(text);
    let log = folder.path().join("log");
    let mut command = shoal();
    command.args(["serve", "--log-format", "json", "--config"]).arg(&path).args(flags);
    command.envs(variables.iter().copied()).stderr(fs::File::create(&log).unwrap());
    let served = Served::spawn(&mut command);
    assert_eq!(served.interrupt(), Some(0), "exit code after Ctrl-C");
    let log = fs::read_to_string(log).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.into_iter().find(|line| line["message"] == "configuration in effect").unwrap()
}

#[test]
fn flags_override_environment_file_and_defaults() {
    let text = "listen = '127.0.0.1:0'\nttl = '1m'\nclock = 'event'\nspace = 'planar:50x50'\n\
                [limits]\nfleets_max = 3\n";
    let variables = [
        ("SHOAL_TTL", "2m"),
        ("SHOAL_CLOCK", "system"),
        ("SHOAL_THREADS", "1"),
        ("SHOAL_INSECURE", "true"),
        ("SHOAL_GPU_FLEET_MEMORY", "3GiB"),
    ];
    let seen = effective(text, &variables, &["--ttl", "3m", "--limit", "streams_max=77"]);
    assert_eq!(seen["ttl_ms"], "Some(180000)", "the flag: {seen:#}");
    assert_eq!(seen["clock"], "System", "the environment");
    assert_eq!(seen["space"], "planar:50x50", "the file");
    assert_eq!(seen["time_ahead_max_ms"], 60_000, "the default");
    assert_eq!(seen["gpu_fleet_memory_bytes"], "Some(3221225472)");
    assert_eq!((&seen["threads"], &seen["insecure"]), (&1.into(), &true.into()));
    let limits = seen["limits"].as_str().unwrap();
    assert!(limits.contains("fleets_max: 3") && limits.contains("streams_max: 77"), "{limits}");
}

#[test]
fn limits_are_listed_with_their_ranges_and_meanings() {
    let (_folder, path) = file("[limits]\nfleets_max = 3\n");
    let mut command = shoal();
    command.args(["serve", "--limits", "--limit", "streams_max=77", "--config"]).arg(path);
    let listed = Ran::command(&mut command).expect(0);
    assert!(listed.contains("fleets_max = 3  (1 to "), "{listed}");
    assert!(listed.contains("streams_max = 77  (1 to 1048576)\n    Report, batch and"), "{listed}");
}

#[test]
fn a_server_that_cannot_be_says_which_setting_and_ends_with_2() {
    for (text, named) in [
        ("lissten = '127.0.0.1:0'", "lissten"),
        ("[limits]\nfleets = 3", "fleets"),
        ("listen = 7117", "listen"),
        ("ttl = 'long'", "ttl"),
        ("listen = '0.0.0.0:0'", "--insecure"),
        ("engine = 'cuda'", "cuda"),
        ("gpu_fleet_memory = '1.5GiB'", "gpu_fleet_memory"),
        ("replay = 'no-such-day.csv'", "no-such-day.csv"),
        ("speedup = 10.0", "--replay"),
    ] {
        let (_folder, path) = file(text);
        let mut command = shoal();
        command.args(["serve", "--listen=127.0.0.1:0", "--config"]).arg(&path);
        if text.starts_with("listen") {
            command = shoal();
            command.args(["serve", "--config"]).arg(&path);
        }
        let refused = Ran::command(&mut command).refused(2);
        assert!(refused.contains(named), "{text}: {refused}");
    }
    let mut command = shoal();
    command.args(["serve", "--config", "no-such-file.toml"]);
    assert!(Ran::command(&mut command).refused(2).contains("no-such-file.toml"));
    let mut command = shoal();
    command.arg("serve").env("SHOAL_LISTEN", "somewhere");
    assert!(Ran::command(&mut command).refused(2).contains("somewhere"));
}

#[test]
fn an_address_in_use_is_named() {
    let served = Served::start(&[]);
    let mut command = shoal();
    command.args(["serve", "--listen", &served.address]);
    let refused = Ran::command(&mut command).refused(1);
    assert!(refused.contains(&served.address), "{refused}");
}

#[test]
fn the_default_fleet_has_the_configured_settings() {
    let served =
        Served::start(&["--space", "planar:1000x1000", "--clock", "event", "--ttl", "10s"]);
    served.run("report --object 1 --x 1 --y 1 --time 1480140060000").expect(0);
    served.run("report --object 2 --x 1 --y 1 --time 1480140075000").expect(0);
    // One client does not move the clock that far; a second one that agrees does.
    let fleet = served.run("fleets describe default --json").json(0);
    assert_eq!(
        (&fleet["clock_ms"], &fleet["rows"]["ahead"]),
        (&1_480_140_061_000_i64.into(), &1.into())
    );
    served.run("report --object 4 --x 1 --y 1 --time 1480140075000").expect(0);
    let fleet = served.run("fleets describe default --json").json(0);
    assert_eq!((&fleet["space"], &fleet["ttl_ms"]), (&"planar:1000x1000".into(), &10_000.into()));
    assert_eq!(fleet["clock_ms"], 1_480_140_075_000_i64);
    assert_eq!(served.run("get 1 2 --ids").expect(4), "2\n", "the first one is 15 s old");
    served.run("report --object 3 --x 1000.1 --y 1").expect(3);
}
