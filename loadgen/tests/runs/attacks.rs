//! `shoal-loadgen hostile`: every attack runs, and the well-behaved client is served during each.
//!
//! The binary attacks a server in this process, with a small fleet and for a short time.

use std::process::{Command, Output};

use crate::in_process::InProcess;
use clap::ValueEnum as _;
use serde_json::Value;
use shoal_loadgen::hostile::Attack;

/// Runs the binary without blocking the server.
async fn hostile(server: &InProcess, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal-loadgen"));
    command.args(["hostile", "--target", &server.url(), "--objects", "10000"]);
    command.args(["--seconds", "0.3", "--rest", "0.1"]).args(flags);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn count(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_is_served_beside_every_attack() {
    let (server, address) = InProcess::start_with_http().await;
    let fleets = server.fleets().await.len();
    let json = tempfile::NamedTempFile::new().unwrap();
    let pid = std::process::id().to_string();
    let path = json.path().to_str().unwrap();
    let http = address.to_string();
    let flags = ["--json", path, "--server-pid", &pid, "--http", &http];
    let output = hostile(&server, &flags).await;
    let (text, log) = (String::from_utf8_lossy(&output.stdout), &output.stderr);
    println!("{text}\n{}", String::from_utf8_lossy(log));
    assert!(output.status.success(), "{}", output.status);
    let summary: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rows = summary["rows"].as_array().unwrap();
    // This server has no monitoring address and no history.
    let without = [Attack::Monitoring, Attack::Past];
    let attacks = Attack::value_variants().iter().filter(|attack| !without.contains(attack));
    let attacks = attacks.map(|attack| attack.name());
    let names: Vec<_> = std::iter::once("none".to_owned()).chain(attacks).collect();
    assert_eq!(rows.len(), names.len());
    for (row, name) in rows.iter().zip(&names) {
        assert_eq!(row["attack"], *name);
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name}");
        assert!(count(row, "acks") > 0 && count(row, "queries") > 0, "{row}");
        assert_eq!(count(row, "refused"), 0, "{row}");
        assert!(count(&row["http"], "answered") > 0, "{row}");
        assert_eq!(count(&row["http"], "refused"), 0, "{row}");
        assert!(row["broken"].is_null(), "{row}");
        assert_eq!(row["attacker"].is_null(), name == "none", "{row}");
        if cfg!(target_os = "linux") {
            let memory = &row["server_mib"];
            assert!(count(memory, "max") >= count(memory, "before").min(1), "{row}");
        }
    }
    assert_eq!(server.fleets().await.len(), fleets, "the fleet is deleted");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_are_chosen_and_a_limit_of_time_fails_the_command() {
    let server = InProcess::start().await;
    let flags = ["--attack", "connections", "--attack", "rectangles", "--p99-max", "0"];
    let output = hostile(&server, &flags).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let first_words = text.lines().filter_map(|line| line.split_whitespace().next());
    let attacks: Vec<_> = first_words.take(4).collect();
    assert_eq!(attacks, ["attack", "none", "connections", "rectangles"], "{text}");
    for wrong in [&["--seconds", "0"][..], &["--attack", "http-bodies"]] {
        assert_eq!(hostile(&server, wrong).await.status.code(), Some(2), "{wrong:?}");
    }
    server.end().await;
}
