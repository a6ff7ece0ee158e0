//! Names the machine and the commit of a run, to be printed with every result.

use std::fs;
use std::process::Command;

/// Processor, cores and commit, for the head of a table.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} cores, commit {}", processor(), commit())
}

fn processor() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = information.lines().find_map(|line| line.strip_prefix("model name"));
    name.map_or("unknown processor", |name| name.trim_start_matches([':', '\t', ' '])).to_owned()
}

fn commit() -> String {
    let output = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or("unknown".into(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}
