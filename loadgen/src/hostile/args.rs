//! The flags of `shoal-loadgen hostile`, and of the process that it starts for an attack.
//!
//! `--help` and the table of results use the same names of attacks.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// The most regions of one Subscribe: the server's limit.
const REGIONS_MAX: u32 = 16_384;

/// An attack on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// 8 Batch streams of 4,096 counts of the world per message, back to back.
    Rectangles,
    /// The same with circles of 9,000 km.
    Circles,
    /// 8 Batch streams of 120 stars of 4,096 vertices per message.
    Stars,
    /// 8 Batch streams of 4,096 nearest queries of 1,000 objects per message.
    Nearest,
    /// 16 stars with a deadline of 1 s, again and again, on 8 connections.
    Deadlines,
    /// 8 Report streams of 4,194,303 empty fixes per message.
    EmptyFixes,
    /// 8 Batch streams of 4,194,240 empty queries per message.
    EmptyQueries,
    /// 8 Report streams of 1,000 rows per message that are 59 s ahead of the clock.
    RowsAhead,
    /// 40 Report streams on one connection, each with one message of 64 MiB of zeros.
    HeldMessages,
    /// 8 Report streams that declare 64 MiB and send 100 bytes.
    DeclaredMessages,
    /// 504 calls of ReportOnce on 8 connections whose messages of 4 MiB lack their last bytes.
    WaitingReports,
    /// 2,000 Report streams on 8 connections that send nothing.
    OpenStreams,
    /// 10,240 calls of ReportOnce on 40 connections that send headers only.
    HeaderOnly,
    /// 50 connections that ask for all fixes of the world again and again and read nothing.
    UnreadAnswers,
    /// 200 connections with a window of 0 bytes that ask for all fixes of the world.
    ZeroWindows,
    /// A session that follows all movements in many regions of the whole world.
    WideRegions,
    /// Opens and closes connections as fast as possible.
    Connections,
}

impl Attack {
    /// The name, as in flags and in the table.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Flags of `shoal-loadgen hostile`.
#[derive(Clone, Debug, Args)]
pub struct HostileArgs {
    /// Server to attack: URL or ADDR:PORT.
    #[arg(long, default_value = "http://127.0.0.1:7117")]
    pub target: String,
    /// Number of objects of the fleet. The command creates the fleet, and deletes it at its end.
    #[arg(long, default_value_t = 1_000_000)]
    pub objects: u64,
    /// Seconds of each attack, and of the measurement without one.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds without load after each attack.
    #[arg(long, default_value_t = 2.0)]
    pub rest: f64,
    /// Run only this attack; repeat the flag for several [default: all].
    #[arg(long, value_enum, value_name = "NAME")]
    pub attack: Vec<Attack>,
    /// wide-regions: regions of the session.
    #[arg(long, default_value_t = 4_096)]
    pub regions: u32,
    /// Process of the server on this machine, to show its resident memory (Linux).
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Fail if a 99th percentile of the well-behaved client exceeds this.
    #[arg(long, value_name = "MS")]
    pub p99_max: Option<f64>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Flags of the process that performs an attack.
#[derive(Clone, Debug, Args)]
pub struct AttackArgs {
    /// Server to attack.
    #[arg(long)]
    pub target: String,
    /// Fleet to attack.
    #[arg(long)]
    pub fleet: String,
    /// The attack.
    #[arg(long, value_enum)]
    pub attack: Attack,
    /// Its duration in seconds.
    #[arg(long)]
    pub seconds: f64,
    /// Regions of wide-regions.
    #[arg(long)]
    pub regions: u32,
}

impl HostileArgs {
    /// Rejects flags outside their range; the plan of the well-behaved client checks the others.
    ///
    /// # Errors
    /// [`LoadError::Usage`] names the flag and its permitted values.
    pub fn check(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        let Self { seconds, rest, regions, .. } = self;
        if !(seconds.is_finite() && *seconds > 0.0) {
            return usage(format!("--seconds is {seconds}, it must be above 0"));
        }
        if !(rest.is_finite() && *rest >= 0.0) {
            return usage(format!("--rest is {rest}, it must be 0 or more"));
        }
        if !(1..=REGIONS_MAX).contains(regions) {
            return usage(format!("--regions is {regions}, it must be 1 to {REGIONS_MAX}"));
        }
        Ok(())
    }

    /// The attacks to run, in order.
    #[must_use]
    pub fn attacks(&self) -> &[Attack] {
        if self.attack.is_empty() { Attack::value_variants() } else { &self.attack }
    }
}
