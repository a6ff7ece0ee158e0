//! Limits of workloads; their relations are asserted at compile time.

/// Most objects of one generator: local indexes are `u32`. The largest measured size is 10 M.
pub const OBJECTS_MAX: u64 = 1_000_000_000;

/// Longest round or time step of a generator: one day.
pub const STEP_MS_MAX: i64 = 86_400_000;

/// Most shards (connections) that one workload is divided over.
pub const SHARDS_MAX: u32 = 4_096;

/// The first event time of every generator: 2020-01-01T00:00:00Z, Unix milliseconds.
pub const START_MS: i64 = 1_577_836_800_000;

/// Most hot-spots of `gauss`; the paper has up to 1,000.
pub const HOTSPOTS_MAX: u32 = 1_000_000;

/// Most speeds, and rings, of `gauss` and `network`.
pub const SPEEDS_MAX: u32 = 1_000;

/// Highest top speed, metres per step: the whole space of `gauss` in one step.
pub const SPEED_MAX_M_PER_STEP: f64 = 100_000.0;

/// Highest speed of `uniform`: its whole space in a second.
pub const SPEED_MAX_M_S: f64 = 100_000.0;

/// Longest maximum update interval of `gauss` in steps.
pub const SILENCE_STEPS_MAX: u32 = 1_000_000;

/// Most destinations of `hub`; routes join every pair of them.
pub const DESTINATIONS_MAX: u32 = 100_000;

/// Longest mean update interval of `hub`: a day.
pub const UPDATE_INTERVAL_MS_MAX: i64 = 86_400_000;

/// Most copies of a replayed fleet.
pub const FAN_OUT_MAX: u32 = 100_000;

/// Rows at the start of a replayed file from which its query windows are drawn.
pub const REPLAY_PREFIX_ROWS: usize = 65_536;

/// Sampled positions of those rows.
pub const REPLAY_SAMPLE_ROWS: usize = 4_096;

/// Most copies of replayed rows that wait for their time, 80 bytes each. The copies of the last row
/// may exceed this number.
pub const FAN_OUT_PENDING_MAX: usize = 1 << 20;

/// Most buckets of a calendar queue: 4 MiB, and a partly filled chunk of 120 bytes each.
pub const CALENDAR_BUCKETS_MAX: i64 = 1 << 20;

/// Most tries at a random position under conditions; after them the object stays. The mean is below
/// 10, so only parameters that allow no position reach the limit.
pub const REDRAWS_MAX: u32 = 10_000;

/// Most nodes of a road network read from files.
pub const NETWORK_NODES_MAX: usize = 20_000_000;

/// Most edges of a road network read from files.
pub const NETWORK_EDGES_MAX: usize = 50_000_000;

/// Longest delay or absence of a mix: a day.
pub const MIX_DELAY_MS_MAX: i64 = 86_400_000;

/// Most fixes in each of the two delay lines of a mix, 64 bytes each. A full line releases its
/// oldest fix.
pub const MIX_HELD_MAX: usize = 1 << 20;

/// Most objects that a mix keeps removed at a time.
pub const MIX_ABSENT_MAX: usize = 1 << 20;

/// Most regions of one workload of regions; the engine accepts two million.
pub const REGIONS_MAX: u64 = 1 << 24;

/// Largest radius of a region, metres: half the circumference of the earth.
pub const REGION_RADIUS_M_MAX: f64 = 20_015_115.0;

/// Largest share of the regions that is replaced per second of event time.
pub const REGION_CHURN_MAX: f64 = 1_000.0;

/// Rows that a mix takes from its workload at a time.
pub const MIX_BATCH_ROWS: usize = 1_024;

// A phase is object * step / objects; the product must fit.
const _: () = assert!((OBJECTS_MAX as u128) * (STEP_MS_MAX as u128) < (1 << 63));
// Local indexes leave one value free as the end of a list.
const _: () = assert!(OBJECTS_MAX < u32::MAX as u64);
// Nodes and both directions of each edge are numbered with `u32`.
const _: () = assert!(NETWORK_NODES_MAX < u32::MAX as usize && NETWORK_EDGES_MAX < 1 << 31);
