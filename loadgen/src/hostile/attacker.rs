//! The process of an attack: this binary with the hidden command `attack`.
//!
//! A process of its own keeps the attacker's work out of the threads that measure. It prepares its
//! messages, prints `ready`, waits for a line, attacks, and prints a report. It is killed when its
//! handle is dropped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use tokio::time::{Duration, timeout};

use super::args::{Attack, HostileArgs};
use crate::error::LoadError;
use crate::login::environment;

/// The line of a process that is ready to attack.
pub const READY: &str = "ready";
/// Time for the preparation of an attack, and for its report after its end.
const GRACE: Duration = Duration::from_secs(60);

/// What an attack achieved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AttackReport {
    /// Requests answered.
    pub answered: u64,
    /// Requests refused, failed, or ended by the server.
    pub refused: u64,
    /// Cause of the first refusal or failure.
    pub first_refusal: Option<String>,
    /// CPU seconds of the attacker per second; absent where the system does not state them.
    pub cpu_per_s: Option<f64>,
}

/// A process that is ready to attack.
#[derive(Debug)]
pub struct Attacker {
    process: Process,
    output: BufReader<ChildStdout>,
    seconds: f64,
}

/// A child process that is killed when the handle is dropped.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Attacker {
    /// Starts the process and waits until it is ready.
    ///
    /// # Errors
    /// [`LoadError::Task`] if the process does not start or does not become ready.
    pub async fn start(args: &HostileArgs, fleet: &str, attack: Attack) -> Result<Self, LoadError> {
        let failed = |error| LoadError::Task(format!("the attack does not start: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["attack", "--target", &args.target, "--fleet", fleet]);
        command.args(["--attack", &attack.name(), "--seconds", &args.seconds.to_string()]);
        command.args(["--regions", &args.regions.to_string()]);
        if let Some(monitoring) = args.monitoring {
            command.args(["--monitoring", &monitoring.to_string()]);
        }
        if let Some(http) = args.http {
            command.args(["--http", &http.to_string()]);
        }
        command.envs(environment());
        if let Some(file) = &args.attacker_token_file {
            command.env("SHOAL_TOKEN_FILE", file);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process(command.spawn().map_err(failed)?);
        let output = process.0.stdout.take();
        let output = BufReader::new(output.ok_or_else(|| lost("it has no output"))?);
        let (output, line) = read_line(output, GRACE).await?;
        if line.trim_end() != READY {
            return Err(lost("it ended before it was ready"));
        }
        Ok(Self { process, output, seconds: args.seconds })
    }

    /// Starts the attack, waits for its end and returns its report.
    ///
    /// # Errors
    /// [`LoadError::Task`] if the process fails or does not end.
    pub async fn run(mut self) -> Result<AttackReport, LoadError> {
        let input = self.process.0.stdin.as_mut().ok_or_else(|| lost("it has no input"))?;
        writeln!(input).map_err(|error| lost(&error.to_string()))?;
        let limit = Duration::from_secs_f64(self.seconds) + GRACE;
        let (_, line) = read_line(self.output, limit).await?;
        serde_json::from_str(&line).map_err(|_| lost("it ended without a report"))
    }
}

/// Reads a line without blocking the runtime.
async fn read_line(
    mut output: BufReader<ChildStdout>,
    limit: Duration,
) -> Result<(BufReader<ChildStdout>, String), LoadError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        output.read_line(&mut line).map(|_| (output, line))
    });
    let read = timeout(limit, read).await.map_err(|_| lost("it does not end"))?;
    let read = read.map_err(|error| lost(&error.to_string()))?;
    read.map_err(|error| lost(&error.to_string()))
}

fn lost(problem: &str) -> LoadError {
    LoadError::Task(format!("the process of the attack is lost: {problem}"))
}
