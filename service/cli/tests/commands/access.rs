//! Access by the command line, as operators use it: tokens and certificates are made, a server asks
//! for them, and no token appears in any output.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::shoal::{Ran, Served, shoal};
use serde_json::Value;

fn run(arguments: &[&str]) -> Ran {
    Ran::command(shoal().args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A command of a client of this server.
fn client(served: &Served, arguments: &[&str]) -> Command {
    let mut command = shoal();
    let port = served.address.rsplit(':').next().unwrap();
    command.args(arguments).args(["--target", &format!("https://localhost:{port}")]);
    command
}

#[test]
fn tokens_and_certificates_protect_a_server_and_stay_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (tokens, log, audit) = (path("tokens.toml"), path("log"), path("audit.jsonl"));
    let made = run(&["cert", "dev", "--out", text(folder.path())]).expect(0);
    assert!(made.contains("cert.pem") && made.contains("key.pem"), "{made}");
    let again = run(&["cert", "dev", "--out", text(folder.path())]);
    assert!(again.refused(2).contains("--force"));
    let token = |name: &str, more: &[&str]| {
        let file = ["--tokens", text(&tokens)];
        run(&[&["token", "new", name], more, &file].concat()).expect(0).trim().to_owned()
    };
    let root = token("root", &["--right", "report,query,subscribe,history,admin"]);
    let reader = token("reader", &["--right", "query", "--fleet", "bus", "--expires-in", "1h"]);
    let twice = ["token", "new", "root", "--right", "query", "--tokens", text(&tokens)];
    assert!(run(&twice).refused(2).contains("twice"));
    assert!(!fs::read_to_string(&tokens).unwrap().contains(&root));

    let mut command = shoal();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "trace"]);
    command.args(["--tls-cert", text(&cert), "--tls-key", text(&key)]);
    command.args(["--tokens", text(&tokens), "--audit-log", text(&audit)]);
    command.stderr(fs::File::create(&log).unwrap());
    let served = Served::spawn(&mut command);
    let ca = ["--tls-ca", text(&cert)];
    let call = |arguments: &[&str], token: &str| {
        let mut command = client(&served, arguments);
        Ran::command(command.args(ca).env("SHOAL_TOKEN", token))
    };
    call(&["fleets", "create", "bus"], &root).expect(0);
    fs::write(path("root.token"), format!("{root}\n")).unwrap();
    let mut report = client(&served, &["report", "--fleet", "bus", "--object", "7"]);
    report.args(["--x", "1", "--y", "2"]).args(ca).arg("--token-file").arg(path("root.token"));
    Ran::command(&mut report).expect(0);
    let found = call(&["get", "7", "--fleet", "bus", "--json"], &reader).expect(0);
    assert!(found.contains('7'), "{found}");
    let denied = call(&["fleets", "drop", "bus"], &reader).refused(1);
    assert!(denied.contains("PERMISSION_DENIED"), "{denied}");
    let hidden = call(&["get", "7"], &reader).refused(4);
    assert!(hidden.contains("FLEET_UNKNOWN"), "{hidden}");
    const WRONG: &str = "wrong-token-that-must-not-be-logged";
    let unknown = call(&["get", "7"], WRONG).refused(1);
    assert!(unknown.contains("UNAUTHENTICATED"), "{unknown}");
    let without = Ran::command(client(&served, &["get", "7"]).args(ca)).refused(1);
    assert!(without.contains("authorization"), "{without}");
    let untrusted = Ran::command(client(&served, &["get", "7"]).env("SHOAL_TOKEN", &root));
    assert!(!untrusted.refused(1).contains(&root));
    assert_eq!(served.interrupt(), Some(0));

    let audited = fs::read_to_string(&audit).unwrap();
    check_audit(&audited);
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("TRACE"), "the log has everything");
    for secret in [root.as_str(), &reader, WRONG] {
        for (name, text) in [("log", &log), ("audit", &audited)] {
            assert!(!text.contains(secret), "a token is in the {name}");
        }
        for text in [&denied, &hidden, &unknown, &without] {
            assert!(!text.contains(secret));
        }
    }
}

/// The audit file has what was done and what was refused.
fn check_audit(audited: &str) {
    let records: Vec<Value> =
        audited.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |action: &str, caller: &str, allowed: bool| {
        let same = |of: &&Value| {
            of["action"].as_str().unwrap().ends_with(action)
                && of["caller"] == caller
                && of["allowed"] == allowed
        };
        assert!(records.iter().any(|of| same(&of)), "{action} {caller}: {audited}");
    };
    has("/CreateFleet", "root", true);
    has("/DeleteFleet", "reader", false);
    has("/GetFleet", "reader", false);
    has("/GetFleet", "unknown", false);
}

#[test]
fn a_server_outside_loopback_needs_protection() {
    for (flags, named) in [
        (&[][..], "--tls-cert, --tls-key and --tokens"),
        (&["--tokens", "none"], "--tls-cert and --tls-key"),
        (&["--tls-cert", "none", "--tls-key", "none"], "--tokens or --jwt-keys"),
        (&["--tls-cert", "none"], "--tls-key"),
    ] {
        let refused = run(&[&["serve", "--listen", "0.0.0.0:0"], flags].concat()).refused(2);
        assert!(refused.contains(named), "{refused}");
    }
    // Files that are wrong are named.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    fs::write(&file, "[[token]]\nname = 'a'\nsha256 = 'short'\n").unwrap();
    let mut command = shoal();
    command.args(["serve", "--listen", "127.0.0.1:0", "--tokens", text(&file)]);
    let ran = Ran::command(command.stdout(Stdio::null()));
    assert!(ran.err.contains("tokens.toml") && ran.err.contains("sha256"), "{}", ran.err);
}
