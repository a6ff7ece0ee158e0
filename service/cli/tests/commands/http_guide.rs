//! Runs every command of `docs/http.md` against a server, as a reader would: in order, in a shell.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::shoal::{Served, shoal};

/// Starts a server with HTTP on a free port; returns the address that its log names.
fn serve(folder: &str) -> (Served, String) {
    let mut command = shoal();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
    command.args(["--data", folder, "--history", "--limit", "log_segment_bytes=1048576"]);
    command.args(["--log", "info", "--log-format", "json"]).env("NO_COLOR", "1");
    let log = tempfile::NamedTempFile::new().unwrap();
    command.stderr(Stdio::from(log.reopen().unwrap()));
    let served = Served::spawn(&mut command);
    let lines = BufReader::new(log.reopen().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.contains("\"message\":\"http\""));
    let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
    let address = line["address"].as_str().unwrap().to_owned();
    (served, format!("http://{address}"))
}

/// The blocks of commands.
fn blocks(guide: &str) -> Vec<&str> {
    let blocks = guide.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn every_command_of_the_guide_succeeds() {
    let guide = include_str!("../../../../docs/http.md");
    let folder = tempfile::tempdir().unwrap();
    let (_served, address) = serve(folder.path().to_str().unwrap());
    let blocks = blocks(guide);
    assert!(blocks.len() > 5, "{}", blocks.len());
    for block in blocks {
        // -e: the first command that fails ends the block.
        let ran = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", block])
            .env("SHOAL", &address)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&ran.stdout);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{block}\n{out}\n{err}");
        assert!(!out.trim().is_empty(), "{block}");
    }
}
