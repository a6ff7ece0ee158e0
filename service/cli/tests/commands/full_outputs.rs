//! Hazard: a server whose log or messages nobody reads stops answering, or does not end.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::shoal::{Ran, Served, shoal, wait};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// More than the lines that once filled a pipe.
const REFUSED: usize = 1_000;

/// A pipe that accepts no byte as long as its reader does nothing.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    // The rest is filled with single bytes, because a pipe refuses a write that does not fit.
    for size in [4096, 1] {
        let error = std::iter::repeat_with(|| writer.write_all(&vec![b'-'; size]));
        let error = error.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Opens connections that the server refuses, and waits until it has closed each.
fn flood(address: &str) {
    for _ in 0..REFUSED {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        match stream.read_to_end(&mut Vec::new()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("not refused"),
            _ => {}
        }
    }
}

/// Waits until a condition holds; only a hang takes a minute.
fn until(condition: impl Fn() -> bool) {
    let holds = (0..600).any(|_| {
        let holds = condition();
        if !holds {
            std::thread::sleep(Duration::from_millis(100));
        }
        holds
    });
    assert!(holds, "timed out");
}

#[test]
fn a_server_whose_log_nobody_reads_answers_and_ends() {
    let (mut reader, writer) = full_pipe();
    let mut command = shoal();
    command.args(["serve", "--engine", "cpu", "--listen", "127.0.0.1:0", "--log", "trace"]);
    command.args(["--limit", "connections_max=2"]).stderr(writer);
    let served = Served::spawn(&mut command);
    // The command holds a copy of the writer, which must be closed.
    drop(command);
    let held = [(); 2].map(|()| TcpStream::connect(&served.address).unwrap());
    flood(&served.address);
    drop(held);
    until(|| served.run("stats --json").code == 0);
    assert_eq!(served.terminate(), Some(0));
    // Nothing of the log was accepted.
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.bytes().all(|byte| byte == b'-'));
}

#[test]
fn a_log_that_is_read_names_a_flood_in_few_lines() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = shoal();
    command.args(["serve", "--engine", "cpu", "--listen", "127.0.0.1:0"]);
    command.args(["--limit", "connections_max=2"]).stderr(writer);
    let served = Served::spawn(&mut command);
    drop(command);
    let held = [(); 2].map(|()| TcpStream::connect(&served.address).unwrap());
    flood(&served.address);
    drop(held);
    assert_eq!(served.terminate(), Some(0));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("beyond the limit")).collect();
    let suppressed = lines.iter().filter_map(|line| line.split_once("suppressed="));
    let count: usize = suppressed.clone().map(|(_, count)| count.parse::<usize>().unwrap()).sum();
    let written = lines.len() - suppressed.count();
    assert_eq!(written + count, REFUSED, "{text}");
    assert!(written < REFUSED / 2, "{text}");
    assert!(text.contains("the server has stopped"), "{text}");
}

#[test]
fn a_server_that_cannot_start_ends_though_nobody_reads_the_reason() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_reader, writer) = full_pipe();
    let mut command = shoal();
    command.args(["serve", "--engine", "cpu", "--listen", &address]).stderr(writer);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut child), Some(1));
}

#[test]
fn a_server_whose_messages_nobody_reads_answers_and_ends() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let (_reader, writer) = full_pipe();
    let mut command = shoal();
    command.args(["serve", "--engine", "cpu", "--listen", &address]).stdout(writer);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It cannot say that it listens.
    let stats = || {
        let mut client = shoal();
        client.args(["stats", "--json"]).env("SHOAL_TARGET", format!("http://{address}"));
        Ran::command(&mut client).code == 0
    };
    until(stats);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(wait(&mut child), Some(0));
}
