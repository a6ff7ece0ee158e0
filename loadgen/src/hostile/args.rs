//! The flags of `shoal-loadgen hostile`, and of the process that it starts for an attack.
//!
//! `--help` and the table of results use the same names of attacks.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use shoal_client::is_on_this_machine;

use crate::error::LoadError;

/// Maximum number of regions of the session of wide-regions: the server's default limit of a
/// session.
const REGIONS_MAX: u32 = 131_072;
/// The longest attack, seconds.
const SECONDS_MAX: f64 = 600.0;

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
    /// 8 Batch streams of 4,096 counts per message: circles, nearest queries of 1,000 objects,
    /// hemispheres, and 64 stars.
    MixedQueries,
    /// 8 connections that call CountRegions with 4,096 world rectangles, again and again.
    CountRectangles,
    /// 8 connections that call CountRegions with 64 multipolygons of 1,365 triangles and a deadline
    /// of 8 s, again and again.
    CountTriangles,
    /// 8 Report streams of 4,194,303 empty fixes per message, more than the server takes.
    EmptyFixes,
    /// 8 Report streams of blocks of some hundred bytes with 262,144 equal rows, the most of a message.
    ConstantBlocks,
    /// 8 Report streams of blocks of 65,536 objects whose ids differ in their high bits only.
    ChosenIds,
    /// 8 Batch streams of 4,194,240 empty queries per message.
    EmptyQueries,
    /// 8 connections that call Subscribe with 4,194,240 empty regions.
    EmptyRegions,
    /// 8 connections that call CountRegions with a polygon of 4,194,240 empty rings.
    EmptyRings,
    /// 8 Report streams of 4,096 valid rows per message, as fast as the server takes them, whose
    /// acks are not read.
    Overload,
    /// 8 Report streams of 1,000 rows per message that are 59 s ahead of the clock.
    RowsAhead,
    /// 40 Report streams on one connection, each with one message of 64 MiB of zeros.
    HeldMessages,
    /// 8 Report streams that declare 64 MiB and send 100 bytes.
    DeclaredMessages,
    /// 504 calls of ReportOnce on 8 connections whose messages of 4 MiB lack their last bytes.
    WaitingReports,
    /// 2,000 such calls on 200 connections: more than the memory for messages, so most wait in the
    /// windows of their connections.
    FilledWindows,
    /// 400 Report streams on 8 connections whose messages of 64 KiB arrive a byte a second.
    SlowMessages,
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
    /// 2,100 connections that stay open and send nothing after the HTTP/2 preface. The process
    /// needs as many file descriptors (ulimit -n).
    OpenConnections,
    /// 100 connections to the monitoring address, each with a request whose header arrives a byte a
    /// second. Needs --monitoring.
    Monitoring,
    /// 1,000 connections to the HTTP address whose headers arrive a byte a second. Needs --http, as
    /// the others of HTTP.
    HttpHeaders,
    /// 1,000 reports over HTTP whose bodies arrive a byte a second.
    HttpBodies,
    /// Requests over HTTP with a header of 1 MiB, 20 at a time.
    HttpGiantHeaders,
    /// Opens and closes connections to the HTTP address as fast as possible.
    HttpConnections,
    /// 200 connections that ask for all objects over HTTP and read nothing.
    HttpUnread,
    /// Connects, over TLS if the target has it, and disconnects, 64 at a time.
    Handshakes,
    /// 2,100 connections that send the first bytes of a TLS greeting and nothing more.
    HalfHandshakes,
    /// Calls with tokens that are not listed, 128 at a time on 8 connections.
    WrongTokens,
    /// The same with tokens whose signatures (EdDSA) are wrong. A server with one key in its
    /// --jwt-keys verifies each of them.
    ForgedTokens,
    /// 8 connections that ask for all past fixes of the world, and for their density, again and
    /// again. Only if it is named: the server needs --data and --history.
    Past,
}

impl Attack {
    /// The name, as in flags and in the table.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it is on the HTTP address.
    fn is_of_http(self) -> bool {
        use Attack::{HttpBodies, HttpConnections, HttpGiantHeaders, HttpHeaders, HttpUnread};
        matches!(self, HttpHeaders | HttpBodies | HttpGiantHeaders | HttpConnections | HttpUnread)
    }
}

/// Flags of `shoal-loadgen hostile`.
#[derive(Clone, Debug, Args)]
pub struct HostileArgs {
    /// Server to attack, on this machine: URL or ADDR:PORT.
    #[arg(long, default_value = "http://127.0.0.1:7117")]
    pub target: String,
    /// Its monitoring address (serve --metrics-listen), for the attack monitoring.
    #[arg(long, value_name = "ADDR:PORT")]
    pub monitoring: Option<SocketAddr>,
    /// Its HTTP address (serve --http-listen, without TLS): attack it, and measure a client there.
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<SocketAddr>,
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
    /// Flags of `shoal-loadgen run` for the well-behaved client, in place of 20 reports of 50 rows
    /// and 20 range queries a second.
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    pub client: Option<String>,
    /// File with the token of the attacker, if it is not that of the well-behaved client.
    #[arg(long, value_name = "FILE")]
    pub attacker_token_file: Option<PathBuf>,
    /// wide-regions: regions of the session.
    #[arg(long, default_value_t = 65_536)]
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
    /// Monitoring address of the server.
    #[arg(long)]
    pub monitoring: Option<SocketAddr>,
    /// HTTP address of the server.
    #[arg(long)]
    pub http: Option<SocketAddr>,
}

impl AttackArgs {
    /// Rejects flags outside their range.
    ///
    /// # Errors
    /// [`LoadError::Usage`].
    pub fn check(&self) -> Result<(), LoadError> {
        check_target(&self.target, self.monitoring, self.http)?;
        check_seconds(self.seconds)
    }
}

fn check_target(
    target: &str,
    monitoring: Option<SocketAddr>,
    http: Option<SocketAddr>,
) -> Result<(), LoadError> {
    if !is_on_this_machine(target) {
        return Err(LoadError::Usage(format!(
            "--target is {target}, it must be a loopback address or `localhost`: attacks are for a \
             server of your own"
        )));
    }
    for (flag, address) in [("--monitoring", monitoring), ("--http", http)] {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            let problem = format!("{flag} is {address}, it must be a loopback address");
            return Err(LoadError::Usage(problem));
        }
    }
    Ok(())
}

fn check_seconds(seconds: f64) -> Result<(), LoadError> {
    if seconds > 0.0 && seconds <= SECONDS_MAX {
        return Ok(());
    }
    Err(LoadError::Usage(format!(
        "--seconds is {seconds}, it must be above 0, up to {SECONDS_MAX}"
    )))
}

impl HostileArgs {
    /// Rejects flags outside their range; the plan of the well-behaved client checks the others.
    ///
    /// # Errors
    /// [`LoadError::Usage`] names the flag and its permitted values.
    pub fn check(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        let Self { target, seconds, rest, regions, .. } = self;
        check_target(target, self.monitoring, self.http)?;
        check_seconds(*seconds)?;
        if self.attack.contains(&Attack::Monitoring) && self.monitoring.is_none() {
            return usage("--attack monitoring needs --monitoring ADDR:PORT".to_owned());
        }
        let of_http = self.attack.iter().find(|attack| attack.is_of_http());
        if let (Some(attack), None) = (of_http, self.http) {
            return usage(format!("--attack {} needs --http ADDR:PORT", attack.name()));
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
    pub fn attacks(&self) -> Vec<Attack> {
        if !self.attack.is_empty() {
            return self.attack.clone();
        }
        let mut all = Attack::value_variants().to_vec();
        all.retain(|attack| match attack {
            Attack::Monitoring => self.monitoring.is_some(),
            Attack::Past => false,
            _ => self.http.is_some() || !attack.is_of_http(),
        });
        all
    }
}
