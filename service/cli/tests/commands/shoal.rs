//! A server process of the built binary for one test, on a free port, killed on drop.
//!
//! Tests use the command line only, as users do. The environment is empty except for variables that
//! a test sets, so that settings of the developer's shell have no effect.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The program under test.
pub(crate) fn shoal() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.env_clear();
    command
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("the command was killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command to completion.
    pub(crate) fn command(command: &mut Command) -> Self {
        Self::of(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Standard output, after confirming the exit code.
    pub(crate) fn expect(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:#?}");
        self.out
    }

    /// Standard output as one JSON document, after confirming the exit code.
    pub(crate) fn json(self, code: i32) -> Value {
        let text = self.expect(code);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Standard error, after confirming the exit code and that standard output is empty.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:#?}");
        self.err
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Served {
    /// Starts `shoal serve` with `arguments` on a free port and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = shoal();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        command.stderr(Stdio::null());
        Self::spawn(&mut command)
    }

    /// Starts a prepared command and waits until it listens.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").map(|rest| rest.trim_end().to_owned());
        let mut served = Self { child, out, address: String::new() };
        served.address = address.unwrap_or_else(|| panic!("the first line was {line:?}"));
        served
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The most memory that the process has had resident, MiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
    }

    /// Reads standard output through the first line that contains `text`.
    pub(crate) fn lines_until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let bytes = self.out.read_line(&mut line).unwrap();
            assert!(bytes > 0, "output ended before {text:?}: {lines:#?}");
            lines.push(line.trim_end().to_owned());
            if line.contains(text) {
                return lines;
            }
        }
    }

    /// A client command for this server.
    pub(crate) fn client(&self, line: &str) -> Command {
        let mut command = shoal();
        command.args(line.split(' ')).env("SHOAL_TARGET", format!("http://{}", self.address));
        command
    }

    /// Runs a client command; `line` is split at spaces.
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::command(&mut self.client(line))
    }

    /// Runs a client command with `input` on its standard input.
    pub(crate) fn run_with(&self, line: &str, input: &str) -> Ran {
        let mut command = self.client(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads no input may have exited.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Sends SIGINT, as Ctrl-C does, and returns the exit code.
    pub(crate) fn interrupt(self) -> Option<i32> {
        self.signal("-INT")
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.signal("-TERM")
    }

    fn signal(mut self, signal: &str) -> Option<i32> {
        self.send(signal);
        wait(&mut self.child)
    }

    /// Sends a signal.
    pub(crate) fn send(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

/// The exit code of a process that is about to end; only a hang takes a minute.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    for _ in 0..6_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // The process must not outlive its test.
    let _ = child.kill();
    panic!("the process does not end");
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
