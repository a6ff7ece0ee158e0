//! Access by the command line, as operators use it: tokens and certificates are made, a server asks
//! for them, and no token appears in any output.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// Runs curl; returns the status of the answer, or why there is none.
fn curl(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--output", "/dev/null", "--max-time", "30"]);
    let ran =
        command.args(["--write-out", "%{http_version} %{http_code}"]).args(arguments).output();
    let ran = ran.unwrap();
    match ran.status.success() {
        true => Ok(String::from_utf8(ran.stdout).unwrap()),
        false => Err(String::from_utf8(ran.stderr).unwrap()),
    }
}

#[test]
fn http_has_the_certificate_and_the_tokens_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (tokens, log) = (path("tokens.toml"), path("log"));
    run(&["cert", "dev", "--out", text(folder.path())]).expect(0);
    let token =
        run(&["token", "new", "a", "--right", "query", "--tokens", text(&tokens)]).expect(0);
    let mut command = shoal();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
    command.args(["--log", "info", "--log-format", "json", "--tokens", text(&tokens)]);
    command.args(["--limit", "handshakes_max=4"]);
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    command.args(["--tls-cert", text(&cert), "--tls-key", text(&key)]);
    command.stderr(fs::File::create(&log).unwrap());
    let served = Served::spawn(&mut command);
    let log = fs::read_to_string(&log).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let line = lines.into_iter().find(|line| line["message"] == "http").unwrap();
    let address = line["address"].as_str().unwrap().to_owned();
    let (host, port) = address.rsplit_once(':').unwrap();
    let url = format!("https://localhost:{port}/v1/fleets");
    let authorization = format!("authorization: Bearer {}", token.trim());
    let trusting = ["--cacert", text(&cert), "--resolve", &format!("localhost:{port}:{host}")];
    let ask = |more: &[&str]| curl(&[&trusting, more, &[url.as_str()]].concat());
    assert_eq!(ask(&["--http1.1", "--header", &authorization]).unwrap(), "1.1 200");
    assert_eq!(ask(&["--http2", "--header", &authorization]).unwrap(), "2 200");
    assert_eq!(ask(&[]).unwrap(), "2 401");
    assert!(curl(&[&url]).unwrap_err().contains("certificate"));
    assert!(curl(&[&url.replace("https", "http")]).is_err());
    // Peers that stall in the handshake keep nobody out.
    let stalled: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            stream.write_all(&[22, 3, 1, 2, 0]).unwrap();
            stream
        })
        .collect();
    assert_eq!(ask(&["--header", &authorization]).unwrap(), "2 200");
    drop(stalled);
    // A renewed certificate is used for new connections.
    let before = fs::read_to_string(&cert).unwrap();
    run(&["cert", "dev", "--force", "--out", text(folder.path())]).expect(0);
    assert_ne!(fs::read_to_string(&cert).unwrap(), before);
    until(|| ask(&["--header", &authorization]).is_ok());
    assert_eq!(served.interrupt(), Some(0));
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

/// The lines of `shoal token list --json`.
fn listed(tokens: &str) -> Vec<Value> {
    let text = run(&["token", "list", "--tokens", tokens, "--json"]).expect(0);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn tokens_are_listed_and_revoked_and_the_rest_of_the_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let tokens = text(&path);
    let new = |name: &str, more: &[&str]| {
        run(&[&["token", "new", name, "--right", "query", "--tokens", tokens], more].concat())
    };
    new("first", &["--quota", "streams=4,rows_per_second=9"]).expect(0);
    fs::write(&path, format!("# Of the depot.\n{}", fs::read_to_string(&path).unwrap())).unwrap();
    new("second", &["--fleet", "bus", "--fleet", "truck-*", "--not-before", "2200-01-31"])
        .expect(0);
    new("third", &["--expires-in", "1s"]).expect(0);
    let wrong = new("fourth", &["--quota", "tokens=4"]).refused(2);
    assert!(wrong.contains("--quota") && wrong.contains("rows_per_second"), "{wrong}");

    let entries = listed(tokens);
    assert_eq!(entries[0]["quotas"], serde_json::json!({"streams": 4, "rows_per_second": 9}));
    assert_eq!((&entries[0]["name"], &entries[0]["state"]), (&"first".into(), &"valid".into()));
    assert_eq!(entries[1]["state"], "not yet valid");
    assert_eq!(entries[1]["not_before"], "2200-01-31T00:00:00Z");
    assert_eq!(entries[1]["grants"][0]["fleets"], serde_json::json!(["bus", "truck-*"]));
    assert_eq!(entries.len(), 3);
    let table = run(&["token", "list", "--tokens", tokens]).expect(0);
    let names = ["first", "bus,truck-*", "query", "rows_per_second=9", "2200-01-31T00:00:00Z"];
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    assert!(!table.contains("sha256"));

    let missing = run(&["token", "revoke", "first", "none", "--tokens", tokens]).refused(2);
    assert!(missing.contains("none"), "{missing}");
    assert_eq!(listed(tokens).len(), 3, "all or nothing");
    run(&["token", "revoke", "second", "third", "--tokens", tokens]).expect(0);
    assert_eq!(listed(tokens), entries[..1]);
    let left = fs::read_to_string(&path).unwrap();
    assert!(left.starts_with("# Of the depot.\n[[token]]"), "{left}");
    fs::write(&path, "token = [{ name = 'a', sha256 = 'x' }]").unwrap();
    assert!(run(&["token", "list", "--tokens", tokens]).refused(2).contains("sha256"));
}

#[test]
fn tokens_that_are_made_at_the_same_time_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let names: Vec<String> = (0..12).map(|number| format!("t{number}")).collect();
    let spawned: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = shoal();
            command.args(["token", "new", name, "--right", "query", "--tokens", text(&path)]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in spawned {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(listed(text(&path)).len(), names.len());
}

/// A server with TLS and the tokens of `tokens.toml` in a folder, which has its certificate.
fn serve_in(folder: &Path) -> Served {
    run(&["cert", "dev", "--force", "--out", text(folder)]).expect(0);
    let mut command = shoal();
    let path = |name: &str| folder.join(name);
    command.args(["serve", "--listen", "127.0.0.1:0", "--tokens", text(&path("tokens.toml"))]);
    command.args(["--tls-cert", text(&path("cert.pem")), "--tls-key", text(&path("key.pem"))]);
    Served::spawn(&mut command)
}

fn target(served: &Served) -> String {
    format!("https://localhost:{}", served.address.rsplit(':').next().unwrap())
}

/// Waits until a server has reached a state.
#[track_caller]
fn until(is_done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < end, "the server does not reach the state");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_profile_keeps_commands_short_and_its_token_at_home() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (home, other_home) = (folders[0].path(), folders[1].path());
    let new = |name: &str, folder: &Path| {
        let tokens = folder.join("tokens.toml");
        let rights = ["--right", "report,query,admin", "--tokens", text(&tokens)];
        run(&[&["token", "new", name], &rights[..]].concat()).expect(0).trim().to_owned()
    };
    let (token, served) = (new("a", home), serve_in(home));
    new("b", other_home);
    let other = serve_in(other_home);
    let at_home = |arguments: &[&str]| {
        let mut command = shoal();
        command.args(arguments).env("HOME", home).current_dir(home);
        command
    };
    // The token comes from standard input, the certificate from the current folder.
    let log_in = |token: &str, more: &[&str]| {
        let mut command = at_home(&["login", "--target", &target(&served), "--tls-ca", "cert.pem"]);
        command.args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{token}").unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    };
    let profile = home.join(".config/shoal/default.toml");
    let refused = log_in("shoal_wrong", &[]);
    assert!(!refused.status.success() && !profile.exists());
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("shoal_wrong"));
    let stored = log_in(&token, &[]);
    assert!(stored.status.success(), "{stored:?}");
    assert!(!format!("{stored:?}").contains(&token));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&profile), mode(profile.parent().unwrap())), (0o600, 0o700));

    Ran::command(&mut at_home(&["report", "--object", "7", "--x", "1", "--y", "2"])).expect(0);
    let elsewhere = Ran::command(at_home(&["get", "7", "--json"]).current_dir("/"));
    assert!(elsewhere.expect(0).contains("\"7\""));
    let same = format!("{}/", target(&served).to_uppercase().replace("HTTPS", "https"));
    Ran::command(&mut at_home(&["get", "7", "--target", &same])).expect(0);
    // Another server gets neither the token nor the trust.
    let ca = text(&other_home.join("cert.pem")).to_owned();
    let away = ["get", "7", "--target", &target(&other)];
    let missing = Ran::command(at_home(&away).args(["--tls-ca", &ca])).refused(1);
    assert!(missing.contains("authorization"), "{missing}");
    Ran::command(&mut at_home(&away)).refused(1);
    let named = log_in(&token, &["--profile", "depot"]);
    assert!(named.status.success());
    let mixed = Ran::command(at_home(&away).args(["--profile", "depot"])).refused(2);
    assert!(mixed.contains("depot"), "{mixed}");
    let none = Ran::command(&mut at_home(&["get", "7", "--profile", "none"])).refused(2);
    assert!(none.contains("shoal login"), "{none}");

    fs::set_permissions(&profile, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Ran::command(&mut at_home(&["get", "7"])).refused(2).contains("chmod 600"));
    Ran::command(&mut at_home(&["get", "7", "--profile", "depot"])).expect(0);
    assert!(log_in(&token, &[]).status.success());
    assert_eq!(mode(&profile), 0o600);
    // Without a target the profile gets a new token for its own one.
    let renewed = new("c", home);
    until(|| Ran::command(at_home(&["login"]).env("SHOAL_TOKEN", &renewed)).code == 0);
    assert!(fs::read_to_string(&profile).unwrap().contains(&renewed));
    Ran::command(&mut at_home(&["get", "7"])).expect(0);
    Ran::command(&mut at_home(&["logout"])).expect(0);
    assert!(!profile.exists());
    assert!(Ran::command(&mut at_home(&["logout"])).refused(2).contains("default"));
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn followers_and_promotion_need_tls_a_token_and_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str, content: &str| {
        fs::write(path(name), content).unwrap();
        path(name).to_str().unwrap().to_owned()
    };
    run(&["cert", "dev", "--out", text(folder.path())]).expect(0);
    let (tokens, cert) = (path("tokens.toml"), path("cert.pem"));
    let new = |name: &str, rights: &str| {
        let made = run(&["token", "new", name, "--right", rights, "--tokens", text(&tokens)]);
        made.expect(0)
    };
    let root = file("root.token", &new("root", "report,query,admin"));
    let link = file("link.token", &new("link", "admin"));
    let reader = file("reader.token", &new("reader", "query"));
    let secret = file("secret", "sixteen-or-more-characters\n");
    let wrong = file("wrong", "another-of-sixteen-characters\n");
    let serve = |data: &str, more: &[&str]| {
        let mut command = shoal();
        command.args(["serve", "--listen", "127.0.0.1:0", "--engine", "cpu"]);
        command.arg("--data").arg(path(data)).args(["--tokens", text(&tokens)]);
        command.args(["--tls-cert", text(&cert), "--tls-key", text(&path("key.pem"))]);
        command.args(more).stderr(Stdio::null());
        command
    };
    let audit = path("audit.jsonl");
    let of_leader = ["--replication-secret", &secret, "--audit-log", text(&audit)];
    let leader = Served::spawn(&mut serve("leader", &of_leader));
    let ask = |served: &Served, arguments: &[&str], token: &str| {
        let mut command = client(served, arguments);
        Ran::command(command.args(["--tls-ca", text(&cert), "--token-file", token]))
    };
    ask(&leader, &["report", "--object", "7", "--x", "1", "--y", "2"], &root).expect(0);
    let leader_url = target(&leader);
    let following = ["--follow", &leader_url, "--follow-tls-ca", text(&cert)];
    let follow = |data: &str, token: &str, secret: &str| {
        let more = ["--follow-token-file", token, "--replication-secret", secret];
        serve(data, &[&following[..], &more].concat())
    };
    // Without the right or with another secret nothing is copied.
    let mut strangers = [follow("a", &reader, &secret), follow("b", &link, &wrong)]
        .map(|mut command| Killed(command.stdout(Stdio::null()).spawn().unwrap()));
    until(|| {
        let refused = fs::read_to_string(&audit).unwrap();
        refused.contains("no right `admin`") && refused.contains("replication secret")
    });
    assert!(strangers.iter_mut().all(|stranger| stranger.0.try_wait().unwrap().is_none()));
    drop(strangers);
    let follower = Served::spawn(&mut follow("copy", &link, &secret));
    until(|| ask(&follower, &["get", "7"], &root).code == 0);
    // The leader may be gone, so that only rights and the secret can refuse the promotion.
    let promote = |token: &str, secret: &str| {
        let promoted = ["promote", "--force", "--replication-secret", secret];
        ask(&follower, &promoted, token)
    };
    assert!(promote(&reader, &secret).refused(1).contains("PERMISSION_DENIED"));
    let refused = promote(&root, &wrong).refused(1);
    assert!(refused.contains("--replication-secret") && !refused.contains("login"), "{refused}");
    promote(&root, &secret).expect(0);
    let changed = ["report", "--object", "8", "--x", "1", "--y", "2"];
    ask(&follower, &changed, &root).expect(0);
    until(|| ask(&leader, &changed, &root).out.contains("FENCED"));
}
