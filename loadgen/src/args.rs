//! Which flags does `shoal-loadgen run` take?
//!
//! Only their names, defaults and help; what they mean together is decided in `plan`, once. A value
//! that cannot be read is refused by clap with exit code 2.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use shoal_codec::PlanChoice;
use shoal_workload::{SpeedRange, SpeedUnit};

use crate::shares::{QuestionMix, UpdateQuery};

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "shoal-loadgen", version, about = "What does a client of Shoal see under load?")]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a workload to a server, ask it questions, and tell the rates and latencies.
    Run(Box<RunArgs>),
}

/// How rows travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Encoding {
    /// Plain protobuf rows of doubles.
    Rows,
    /// One codec block a message.
    Block,
}

/// How queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Asking {
    /// Many in a message of a Batch stream.
    Batch,
    /// One call of Range, Nearest or Get after the other.
    Single,
}

/// What is asked of each object found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// Its id.
    Ids,
    /// Its whole record.
    Fixes,
    /// Nothing, only how many there are.
    Count,
    /// Now this, now that, with filters and limits: to check a server, not to measure it.
    Mixed,
}

/// Which events subscribers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ToldEvents {
    /// Who comes and who goes.
    EnterLeave,
    /// The same, and every report of a member.
    WithMove,
}

/// Flags of `shoal-loadgen run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Server to load: URL or ADDR:PORT.
    #[arg(long, default_value = "http://127.0.0.1:7117")]
    pub target: String,
    /// Where fixes come from: uniform, gauss, network, network:FILE, hub, or replay:FILE (CSV, also
    /// .gz).
    #[arg(long, default_value = "uniform")]
    pub workload: String,
    /// Number of objects; a replay has those of its file.
    #[arg(long, default_value_t = 100_000)]
    pub objects: u64,
    /// Seconds during which rows are sent [default: 10; a replay runs to the end of its file].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Ask at least so many queries; asking goes on after the last row.
    #[arg(long, default_value_t = 0)]
    pub queries: u64,
    /// Rows a second over all connections (queries a second with --update-query 0:N); 0 is the
    /// most that bounded messages under way give.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Rows sent to queries asked; either may be 0.
    #[arg(long, default_value = "100:10", value_name = "U:Q")]
    pub update_query: UpdateQuery,
    /// Side of a query window as a share of the side of the space.
    #[arg(long, default_value_t = 0.001)]
    pub window: f64,
    /// Connections; an object stays on one. Each has a channel for rows and one for queries.
    #[arg(long, default_value_t = 2)]
    pub connections: u32,
    /// How rows travel.
    #[arg(long, value_enum, default_value_t = Encoding::Rows)]
    pub encoding: Encoding,
    /// How the columns of blocks are encoded: raw (costs the client least), fixes (the same trees
    /// for every block), or planned (trees learned from the blocks before).
    #[arg(long, default_value_t = PlanChoice::Raw, value_name = "PLAN")]
    pub block_plan: PlanChoice,
    /// Make the blocks before the clock starts; only base time and sequence change per send.
    #[arg(long)]
    pub prepared: bool,
    /// Rows of one message [default: 8192, with --verify 1024, fewer at a low --rate].
    #[arg(long, value_name = "ROWS")]
    pub batch: Option<u32>,
    /// Queries of one message [default: 256, fewer at a low --rate].
    #[arg(long, value_name = "QUERIES")]
    pub query_batch: Option<u32>,
    /// Leave speed and heading out of the rows.
    #[arg(long)]
    pub bare: bool,
    /// Place every object (a replay: send the whole file) before the clock starts. Without updates
    /// in the ratio this is done anyway.
    #[arg(long)]
    pub preload: bool,
    /// Length of a round of `uniform` and of a time step of `gauss` and `network`, milliseconds.
    #[arg(long, default_value_t = 1_000)]
    pub step_ms: i64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Compare a share of the answers, and all acks, with an oracle fed with what was acknowledged.
    #[arg(long)]
    pub verify: bool,
    /// Share of the messages of queries that are compared [default: 1, less from 100,000 objects
    /// on].
    #[arg(long, value_name = "SHARE")]
    pub verify_share: Option<f64>,
    /// Use this fleet (made if there is none) and keep it, instead of a fresh one that is dropped.
    #[arg(long, value_name = "NAME")]
    pub fleet: Option<String>,
    /// Time to live of the fresh fleet's records at its event clock, milliseconds; 0 keeps them.
    #[arg(long, default_value_t = 0)]
    pub ttl_ms: i64,
    /// Kinds of query by weight: range, circle, polygon, nearest, get; for instance
    /// range:80,nearest:10,get:10.
    #[arg(long, default_value = "range:1", value_name = "MIX")]
    pub query_mix: QuestionMix,
    /// How queries travel.
    #[arg(long, value_enum, default_value_t = Asking::Batch)]
    pub ask: Asking,
    /// What is asked of each object found [default: ids; mixed with --verify].
    #[arg(long, value_enum)]
    pub want: Option<Wanted>,
    /// Neighbours that a nearest query asks for.
    #[arg(long, default_value_t = 10)]
    pub nearest_k: u32,
    /// Objects that a get query names, at most.
    #[arg(long, default_value_t = 8)]
    pub get_objects: u32,
    /// Share of fixes that arrive late.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub late: f64,
    /// Share of fixes that are sent twice.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub duplicate: f64,
    /// Share of rows that are wrong, to see them refused.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub bad: f64,
    /// Share of fixes after which their object is removed; it comes back later.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub remove: f64,
    /// Delay of late fixes in event time, milliseconds.
    #[arg(long, default_value_t = 5_000)]
    pub late_delay_ms: i64,
    /// Delay of the second sending of a fix in event time, milliseconds; 0 sends it at once.
    #[arg(long, default_value_t = 0)]
    pub duplicate_delay_ms: i64,
    /// Silence of a removed object in event time, milliseconds.
    #[arg(long, default_value_t = 5_000)]
    pub absence_ms: i64,
    /// Flags of subscribers.
    #[command(flatten)]
    pub subscribers: SubscriptionArgs,
    /// Flags of single workloads.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Flags of subscribers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Subscribers")]
pub struct SubscriptionArgs {
    /// Circles that are followed while rows are sent. Their members are rebuilt from events and
    /// compared with range queries at the end, with --verify all the time.
    #[arg(long, default_value_t = 0, value_name = "CIRCLES")]
    pub subscriptions: u64,
    /// Radius of a circle, metres; centres lie where windows of queries lie.
    #[arg(long, default_value_t = 500.0, value_name = "METRES")]
    pub radius: f64,
    /// Share of the circles that is replaced in a second.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub churn: f64,
    /// Every circle follows an object that moves as the workload's do.
    #[arg(long = "move")]
    pub follows: bool,
    /// Which events are told.
    #[arg(long, value_enum, default_value_t = ToldEvents::EnterLeave)]
    pub told_events: ToldEvents,
    /// Circles of one session at most.
    #[arg(long, default_value_t = 256, value_name = "CIRCLES")]
    pub session_regions: u32,
    /// Streams that are broken off at random moments and resumed with their token, in all.
    #[arg(long, default_value_t = 0, value_name = "TIMES")]
    pub kill_subscribers: u32,
    /// Further sessions that read nothing before all rows were sent.
    #[arg(long, default_value_t = 0, value_name = "SESSIONS")]
    pub silent_subscribers: u32,
}

/// Flags that shape single workloads.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Shape of single workloads")]
pub struct ShapeArgs {
    /// uniform: speeds of the objects, metres a second.
    #[arg(long, default_value_t, value_name = "A-B")]
    pub speed_range: SpeedRange,
    /// gauss: hot-spots.
    #[arg(long, default_value_t = 10)]
    pub hotspots: u32,
    /// gauss, network: speeds, and rings around a hot-spot.
    #[arg(long, default_value_t = 10)]
    pub speeds: u32,
    /// gauss, network: highest speed, metres per step.
    #[arg(long, default_value_t = 100.0, value_name = "METRES")]
    pub speed_max_m_per_step: f64,
    /// gauss: longest time between two reports of an object, steps.
    #[arg(long, default_value_t = 120, value_name = "STEPS")]
    pub silence_max_steps: u32,
    /// hub: destinations.
    #[arg(long, default_value_t = 20)]
    pub destinations: u32,
    /// hub: mean time between two reports of an object, milliseconds.
    #[arg(long, default_value_t = 3_600_000)]
    pub update_interval_ms: i64,
    /// replay: unit of the file's speeds: m/s, km/h or knots.
    #[arg(long, default_value = "m/s")]
    pub speed_unit: SpeedUnit,
    /// replay: copies of the fleet, shifted in space and time.
    #[arg(long, default_value_t = 1, value_name = "COPIES")]
    pub fan_out: u32,
}
