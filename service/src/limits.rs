//! The limits of every queue and buffer of the service, each with the reason for its number.
//!
//! Limits that depend on the size of the machine are fields of [`ServerLimits`], each declared once
//! with default and range. Relations between limits are asserted at compile time.

mod access;
mod event_clock;
mod replication;

use std::ops::RangeInclusive;

use shoal_position_log::limits as log_limits;

pub use self::access::*;
use crate::error::ServiceError;
pub use event_clock::*;
pub use replication::*;

/// Bytes of one report message: blocks and rows (architecture, section 5).
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of one message of every other call; decoded it may take several times as much.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Rings in one message, and polygons: as many as fit with three vertices of 16 bytes each.
pub const RINGS_SENT_MAX: usize = SMALL_MESSAGE_BYTES_MAX / 48;
/// Kinds of events in one message of a subscriber: 16 for each region, more than exist.
pub const EVENT_KINDS_SENT_MAX: usize = 16 * REGION_CHANGES_MAX;
/// Bytes of the messages that a report stream reads before others have a turn: some 1 ms. A
/// connection pauses after as many received bytes.
pub const READ_TURN_BYTES: usize = 64 << 10;
/// Messages of at least this size are parsed by workers: parsing may take a millisecond.
pub const WORKER_BYTES_MIN: usize = 1 << 20;
/// Reports of at least this many plain rows are read by workers; shorter ones take at most 2 ms.
pub const WORKER_ROWS_MIN: usize = 64 << 10;
/// The same while cycles are short for light clients (`fleet/light_clients.rs`): a worker costs a
/// message of 4,096 rows some 3 %.
pub const LIGHT_WORKER_ROWS_MIN: usize = 2 << 10;
/// Vertices of the polygons of all queries and new regions in progress, server-wide; a request
/// beyond its client's share waits. A query, region or ring counts as some vertices too. Each
/// vertex takes at most
/// [`POLYGON_VERTEX_BYTES_MAX`](shoal_engine::limits::POLYGON_VERTEX_BYTES_MAX).
pub const QUERY_VERTICES_MAX: usize = 1 << 20;
/// Vertices of decoded queries and regions that wait for that, server-wide, counted in the same
/// way; a request beyond its client's share is refused. Each takes some 25 bytes.
pub const WAITING_VERTICES_MAX: usize = 8 * QUERY_VERTICES_MAX;
/// Vertices of polygons that are converted in one turn: about a millisecond.
pub const VERTICES_CONVERTED_AT_ONCE: usize = 4096;
/// Queries of one batch message.
pub const BATCH_QUERIES_MAX: usize = 4096;
/// Bytes of one chunk of an answer (architecture, section 3.7): a default client takes 4 MiB.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes that chunks are filled to. Chunks that the transport holds are not counted anywhere, so a
/// chunk is small against the memory of a server with many slow readers.
pub const CHUNK_BYTES_TARGET: usize = 256 << 10;
/// Text has some four times the bytes of its chunk, so chunks that become text are smaller by this
/// factor.
pub const TEXT_SHARE: usize = 4;
/// A client that takes no chunk for this long loses its answer, even if no other request waits for
/// the memory.
pub const ANSWER_STALL_MS_MAX: u64 = 60_000;
/// A client that takes no chunk for this long loses its answer while others wait for the memory.
pub const ANSWER_STALL_MS_MIN: u64 = 2_000;
/// Small answers have an additional reserve: the memory for answers divided by this number.
pub const SMALL_ANSWERS_SHARE: u64 = 16;
/// Bytes of the small answers of a request at most.
pub const SMALL_ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Longest wait for the memory that an answer needs.
pub const ANSWER_WAIT_MS_MAX: u64 = 10_000;
/// Attempts at a query whose answer outgrows the memory reserved for it.
pub const ASK_AGAIN_MAX: u32 = 4;
/// Messages of one batch stream that are being answered at once.
pub const BATCH_MESSAGES_MAX: usize = 16;
/// Bytes of a producer's name.
pub const PRODUCER_BYTES_MAX: usize = 128;
/// Bytes of the name of an object.
pub const NAME_BYTES_MAX: usize = 256;
/// Failed numbers of one producer that may stay open while later numbers are applied. They are
/// kept per producer, so the bound is small; a client repairs or repeats its failures long before.
pub const OPEN_NUMBERS_MAX: usize = 16;
/// Refused rows listed in an acknowledgement.
pub const REFUSED_ROWS_REPORTED_MAX: usize = 256;
/// Failed messages listed in an acknowledgement.
pub const FAILED_MESSAGES_TOLD_MAX: usize = 256;
/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Maximum number of fleets in a page of a listing, if the request sets no page size.
pub const FLEET_PAGE_DEFAULT: usize = 100;
/// Maximum page size of a listing of fleets.
pub const FLEET_PAGE_MAX: usize = 1_000;
/// Names of a page if the request does not state a number.
pub const NAME_PAGE_DEFAULT: usize = 1_000;
/// Maximum number of names in a page: half a megabyte of the longest names.
pub const NAME_PAGE_MAX: usize = 2_000;
/// Numbers that one request translates to names: a megabyte of the longest names.
pub const NAMES_ASKED_MAX: usize = 4_000;
/// Most that `fleets_max` may be: a token holds one epoch of each fleet.
pub const FLEETS_MAX: usize = 1_023;
/// Messages of this many bytes and more are charged to the message budget. A call holds less than
/// this of a smaller one, beside its window.
pub const BUDGETED_MESSAGE_BYTES_MIN: usize = 64 << 10;
/// Minimum charge of a large message. It is the first step of the charge.
pub const MESSAGE_CHARGE_BYTES_MIN: usize = 64 << 10;
/// Bytes of small messages that a decoder takes at once. It keeps that memory as long as its stream
/// is open.
pub const PASSED_BYTES_MAX: usize = 32 << 10;
/// Bytes of one message of a stream that carries names and numbers: replication and reflection.
/// It is not charged, so an idle stream keeps no more than this.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 32 << 10;
/// Bytes of the headers of one call.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Largest HTTP/2 frame that a peer with large windows may send: fewer, larger pieces cost less.
pub const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Longest wait for the rest of a message, after which the stream ends: a stalled sender must not
/// keep its share of the message budget.
pub const MESSAGE_READ_MS_MAX: u64 = 60_000;
/// Grace period of a large message, in addition to the time that its received bytes take at
/// [`MESSAGE_RATE_MIN_BYTES`]: enough for several retransmissions of a lost packet.
pub const MESSAGE_GRACE_MS: u64 = 10_000;
/// Minimum rate of a large message, bytes per second: half a megabit, which mobile networks exceed.
pub const MESSAGE_RATE_MIN_BYTES: u64 = 64 << 10;
/// Longest wait for the first message of a call; a waiting call takes about 40 KiB. After the first
/// message a stream may be idle as long as its connection is open.
pub const FIRST_MESSAGE_MS_MAX: u64 = 60_000;
/// A new connection must send the HTTP/2 preface within this time: keep-alive does not close one
/// that is silent from the start.
pub const PREFACE_MS_MAX: u64 = 20_000;
/// Time for engines to finish their cycle at shutdown.
pub const ENGINE_END_MS_MAX: u64 = 2_000;
/// Time without traffic after which a connection is pinged.
pub const KEEPALIVE_INTERVAL_MS: u64 = 20_000;
/// Time without an answer to the ping after which the connection is closed.
pub const KEEPALIVE_TIMEOUT_MS: u64 = 20_000;
/// Lines that wait for standard error, and for standard output: some seconds of a busy server.
pub const OUTPUT_LINES_MAX: usize = 4096;
/// Bytes of these lines; a line of the log has some 200. The lines that the writing thread has
/// taken may be as many again.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Longest time that the end of the process waits for the last lines of both outputs together.
pub const OUTPUT_END_MS_MAX: u64 = 500;
/// Pairs of log call site and fleet whose lines are counted per second.
pub const CALL_SITES_MAX: usize = 1024;
/// Grace period for streams at shutdown; the process ends within 10 s.
pub const SHUTDOWN_GRACE_MS: u64 = 7_000;
/// Delay before a refused call should be retried, milliseconds: a few cycles.
pub const BUSY_RETRY_MS: u64 = 100;
/// Time that the rows of a cycle take at most under load, milliseconds, by the time that rows have
/// taken lately: a request waits for up to two cycles. Twice as long while there are subscribers.
/// Shorter cycles cost speed: with 6 ms, blocks are some 7 % slower.
pub const CYCLE_TIME_MS: u64 = 10;
/// A cycle takes this many rows, even if they are slow: the fixed cost of a cycle stays small.
pub const CYCLE_PACE_ROWS_MIN: usize = 32 << 10;
/// The same two limits while light clients wait (`fleet/light_clients.rs`): the others lose some
/// 10 % of their speed.
pub const LIGHT_CYCLE_TIME_MS: u64 = 5;
/// See [`LIGHT_CYCLE_TIME_MS`].
pub const LIGHT_CYCLE_ROWS_MIN: usize = 16 << 10;
/// How long these limits apply after a request of a light client, milliseconds.
pub const LIGHT_CLIENT_MS: u64 = 1_000;
/// A client is light if its work is at most the mean of all clients, weighted by their work, divided
/// by this.
pub const LIGHT_CLIENT_SHARE: u64 = 8;
/// Interval at which an idle engine checks for expiry, milliseconds; the contract is 1 s.
pub const IDLE_CYCLE_MS: u64 = 500;
/// Bytes reserved for each answer in addition to its rows.
pub const ANSWER_HEAD_BYTES: u64 = 64;
/// Bytes reserved for the error of a query of a batch: the error and two short texts.
pub const FAILURE_BYTES: u64 = 256;
/// Rows reserved for a query of unknown size; see `rpc/budgeted_answer.rs`.
pub const PROBE_ROWS_MAX: u64 = 64 << 10;
/// Bytes reserved for the answers of one request of unknown size.
pub const PROBE_BYTES_MAX: u64 = 8 << 20;

/// Regions that one message of a subscriber adds, changes and removes: some 8 MiB of rectangles and
/// circles. One cycle takes them whole.
pub const REGION_CHANGES_MAX: usize = 16 << 10;
/// Memory of a session's message in addition to its bytes: its list entry and its allocation.
pub const SESSION_MESSAGE_BYTES: usize = 256;
/// Minimum memory of a session, so that a `lagged` message fits.
pub const SESSION_BYTES_MIN: usize = 1 << 10;
/// A snapshot beyond this fraction of a session's memory is not copied into it: it counts as an
/// answer, against [`ServerLimits::answer_bytes_max`].
pub const SNAPSHOT_SHARE: usize = 4;
/// A snapshot above this size is not copied either: the thread that copies it serves all sessions
/// of a fleet.
pub const COPIED_SNAPSHOT_BYTES_MAX: usize = 2 << 20;
/// Events of the snapshots of a cycle for sessions that lost messages; a single one may have more.
pub const CYCLE_SNAPSHOT_EVENTS: u64 = 256 << 10;
/// Longest time that a delivered snapshot remains in memory while its stream continues. A client
/// that lost a part of it resumes earlier, because keep-alive has closed a dead connection by then.
pub const DELIVERED_SNAPSHOT_MS_MAX: u64 = 60_000;
/// When all sessions together hold more than [`ServerLimits::subscription_bytes_max`], each may
/// hold this share of what it could hold otherwise.
pub const CROWDED_SHARE: usize = 16;
/// How far the clock of a fleet may be ahead of the machine's, beyond the lead of an event clock,
/// before it is set back, milliseconds. A smaller difference is not corrected.
pub const CLOCK_AHEAD_MS_MAX: i64 = 5_000;
/// Cycles whose events wait for the fan-out to their sessions; an engine that is this far ahead
/// waits for the fan-out, never for a reader.
pub const EVENT_SETS_MAX: usize = 4;
/// Sessions that wait for their messages to be coalesced. A further session loses its messages at
/// once.
pub const COALESCE_QUEUE_MAX: usize = 64;
/// A subscriber without messages for this long gets a progress message.
pub const PROGRESS_INTERVAL_MS: u64 = 1_000;
/// Interval between checks for abandoned sessions.
pub const SESSION_SWEEP_MS: u64 = 250;
/// Most that `session_retention_ms_max` may be: a day.
pub const SESSION_RETENTION_MS_MAX: u64 = 86_400_000;
/// Most that `fleet_polygon_vertices_max` may be.
pub const FLEET_POLYGON_VERTICES_MAX: usize = 1 << 28;

/// Minimum number of rows of a request that a device encodes for the log; a core encodes fewer
/// rows. By an estimate, the device's hundred launches per block take about as long as a core takes
/// for this number. A device logs messages of 100,000 rows 2.5 times as fast as a core (H200).
pub const DEVICE_ENCODE_ROWS_MIN: usize = 64 << 10;
/// Device memory that the log's encoder of a fleet may take: some ten times the columns of the
/// largest message, out of the memory of all fleets. The encoder keeps what its largest request
/// needed.
pub const DEVICE_ENCODE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a group of the log, after which the next cycle waits for the disk. A disk of the H200
/// host takes 1.3 to 1.9 GB/s in synced writes of 2 MiB and 2.2 in writes of 8 MiB; smaller loads
/// never fill a group, because a group is written as soon as the disk is idle.
pub const LOG_GROUP_BYTES_MAX: usize = 8 << 20;
/// Default share of a device's memory for runs of the history: the memory divided by this number.
pub const HISTORY_DEVICE_SHARE: u64 = 10;
/// Default share of the machine's memory for pages of histories: the memory divided by this number.
pub const HISTORY_MEMORY_SHARE: u64 = 8;
/// Tiles that one query of the history may decode: a billion fixes, some 20 s of a core.
pub const HISTORY_TILES_MAX: u64 = 1 << 20;
/// Rows, objects or ids that one query of the history may hold in memory, if they fit
/// [`HISTORY_QUERY_BYTES_MAX`].
pub const HISTORY_ROWS_MAX: usize = 1 << 19;
/// Like [`HISTORY_ROWS_MAX`], but for a replay without a speed. The replay reads a partition again
/// each time that it has delivered this number of rows.
pub const HISTORY_REPLAY_ROWS_MAX: usize = 1 << 21;
/// Share of the answer memory for all queries of the history: the memory divided by this number.
pub const HISTORY_ANSWER_SHARE: u64 = 2;
/// Memory limit of one query of the history, which it reserves before it begins. The limit is also
/// at most the memory of all history queries divided by [`HISTORY_QUERY_SHARE`].
pub const HISTORY_QUERY_BYTES_MAX: u64 = 128 << 20;
/// See [`HISTORY_QUERY_BYTES_MAX`].
pub const HISTORY_QUERY_SHARE: u64 = 4;
/// Part of a history query's memory that does not depend on its rows: decoded tiles, pages, a
/// message.
pub const HISTORY_QUERY_BYTES_MIN: u64 = 4 << 20;
/// Memory of each additional part, or thread, of a history query that runs at the same time.
pub const HISTORY_PART_BYTES: u64 = 2 << 20;
/// Maximum number of parts, or threads, of a history query that run at the same time.
pub const HISTORY_PARTS_AT_ONCE_MAX: usize = 16;
/// Maximum number of parts into which a history scan is divided.
pub const HISTORY_PARTS_MAX: usize = 1 << 10;
/// Minimum number of blocks in a part of a history scan: some milliseconds of a core.
pub const HISTORY_PART_BLOCKS_MIN: usize = 16;
/// Rows that a replay with a speed may hold. It keeps the memory for its whole duration.
pub const REPLAY_ROWS_MAX: usize = 1 << 16;
/// Time after which a history query yields to others, milliseconds; a single step may take longer.
pub const HISTORY_TURN_MS: u64 = 20;
/// How long a replay with a speed collects fixes for a message, milliseconds.
pub const REPLAY_INTERVAL_MS: u64 = 40;
/// If no fix is due for this long, a replay with a speed sends only its clock, milliseconds.
pub const REPLAY_QUIET_MS: u64 = 900;
/// The greatest speed of a replay, as a factor of real time: a day takes 86 ms.
pub const REPLAY_SPEED_MAX: f64 = 1e6;
/// Interval at which an idle history looks for new cycles of its log, milliseconds.
pub const HISTORY_POLL_MS: u64 = 100;
/// First and longest delay before the history tries a full disk again, milliseconds. The delay
/// doubles after each failure.
pub const HISTORY_RETRY_MS: (u64, u64) = (500, 30_000);
/// Rows that the history reads from the log between two pauses; a cycle with more rows is read
/// whole.
pub const HISTORY_READ_ROWS: usize = 1 << 16;
/// Rows that a merge writes each time that the history has read [`HISTORY_READ_ROWS`]: a row is
/// rewritten about twice.
pub const HISTORY_MERGE_ROWS: usize = 2 * HISTORY_READ_ROWS;
/// Erasures that wait for the thread of a history.
pub const HISTORY_ERASURES_MAX: usize = 16;
/// Number of runs of a history above which it reads no new rows until its pending merges are done:
/// a 16th of the runs that a manifest holds.
pub const HISTORY_UNMERGED_RUNS_MAX: usize = shoal_history::limits::RUNS_MAX / 16;
/// Time that cycles wait for the threads of the log at most under load, in addition to two writes,
/// milliseconds: the acknowledgements of a flood must not wait in front of others. While they wait
/// longer, the engine takes no changes.
pub const LOG_PENDING_MS: u64 = 5;
/// Bytes of cycles that may wait longer; a row counts as 40.
pub const LOG_LATE_BYTES_MIN: u64 = 1 << 20;
/// Delay before a full disk is tried again, milliseconds.
pub const LOG_RETRY_MS: u64 = 500;
/// Longest time that an acknowledgement waits for space on a full disk: a checkpoint that frees
/// segments may be about to end. Then the client decides, and retries.
pub const LOG_SPACE_WAIT_MS: u64 = 2_000;
/// Rows of one slice of the state that a checkpoint takes between two cycles: some 2 ms on a core.
/// A cycle of more rows is followed by several slices.
pub const EXPORT_SLICE_ROWS: usize = 1 << 16;
/// Rows of a cycle on the processor while a checkpoint is exported, unless a single change has
/// more: there a cycle saves the records that it changes, and a cycle with its slice is then no
/// longer than the largest without. Two cores apply no fewer rows per second in cycles of this size
/// than in larger ones (benchmark/results/README.md).
pub const EXPORT_CYCLE_ROWS: usize = EXPORT_SLICE_ROWS;
/// Work of the queries of one cycle, least and most, in positions that are tested against a
/// rectangle. Within these bounds a cycle may test every object once. Queries that need more are
/// answered outside the cycles (`fleet/long_queries.rs`).
pub const CYCLE_QUERY_WORK: (u64, u64) = (4 << 20, 16 << 20);
/// Vertices of polygons in one cycle: preparing them, or copying them to a GPU, takes some
/// milliseconds. A message with more is answered outside the cycles.
pub const CYCLE_QUERY_VERTICES_MAX: usize = 128 << 10;
/// Time that the queries of a cycle take at most under load, milliseconds, by the time that they
/// have taken lately.
pub const CYCLE_QUERY_TIME_MS: u64 = 8;
/// A cycle may do this work for its queries, even if it is slow.
pub const CYCLE_PACE_WORK_MIN: u64 = 512 << 10;
/// Maximum number of requests that are answered together outside the cycles. Each request delays
/// the answers of the others. [`LONG_QUERIES_AT_ONCE`] limits their queries.
pub const LONG_REQUESTS_AT_ONCE: usize = 16;
/// Maximum number of queries of these requests together; one request may have all.
pub const LONG_QUERIES_AT_ONCE: usize = BATCH_QUERIES_MAX;
/// Maximum work of a test of one record against all of them, in tests of a rectangle, less if
/// searches are slow; one request may have more.
pub const LONG_WORK_AT_ONCE: u64 = 2 * LONG_QUERIES_AT_ONCE as u64;
/// Tests per second that a search is expected to make before one has shown it: few, so that requests
/// that are answered together take less than [`LONG_QUERY_MS_MAX`].
pub const LONG_TESTS_PER_SECOND_FIRST: u64 = 100 << 20;
/// Time of the steps between which a part of a search checks the end of its turn, milliseconds.
pub const LONG_QUERY_STEP_MS: u64 = 5;
/// About the time for which a search tests rows before it checks deadlines and others may use the
/// threads of their pool, milliseconds.
pub const LONG_QUERY_TURN_MS: u64 = 100;
/// Bytes of the rasters of polygons: of one, and of all queries of a fleet that are answered
/// together. [`QUERY_VERTICES_MAX`] limits large polygons server-wide to some hundred.
pub const LONG_QUERY_RASTER_BYTES: (usize, usize) = (1 << 20, 64 << 20);
/// Longest time for answers outside the cycles. A checkpoint waits for their end.
pub const LONG_QUERY_MS_MAX: u64 = 30_000;
/// How often the start of a thread of the log is tried before its fleet takes no more reports.
pub const THREAD_STARTS_MAX: u32 = 50;
/// Time between these attempts.
pub const THREAD_RETRY_MS: u64 = 20;
/// A checkpoint begins after a pause this many times as long as the one before took, unless the log
/// has grown by twice the bytes after which one is due. On two cores, cycles that run during a
/// checkpoint apply 26 to 39 % fewer rows. With the pauses, all checkpoints cost at most a tenth.
pub const CHECKPOINT_PAUSE: u32 = 3;
/// Followers without a stream that a fleet remembers, so that its log keeps what they need when
/// they return; the one that left first is forgotten.
pub const FOLLOWERS_ABSENT_MAX: usize = 64;
/// Slices of an export that wait for their reader: twice as many as follow the largest cycle by
/// default. A row takes 24 to 40 bytes, so these slices take at most 20 MiB. A search of long
/// queries, one for each fleet at a time, holds up to nine more, 23 MiB.
pub const EXPORT_SLICES_WAITING: usize = 8;
/// Bytes of the log that recovery reads before it passes their cycles to another thread. This value
/// keeps exchanges between threads rare and is below the size of a large cycle.
pub const READ_AHEAD_BYTES: u64 = 4 << 20;
/// Sections of a checkpoint that are decoded at a time, by all cores: some 1 MiB each.
pub const SECTIONS_DECODED_AT_ONCE: usize = 32;
/// Assumed rows per second of a recovery with the CPU engine, until the rate of a recovery was
/// measured. Two cores reach 9 to 14 M.
pub const RECOVERY_ROWS_PER_S_CPU: u64 = 8_000_000;
/// Like [`RECOVERY_ROWS_PER_S_CPU`], but with the CUDA engine. An H100 applies over 1 G rows per
/// second.
pub const RECOVERY_ROWS_PER_S_CUDA: u64 = 200_000_000;
/// Minimum number of rows that a recovery must replay for its rate to be used as a measurement.
pub const RECOVERY_MEASURED_ROWS_MIN: u64 = 4_000_000;
/// Interval between lines that show the progress of a recovery.
pub const RECOVERY_PROGRESS_MS: u64 = 1_000;

/// Bytes that one row takes in an answer held for a client.
pub(crate) const ROW_ANSWER_BYTES: RowAnswerBytes =
    RowAnswerBytes { id: size_of::<u64>() as u64, fix: size_of::<shoal_codec::FixRow>() as u64 };

/// See [`ROW_ANSWER_BYTES`].
pub(crate) struct RowAnswerBytes {
    /// An id. A rank takes the same number of bytes.
    pub(crate) id: u64,
    /// A record without its id.
    pub(crate) fix: u64,
}

const _: () = assert!(SMALL_MESSAGE_BYTES_MAX <= MESSAGE_BYTES_MAX);
const _: () = assert!(FOLLOW_PROGRESS_MS * 10 < FOLLOW_SILENCE_MS, "progress breaks the silence");
const _: () = assert!(FENCE_INTERVAL_MS * 4 < FENCE_WAIT_MS, "a fence has several attempts");
const _: () = assert!(16 * FLEETS_MAX < TOKEN_BYTES_MAX, "a token names every fleet");
const _: () = assert!(CONTROL_MESSAGE_BYTES_MAX < BUDGETED_MESSAGE_BYTES_MIN);
const _: () = assert!(MESSAGE_GRACE_MS < MESSAGE_READ_MS_MAX);
const _: () = assert!(CHUNK_BYTES_TARGET + (128 << 10) <= CHUNK_BYTES_MAX, "heads fit beside rows");
const _: () =
    assert!(SHUTDOWN_GRACE_MS + ENGINE_END_MS_MAX + AUDIT_END_MS_MAX + OUTPUT_END_MS_MAX < 10_000);
const _: () = assert!(IDLE_CYCLE_MS < 1_000);
// A slice is a batch of a snapshot.
const _: () = assert!(EXPORT_SLICE_ROWS <= shoal_engine::limits::SNAPSHOT_BATCH_ROWS);
const _: () = assert!(
    FLEET_POLYGON_VERTICES_MAX * shoal_engine::limits::POLYGON_VERTEX_ENTRIES_MAX
        <= u32::MAX as usize,
    "a device numbers the edges of all regions with 32 bits",
);
const _: () = assert!(
    KEEPALIVE_INTERVAL_MS + KEEPALIVE_TIMEOUT_MS < DELIVERED_SNAPSHOT_MS_MAX,
    "a dead stream ends before the snapshots it lost are released"
);
const _: () = assert!(LOG_RETRY_MS < LOG_SPACE_WAIT_MS, "space is looked for while clients wait");
const _: () = assert!(SESSION_SWEEP_MS <= PROGRESS_INTERVAL_MS);
const _: () = assert!(
    2 * REGION_CHANGES_MAX <= shoal_engine::limits::SUBSCRIPTION_CHANGES_MAX,
    "one message and as many removals of ended sessions fit a cycle"
);
const _: () = assert!(BATCH_QUERIES_MAX <= shoal_engine::limits::CYCLE_QUERIES_MAX);

/// A limit of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLimit {
    /// Its name in `--limit` and in a configuration file.
    pub name: &'static str,
    /// The limit in effect.
    pub value: u64,
    /// The values that it can have.
    pub range: RangeInclusive<u64>,
    /// What it limits, as documentation of Rust.
    pub meaning: &'static str,
}

macro_rules! server_limits {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $default:expr, $range:expr;)*) => {
        /// Limits that the size of the machine decides.
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct ServerLimits {
            $($(#[doc = $doc])* pub $name: $type,)*
        }

        impl Default for ServerLimits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl ServerLimits {
            /// Confirms that every limit lies in its range.
            ///
            /// # Errors
            /// [`ServiceError::LimitRange`] names the first that does not.
            #[allow(clippy::cast_lossless, reason = "limits are of several types")]
            pub fn check(&self) -> Result<(), ServiceError> {
                $(check_range(stringify!($name), self.$name as u64, $range)?;)*
                Ok(())
            }

            /// The limits with their ranges and meanings.
            #[must_use]
            #[allow(clippy::cast_lossless, reason = "limits are of several types")]
            pub fn list(&self) -> Vec<ListedLimit> {
                vec![$(ListedLimit {
                    name: stringify!($name),
                    value: self.$name as u64,
                    range: $range,
                    meaning: concat!($($doc),*),
                },)*]
            }
        }
    };
}

fn check_range(
    name: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
) -> Result<(), ServiceError> {
    let (min, max) = range.into_inner();
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ServiceError::LimitRange { name, value, min, max })
}

/// Permits that a semaphore can hold.
const PERMITS_MAX: u64 = (u32::MAX >> 3) as u64;
const BATCH_QUERIES: u64 = BATCH_QUERIES_MAX as u64;
/// The server makes messages of so many rows itself, of lines over HTTP and of files.
const MESSAGE_ROWS_MIN: u64 = 4_096;
/// Regions of sessions that ended remain until the next cycle.
const REGIONS_MAX: u64 = (shoal_engine::limits::REGIONS_MAX / 2) as u64;

server_limits! {
    /// Bytes of messages from [`BUDGETED_MESSAGE_BYTES_MIN`], server-wide, until they are applied.
    /// Room for one of [`MESSAGE_BYTES_MAX`] is set aside.
    message_bytes_in_flight_max: usize = 256 << 20, 2 * MESSAGE_BYTES_MAX as u64..=PERMITS_MAX;
    /// Rows queued or in a cycle, per fleet. 40 bytes a row.
    queue_rows_max: usize = 2 << 20, 1..=PERMITS_MAX;
    /// Report messages and removals queued or in a cycle, per fleet.
    queue_messages_max: usize = 16 << 10, 1..=1 << 20;
    /// Queries queued or in a cycle, per fleet.
    queue_queries_max: usize = 64 << 10, BATCH_QUERIES..=1 << 24;
    /// Rows of one report message. One cycle takes it whole, and all other requests wait for that
    /// cycle: some 20 ms on two cores by default.
    message_rows_max: usize = 256 << 10,
        MESSAGE_ROWS_MIN..=shoal_engine::limits::CYCLE_FIXES_MAX as u64;
    /// Rows of one cycle, unless a single message has more. Larger cycles cost less per row and
    /// increase the latency of every request.
    cycle_rows_max: usize = 256 << 10, 1..=shoal_engine::limits::CYCLE_FIXES_MAX as u64;
    /// Queries of one cycle.
    cycle_queries_max: usize = 16 << 10,
        BATCH_QUERIES..=shoal_engine::limits::CYCLE_QUERIES_MAX as u64;
    /// Messages of one stream that are not yet acknowledged.
    stream_messages_max: usize = 1024, 1..=1 << 16;
    /// Bytes of answers and of large snapshots that are held for clients, server-wide.
    answer_bytes_max: usize = 1 << 30, PROBE_BYTES_MAX..=1 << 40;
    /// Connections.
    connections_max: usize = 4096, 1..=1 << 20;
    /// Connections of one peer address; the addresses of an IPv6 /64 count as one. Half of all by
    /// default: one peer cannot take them all, and many clients can share a proxy.
    address_connections_max: usize = 2048, 1..=1 << 20;
    /// Connections to the HTTP listener. `address_connections_max` limits those of one address.
    http_connections_max: usize = 2048, 1..=1 << 20;
    /// Calls over HTTP in progress, server-wide: each holds a message of its answer as text.
    http_calls_max: usize = 1024, 1..=1 << 20;
    /// Bytes of unread requests of connections with large HTTP/2 windows, server-wide: 10.25 MiB
    /// for each. Connections beyond them have windows of 640 KiB, and 64 KiB for each call, which
    /// slow down blocks and distant senders. One address has at most half, if there is room for
    /// two.
    window_bytes_max: usize = 512 << 20, 0..=1 << 40;
    /// TLS handshakes of a listener at once. At the bound the oldest that waits for its peer gives
    /// way.
    handshakes_max: usize = 1024, 1..=1 << 16;
    /// Concurrent calls on one connection.
    connection_calls_max: u32 = 256, 1..=1 << 20;
    /// Calls in progress, server-wide: each holds some 40 KiB before its first message.
    calls_max: usize = 8192, 1..=1 << 20;
    /// Report, batch and subscribe streams, server-wide; a token, or a connection without one, has
    /// at most half of them.
    streams_max: usize = 8192, 1..=1 << 20;
    /// Fleets.
    fleets_max: usize = 1_000, 1..=FLEETS_MAX as u64;
    /// Objects of a fleet that is created without a limit.
    fleet_objects_max: u64 = 100_000_000, 1..=shoal_engine::limits::OBJECTS_MAX;
    /// Producers whose numbers are remembered, per fleet: some 300 bytes each.
    producers_max: usize = 100_000, 1..=1 << 24;
    /// Names of a named fleet. Each takes 25 to 47 bytes in addition to its text.
    names_max: usize = 20_000_000, 1..=1 << 36;
    /// Changes of subscriptions queued or in a cycle, per fleet.
    queue_subscriptions_max: usize = 64 << 10, REGION_CHANGES_MAX as u64..=1 << 20;
    /// Events of one cycle. Regions whose events exceed this number lag.
    cycle_events_max: u64 = 16 << 20, 1..=shoal_engine::limits::CYCLE_EVENTS_MAX;
    /// Events of a session in a cycle, without snapshots. A session with more events lags.
    session_events_max: u64 = 256 << 10, 1..=shoal_engine::limits::CYCLE_EVENTS_MAX;
    /// Sessions of subscribers, per fleet.
    sessions_max: usize = 4096, 1..=1 << 20;
    /// Subscribed regions of a session.
    session_regions_max: usize = 128 << 10, 1..=REGIONS_MAX;
    /// Subscribed regions of a fleet.
    fleet_regions_max: usize = 1 << 20, 1..=REGIONS_MAX;
    /// Subscribed regions of a fleet around the same place: the work and the events of a report there
    /// grow with their number. Regions of a similar size nearby count too.
    place_regions_max: usize = 16 << 10, 1..=REGIONS_MAX;
    /// Vertices of all subscribed polygons of a fleet, without closing ones. Each takes
    /// [`POLYGON_VERTEX_BYTES_MAX`](shoal_engine::limits::POLYGON_VERTEX_BYTES_MAX) at most.
    fleet_polygon_vertices_max: usize = 8 << 20, 0..=FLEET_POLYGON_VERTICES_MAX as u64;
    /// Bytes of messages that a session holds, read and unread. This limits the memory for a
    /// subscriber that never reads (without its regions), and how far back a stream may resume.
    session_bytes_max: usize = 8 << 20, (CROWDED_SHARE * SESSION_BYTES_MIN) as u64..=1 << 30;
    /// Messages that a session holds.
    session_messages_max: usize = 64 << 10, 16..=1 << 24;
    /// Longest life of a session without a reader, milliseconds.
    session_retention_ms_max: u64 = 60_000, 0..=SESSION_RETENTION_MS_MAX;
    /// Bytes of cycles that wait for the log, per fleet; beyond them senders are throttled.
    log_pending_bytes_max: u64 = 256 << 20, 1 << 20..=1 << 40;
    /// Bytes of a segment of the log.
    log_segment_bytes: u64 = log_limits::SEGMENT_BYTES_DEFAULT,
        log_limits::SEGMENT_BYTES_MIN..=log_limits::SEGMENT_BYTES_MAX;
    /// Free bytes of the disk that logs and checkpoints leave.
    log_reserve_bytes: u64 = log_limits::RESERVE_BYTES_DEFAULT, 0..=1 << 50;
    /// Segments that recovery does not need are kept while a log has at most this many bytes.
    log_keep_bytes: u64 = 0, 0..=1 << 60;
    /// Segments that recovery does not need are kept while they are at most this old, milliseconds.
    log_keep_ms: u64 = 0, 0..=1 << 50;
    /// Segments that a follower has not received are kept while the log has at most this many
    /// bytes. A follower that needs older segments receives a checkpoint.
    log_follower_bytes: u64 = 4 << 30, 0..=1 << 60;
    /// Followers of a fleet that are connected.
    followers_max: usize = 16, 1..=1 << 16;
    /// Bytes that are read for all followers and not yet sent.
    follower_bytes_max: usize = 256 << 20, 1 << 20..=1 << 40;
    /// Time for which the log keeps segments for a follower that is not connected, milliseconds.
    log_follower_ms: u64 = 600_000, 0..=1 << 50;
    /// Longest time that cycles wait before they are part of the history, milliseconds.
    history_seal_ms: u64 = 10_000, 1..=3_600_000;
    /// Bytes of the log that the history has not taken; beyond them senders are throttled.
    history_backlog_bytes: u64 = 4 << 30, 1..=1 << 50;
    /// Percent of a core that the history of a fleet takes while the machine is busy. It takes
    /// more, up to a whole core, as long as half a core of the machine stays idle. It takes a whole
    /// core if its backlog exceeds half of `history_backlog_bytes`.
    history_share: u64 = 15, 1..=100;
    /// Time after which a replay with a speed turns to the newest version of the history,
    /// milliseconds. Until then it keeps files that were replaced or erased.
    history_replay_ms: u64 = 60_000, 1..=3_600_000;
    /// Longest time that a recovery takes to replay the log after a checkpoint, milliseconds. The
    /// next checkpoint begins when a replay would take half of this time.
    recovery_ms_max: u64 = 15_000, 100..=86_400_000;
    /// Bytes that reach the log before the next checkpoint is written.
    checkpoint_log_bytes: u64 = 1 << 30, 1..=1 << 50;
    /// Bytes that all sessions hold together before each is limited to a sixteenth of
    /// `session_bytes_max`, server-wide.
    subscription_bytes_max: usize = 1 << 30, 0..=1 << 40;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribed_polygons_take_a_gibibyte_at_most() {
        let vertices = ServerLimits::default().fleet_polygon_vertices_max;
        assert!(vertices * shoal_engine::limits::POLYGON_VERTEX_BYTES_MAX <= 1 << 30);
    }

    #[test]
    fn defaults_lie_in_their_ranges_and_zero_does_not() {
        ServerLimits::default().check().unwrap();
        let wrong = ServerLimits { queue_rows_max: 0, ..ServerLimits::default() };
        assert!(wrong.check().unwrap_err().to_string().contains("queue_rows_max is 0"));
    }
}
