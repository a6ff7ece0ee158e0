//! Memory of the server and CPU time of an attack, from Linux's `/proc`.
//!
//! On other systems, and for processes that cannot be read, there is no value.

use std::fs;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

/// Ticks per second in `/proc/PID/stat`. Linux uses 100 on all common architectures.
const TICKS_PER_S: f64 = 100.0;
/// Interval of memory samples: short against the shortest attack.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// Resident memory of a process, MiB.
#[must_use]
pub fn resident_mib(pid: u32) -> Option<u64> {
    parse_resident_mib(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_resident_mib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib >> 10)
}

/// CPU time of this process and all its threads, seconds.
#[must_use]
pub fn cpu_s() -> Option<f64> {
    parse_cpu_s(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_cpu_s(stat: &str) -> Option<f64> {
    // The second field is the process name in parentheses; the name may contain spaces and
    // parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS_PER_S)
}

/// Samples the memory of a process until it is dropped.
#[derive(Debug)]
pub struct MemoryWatch {
    max_mib: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl MemoryWatch {
    /// Starts to sample.
    #[must_use]
    pub fn start(pid: u32) -> Self {
        let (writer, max_mib) = watch::channel(0);
        let task = tokio::spawn(async move {
            while let Some(mib) = resident_mib(pid) {
                writer.send_modify(|max| *max = mib.max(*max));
                sleep(MEMORY_INTERVAL).await;
            }
        });
        Self { max_mib, task }
    }

    /// The largest sample so far, MiB.
    #[must_use]
    pub fn max_mib(&self) -> u64 {
        *self.max_mib.borrow()
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        let status = "Name:\tshoal\nVmHWM:\t    9999 kB\nVmRSS:\t    4100 kB\nThreads:\t4\n";
        assert_eq!(parse_resident_mib(status), Some(4));
        assert_eq!(parse_resident_mib("Name:\tkthreadd\n"), None);
        let stat = "17 (a ) b) S 1 17 17 0 -1 4194304 100 0 0 0 250 50 7 9 20 0 5 0 1 2 3";
        assert_eq!(parse_cpu_s(stat), Some(3.0));
        assert_eq!(parse_cpu_s("17 (a) S 1"), None);
    }
}
