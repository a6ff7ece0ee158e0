//! The commands, and the flags of `shoal-loadgen run`: names, defaults and help.
//!
//! `plan` validates them together. clap rejects values that it cannot parse with exit code 2.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use shoal_client::LoginArgs;
use shoal_codec::{Aim, PlanChoice};
use shoal_workload::{SpeedRange, SpeedUnit};

use crate::hostile::{AttackArgs, HostileArgs};
use crate::shares::{QueryMix, UpdateQuery};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "shoal-loadgen",
    version,
    about = "Load a Shoal server and measure what its clients see"
)]
pub struct CommandLine {
    /// The command.
    #[command(subcommand)]
    pub command: LoadCommand,
    /// Token and TLS settings.
    #[command(flatten, next_help_heading = "Token and TLS")]
    pub login: LoginArgs,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum LoadCommand {
    /// Send a workload to a server, query it, and print rates and latencies.
    Run(Box<RunArgs>),
    /// Attack a server in several ways while a well-behaved client uses it, and print the latencies
    /// of that client. Do not run this against a server in use.
    Hostile(Box<HostileArgs>),
    /// One attack of `hostile`, in a process of its own.
    #[command(hide = true)]
    Attack(AttackArgs),
}

/// The encoding of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportEncoding {
    /// Plain protobuf rows of doubles.
    Rows,
    /// One codec block per message.
    Block,
}

/// The form of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueryForm {
    /// Batches of queries on a Batch stream.
    Batch,
    /// Sequential calls of Range, Nearest or Get.
    Single,
}

/// What queries return of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wanted {
    /// The id.
    Ids,
    /// The whole record.
    Fixes,
    /// Only the number of objects.
    Count,
    /// All of these in turn, with filters and limits: for verification, not measurement.
    Mixed,
}

/// The events that subscribers receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportedEvents {
    /// The start and the end of memberships.
    EnterLeave,
    /// The same, and each report of a member.
    WithMove,
}

/// Flags of `shoal-loadgen run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Server to load: URL or ADDR:PORT.
    #[arg(long, default_value = "http://127.0.0.1:7117")]
    pub target: String,
    /// Follower to query instead of the target: URL or ADDR:PORT. With --verify, every query
    /// carries the token of the last ack, and the answer is compared with the model at its epoch.
    #[arg(long, value_name = "TARGET")]
    pub follower: Option<String>,
    /// Source of fixes: uniform, world (uniform in degrees), gauss, network, network:FILE, hub, or
    /// replay:FILE (CSV, also .gz).
    #[arg(long, default_value = "uniform")]
    pub workload: String,
    /// Number of objects. A replay has the objects of its file.
    #[arg(long, default_value_t = 100_000)]
    pub objects: u64,
    /// Seconds during which rows are sent [default: 10; a replay runs to the end of its file].
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Minimum number of queries; they continue after the last row.
    #[arg(long, default_value_t = 0)]
    pub queries: u64,
    /// Rows per second over all connections (queries per second with --update-query 0:N); 0 = as
    /// fast as the in-flight window allows.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// Ratio of rows to queries; either may be 0.
    #[arg(long, default_value = "100:10", value_name = "U:Q")]
    pub update_query: UpdateQuery,
    /// Side of a query window as a share of the side of the space.
    #[arg(long, default_value_t = 0.001)]
    pub window: f64,
    /// Connections; each object uses one of them. Each has a channel for rows and one for queries.
    #[arg(long, default_value_t = 2)]
    pub connections: u32,
    /// Encoding of rows.
    #[arg(long, value_enum, default_value_t = ReportEncoding::Rows)]
    pub encoding: ReportEncoding,
    /// Encoding of the columns of blocks: raw (costs the client least), fixes (the same trees for
    /// every block), or planned (trees learned from earlier blocks).
    #[arg(long, default_value_t = PlanChoice::Raw, value_name = "PLAN")]
    pub block_plan: PlanChoice,
    /// Aim of planned blocks: fast (to encode and decode), balanced, or small.
    #[arg(long, default_value_t = Aim::Fast, value_name = "AIM")]
    pub block_aim: Aim,
    /// Encode the blocks before the clock starts; only base time and sequence change per send.
    #[arg(long)]
    pub prepared: bool,
    /// Rows of one message [default: 8192, with --verify 1024, fewer at a low --rate].
    #[arg(long, value_name = "ROWS")]
    pub batch: Option<u32>,
    /// Queries of one message [default: 256, fewer at a low --rate].
    #[arg(long, value_name = "QUERIES")]
    pub query_batch: Option<u32>,
    /// Omit speed and heading.
    #[arg(long)]
    pub bare: bool,
    /// Report every object once (a replay: send the whole file) before the clock starts. Implied
    /// without updates in the ratio.
    #[arg(long)]
    pub preload: bool,
    /// Length of a round of `uniform` and of a time step of `gauss` and `network`, milliseconds.
    #[arg(long, default_value_t = 1_000)]
    pub step_ms: i64,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Compare all acks, and a share of the answers, with a model of the fleet.
    #[arg(long)]
    pub verify: bool,
    /// Share of the messages of queries that are compared [default: 1; less with more than
    /// 100,000 objects].
    #[arg(long, value_name = "SHARE")]
    pub verify_share: Option<f64>,
    /// Use this fleet (created if there is none) and keep it, instead of a fresh one that is
    /// deleted.
    #[arg(long, value_name = "NAME")]
    pub fleet: Option<String>,
    /// Report objects by name to a named fleet. Names and numbers of everything that the server
    /// sends must agree.
    #[arg(long)]
    pub named: bool,
    /// Share of removed objects that report again under a new name.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", requires = "named")]
    pub rename: f64,
    /// Time to live of the fresh fleet's records at its event clock, milliseconds; 0 keeps them.
    #[arg(long, default_value_t = 0)]
    pub ttl_ms: i64,
    /// How far the clock of the fresh fleet may be ahead of the times that its clients confirm,
    /// milliseconds [default: any row moves the clock; --verify needs the default].
    #[arg(long, value_name = "MS")]
    pub event_clock_lead_ms: Option<u64>,
    /// What an acknowledgement of the fresh fleet guarantees: applied, or logged (synced in its
    /// log) [default: logged if the server has a data folder].
    #[arg(long, value_name = "LEVEL", value_parser = shoal_client::parse_durability)]
    pub durability: Option<shoal_client::v1::Durability>,
    /// Minimum number of questions about the past, of each kind: trajectories, states as of a
    /// moment, passages, replays, densities. They are asked one after another while rows are sent,
    /// and afterwards until the minimum is reached. The server needs --history; it answers from the
    /// data that it has sealed (limit history_seal_ms).
    #[arg(long, default_value_t = 0, value_name = "QUESTIONS")]
    pub history_queries: u64,
    /// Query kinds by weight: range, circle, polygon, nearest, get; for instance
    /// range:80,nearest:10,get:10.
    #[arg(long, default_value = "range:1", value_name = "MIX")]
    pub query_mix: QueryMix,
    /// Form of queries: batches on a Batch stream, or single calls.
    #[arg(long, value_enum, default_value_t = QueryForm::Batch)]
    pub ask: QueryForm,
    /// What queries return of each object [default: ids; mixed with --verify].
    #[arg(long, value_enum)]
    pub want: Option<Wanted>,
    /// k of nearest queries.
    #[arg(long, default_value_t = 10)]
    pub nearest_k: u32,
    /// Maximum number of objects of a get query.
    #[arg(long, default_value_t = 8)]
    pub get_objects: u32,
    /// Share of fixes that arrive late.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub late: f64,
    /// Share of fixes that are sent twice.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub duplicate: f64,
    /// Share of rows that are invalid and must be refused.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub bad: f64,
    /// Share of fixes after which their object is removed; it reports again later.
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
    /// Flags that only some workloads use.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl RunArgs {
    /// The plans of blocks.
    #[must_use]
    pub fn plans(&self) -> PlanChoice {
        self.block_plan.aiming(self.block_aim)
    }
}

/// Flags of subscribers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Subscribers")]
pub struct SubscriptionArgs {
    /// Circles to follow while rows are sent. Members are rebuilt from events and compared with
    /// range queries at the end, and with --verify during the run.
    #[arg(long, default_value_t = 0, value_name = "CIRCLES")]
    pub subscriptions: u64,
    /// Radius of a circle, metres; centres are drawn like query windows.
    #[arg(long, default_value_t = 500.0, value_name = "METRES")]
    pub radius: f64,
    /// Share of the circles to replace per second.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub churn: f64,
    /// Move each circle with a simulated object of the workload.
    #[arg(long = "move")]
    pub follows: bool,
    /// Events to receive.
    #[arg(long, value_enum, default_value_t = ReportedEvents::EnterLeave)]
    pub delivered_events: ReportedEvents,
    /// Maximum number of circles per session.
    #[arg(long, default_value_t = 256, value_name = "CIRCLES")]
    pub session_regions: u32,
    /// Total number of streams to break at random moments and resume with their token.
    #[arg(long, default_value_t = 0, value_name = "TIMES")]
    pub kill_subscribers: u32,
    /// Additional sessions that read nothing until all rows are sent.
    #[arg(long, default_value_t = 0, value_name = "SESSIONS")]
    pub silent_subscribers: u32,
}

/// Flags that only some workloads use.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Shape of single workloads")]
pub struct ShapeArgs {
    /// uniform, world: speeds of the objects, metres per second.
    #[arg(long, default_value_t, value_name = "A-B")]
    pub speed_range: SpeedRange,
    /// gauss: hot-spots.
    #[arg(long, default_value_t = 10)]
    pub hotspots: u32,
    /// gauss, network: number of speeds, and of rings around a hot-spot.
    #[arg(long, default_value_t = 10)]
    pub speeds: u32,
    /// gauss, network: highest speed, metres per step.
    #[arg(long, default_value_t = 100.0, value_name = "METRES")]
    pub speed_max_m_per_step: f64,
    /// gauss: longest time between two reports of an object, steps.
    #[arg(long, default_value_t = 120, value_name = "STEPS")]
    pub silence_max_steps: u32,
    /// gauss: place queries and subscribed circles around the hot-spots instead of anywhere. With
    /// ten hot-spots, a query finds some sixteen times as many objects.
    #[arg(long)]
    pub windows_follow: bool,
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
