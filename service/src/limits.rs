//! How much may be queued, read, held and answered at once?
//!
//! Every queue and buffer of the service has its limit here, with the reason beside the number.
//! Those that a machine's size decides are fields of [`ServerLimits`]; relations are asserted.

use crate::error::ServiceError;

/// Bytes of one report message: blocks and rows (architecture, section 5).
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of one message of every other call. Decoded messages may be 20 times as large as their
/// bytes (an empty ring is 2 bytes on the wire), so this stays far below [`MESSAGE_BYTES_MAX`].
pub const SMALL_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Rows of one report message: one cycle takes it whole.
pub const MESSAGE_ROWS_MAX: usize = shoal_engine::limits::CYCLE_FIXES_MAX;
/// Queries of one batch message.
pub const BATCH_QUERIES_MAX: usize = 4096;
/// Bytes of one chunk of an answer (architecture, section 3.7): a default client takes 4 MiB.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes that chunks are filled to. What was handed to the transport is out of our hands, so a
/// chunk is small against the memory of a server with many slow readers.
pub const CHUNK_BYTES_TARGET: usize = 256 << 10;
/// A client that takes no chunk for this long loses its answer: others wait for the memory.
pub const ANSWER_STALL_MS_MAX: u64 = 60_000;
/// Longest wait for the memory that an answer needs.
pub const ANSWER_WAIT_MS_MAX: u64 = 10_000;
/// How often a request is asked again because its answer outgrew the room taken for it.
pub const ASK_AGAIN_MAX: u32 = 4;
/// Messages of one batch stream that are being answered at once.
pub const BATCH_MESSAGES_MAX: usize = 16;
/// Rows read from one message before other calls get their turn: about a millisecond.
pub const READ_ROWS_AT_ONCE: usize = 32 << 10;
/// Bytes of a producer's name.
pub const PRODUCER_BYTES_MAX: usize = 128;
/// Failed numbers of one producer that may stay open while later numbers are applied. They are
/// kept per producer, so the bound is small; a client repairs or repeats its failures long before.
pub const OPEN_NUMBERS_MAX: usize = 16;
/// Refused rows told one by one in an acknowledgement.
pub const REFUSED_ROWS_TOLD_MAX: usize = 256;
/// Failed messages told one by one in an acknowledgement.
pub const FAILED_MESSAGES_TOLD_MAX: usize = 256;
/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// Fleets of a page of a listing that asks for no number.
pub const FLEET_PAGE_DEFAULT: usize = 100;
/// Fleets of a page of a listing.
pub const FLEET_PAGE_MAX: usize = 1_000;
/// Fleets of a server, whatever its limits say: a token has room for one epoch of each.
pub const FLEETS_MAX: usize = 63;
/// Messages above this many bytes are read one budget at a time; smaller ones fit the windows of
/// HTTP/2 flow control, which are bounded already.
pub const BUDGETED_MESSAGE_BYTES_MIN: usize = 64 << 10;
/// Unread bytes that one stream may have in flight: HTTP/2 flow control.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Unread bytes that one connection may have in flight. Ten streams whose messages wait for room
/// fill it, and no other stream of the connection moves until one of them is read on; so clients
/// keep reports and queries on few streams each. It decides the overhead of small frames too, see
/// `SMALL_FRAME_BYTES`.
pub const CONNECTION_WINDOW_BYTES: u32 = 10 << 20;
/// The HTTP/2 library counts what an unread frame lacks of this many bytes as overhead, and closes
/// a connection (ENHANCE_YOUR_CALM) whose overhead exceeds half its window. A stream of messages of
/// one row each must fill its own window before that: then it waits and is not closed.
const SMALL_FRAME_BYTES: u32 = 256;
/// A message of one row without attributes for the default fleet, in its gRPC frame.
const ROW_MESSAGE_BYTES_MIN: u32 = 45;
/// Bytes of the headers of one call.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Largest HTTP/2 frame that peers may send: fewer, larger pieces cost less.
pub const FRAME_BYTES_MAX: u32 = 256 << 10;
/// A message that began must be complete after this time, or the stream ends: a stalled sender may
/// not keep its share of the message budget.
pub const MESSAGE_READ_MS_MAX: u64 = 60_000;
/// A connection must have begun to speak HTTP/2 after this time: one that is silent from the start
/// holds a place that no keep-alive would free.
pub const GREETING_MS_MAX: u64 = 20_000;
/// Engines have this long to finish their cycle at shutdown.
pub const ENGINE_END_MS_MAX: u64 = 2_000;
/// A connection without a sign of life is asked after this time.
pub const KEEPALIVE_INTERVAL_MS: u64 = 20_000;
/// and closed after this.
pub const KEEPALIVE_TIMEOUT_MS: u64 = 20_000;
/// Time for streams to end by themselves at shutdown; the process is gone within 10 s.
pub const SHUTDOWN_GRACE_MS: u64 = 7_000;
/// When a refused call should be tried again, milliseconds: a few cycles.
pub const BUSY_RETRY_MS: u64 = 100;
/// An idle engine looks this often whether something fell due, milliseconds; the promise is 1 s.
pub const IDLE_CYCLE_MS: u64 = 500;
/// Rows that a query may return before its size is asked first; see `rpc/answer_budget.rs`.
pub const PROBE_ROWS_MAX: u64 = 64 << 10;
/// Bytes of answer that one request may bring before its size is asked first.
pub const PROBE_BYTES_MAX: u64 = 8 << 20;

/// Regions that one message of a subscriber adds, changes and removes. They are some 8 MiB of
/// rectangles and circles, and one cycle takes them whole.
pub const REGION_CHANGES_MAX: usize = 16 << 10;
/// Memory of a session's message beside its bytes: its place in the list and its allocation.
pub const SESSION_MESSAGE_BYTES: usize = 256;
/// Least that a session holds, so that a message of lost ones fits.
pub const SESSION_BYTES_MIN: usize = 1 << 10;
/// Members of a snapshot that takes more than this share of a session's memory are not copied into
/// it: they count as an answer, against [`ServerLimits::answer_bytes_max`].
pub const SNAPSHOT_SHARE: usize = 4;
/// Nor are those beyond so many bytes: the thread that copies them serves all sessions of a fleet.
pub const COPIED_SNAPSHOT_BYTES_MAX: usize = 2 << 20;
/// Longest time that a delivered snapshot stays in memory while its stream goes on. A client that
/// lost a part of it resumes before: keep-alive has closed a dead connection by then.
pub const DELIVERED_SNAPSHOT_MS_MAX: u64 = 60_000;
/// When all sessions together hold more than [`ServerLimits::subscription_bytes_max`], each may
/// hold this share of what it could hold otherwise.
pub const CROWDED_SHARE: usize = 16;
/// Cycles whose events wait for being sorted out to their sessions; an engine that is this far
/// ahead waits for the processor that does it, never for a reader.
pub const EVENT_SETS_MAX: usize = 4;
/// Sessions that wait for their unread messages to be coalesced; one more loses them at once.
pub const COALESCE_QUEUE_MAX: usize = 64;
/// A subscriber that was told nothing for this long is told how far the fleet is.
pub const PROGRESS_INTERVAL_MS: u64 = 1_000;
/// Between two looks for sessions that were left.
pub const SESSION_SWEEP_MS: u64 = 250;
/// Longest time that a session may be left for, milliseconds: a day.
pub const SESSION_RETENTION_MS_MAX: u64 = 86_400_000;
/// Most that `fleet_polygon_vertices_max` may be.
pub const FLEET_POLYGON_VERTICES_MAX: usize = 1 << 28;

/// Bytes that one row takes in an answer held for a client.
pub(crate) const ROW_ANSWER_BYTES: RowAnswerBytes =
    RowAnswerBytes { id: size_of::<u64>() as u64, fix: size_of::<shoal_codec::FixRow>() as u64 };

/// See [`ROW_ANSWER_BYTES`].
pub(crate) struct RowAnswerBytes {
    /// An id, and a rank as well.
    pub(crate) id: u64,
    /// A record beside the id.
    pub(crate) fix: u64,
}

const _: () = assert!(SMALL_MESSAGE_BYTES_MAX <= MESSAGE_BYTES_MAX);
const _: () = assert!(16 * FLEETS_MAX < TOKEN_BYTES_MAX, "a token names every fleet");
const _: () = assert!(STREAM_WINDOW_BYTES < CONNECTION_WINDOW_BYTES, "streams do not block others");
const _: () = assert!(
    STREAM_WINDOW_BYTES / ROW_MESSAGE_BYTES_MIN * (SMALL_FRAME_BYTES - ROW_MESSAGE_BYTES_MIN)
        < CONNECTION_WINDOW_BYTES / 2,
    "flow control stops a stream of single rows before its connection is closed"
);
const _: () = assert!(BUDGETED_MESSAGE_BYTES_MIN < STREAM_WINDOW_BYTES as usize);
const _: () = assert!(CHUNK_BYTES_TARGET + (128 << 10) <= CHUNK_BYTES_MAX, "heads fit beside rows");
const _: () = assert!(SHUTDOWN_GRACE_MS + ENGINE_END_MS_MAX < 10_000);
const _: () = assert!(IDLE_CYCLE_MS < 1_000);
const _: () = assert!(
    FLEET_POLYGON_VERTICES_MAX * shoal_engine::limits::POLYGON_VERTEX_ENTRIES_MAX
        <= u32::MAX as usize,
    "a device numbers the edges of all regions with 32 bits",
);
const _: () = assert!(
    KEEPALIVE_INTERVAL_MS + KEEPALIVE_TIMEOUT_MS < DELIVERED_SNAPSHOT_MS_MAX,
    "a dead stream ends before the snapshots it lost are released"
);
const _: () = assert!(SESSION_SWEEP_MS <= PROGRESS_INTERVAL_MS);
const _: () = assert!(
    2 * REGION_CHANGES_MAX <= shoal_engine::limits::SUBSCRIPTION_CHANGES_MAX,
    "one message and as many removals of sessions that ended fit a cycle"
);
const _: () = assert!(BATCH_QUERIES_MAX <= shoal_engine::limits::CYCLE_QUERIES_MAX);

/// Name, value, least and greatest of a limit.
type Range = (&'static str, u64, u64, u64);

/// Limits that the size of the machine decides.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    /// Bytes of partly read messages above [`BUDGETED_MESSAGE_BYTES_MIN`], server-wide.
    pub message_bytes_in_flight_max: usize,
    /// Rows queued and under way, per fleet. 40 bytes a row.
    pub queue_rows_max: usize,
    /// Report messages and removals queued and under way, per fleet.
    pub queue_messages_max: usize,
    /// Queries queued and under way, per fleet.
    pub queue_queries_max: usize,
    /// Rows of one cycle, unless a single message has more. Larger cycles cost less a row and make
    /// everybody wait longer.
    pub cycle_rows_max: usize,
    /// Queries of one cycle.
    pub cycle_queries_max: usize,
    /// Messages of one stream that are not yet acknowledged.
    pub stream_messages_max: usize,
    /// Bytes of answers and of large snapshots that are held for clients, server-wide.
    pub answer_bytes_max: usize,
    /// Connections.
    pub connections_max: usize,
    /// Calls at once on one connection.
    pub connection_calls_max: u32,
    /// Report, batch and subscribe streams, server-wide.
    pub streams_max: usize,
    /// Fleets.
    pub fleets_max: usize,
    /// Objects of a fleet that does not say less.
    pub fleet_objects_max: u64,
    /// Producers whose numbers are remembered, per fleet: some 300 bytes each.
    pub producers_max: usize,
    /// Changes of standing regions queued and under way, per fleet.
    pub queue_subscriptions_max: usize,
    /// Events of one cycle; regions beyond are told that they lag.
    pub cycle_events_max: u64,
    /// Sessions of subscribers, per fleet.
    pub sessions_max: usize,
    /// Standing regions of a session.
    pub session_regions_max: usize,
    /// Standing regions of a fleet.
    pub fleet_regions_max: usize,
    /// Vertices of all standing polygons of a fleet, closing ones not counted. Each takes
    /// [`POLYGON_VERTEX_BYTES_MAX`](shoal_engine::limits::POLYGON_VERTEX_BYTES_MAX) at most.
    pub fleet_polygon_vertices_max: usize,
    /// Bytes of messages that a session holds, read and unread: what a subscriber that never reads
    /// costs beside its regions, and how far back one may resume.
    pub session_bytes_max: usize,
    /// Messages that a session holds.
    pub session_messages_max: usize,
    /// Longest life of a session without a reader, milliseconds.
    pub session_retention_ms_max: u64,
    /// Bytes that all sessions hold together before each is held to a sixteenth of
    /// `session_bytes_max`, server-wide.
    pub subscription_bytes_max: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            message_bytes_in_flight_max: 256 << 20,
            queue_rows_max: 1 << 20,
            queue_messages_max: 16 << 10,
            queue_queries_max: 64 << 10,
            cycle_rows_max: 256 << 10,
            cycle_queries_max: 16 << 10,
            stream_messages_max: 1024,
            answer_bytes_max: 1 << 30,
            connections_max: 4096,
            connection_calls_max: 256,
            streams_max: 4096,
            fleets_max: 32,
            fleet_objects_max: 100_000_000,
            producers_max: 100_000,
            queue_subscriptions_max: 64 << 10,
            cycle_events_max: shoal_engine::limits::CYCLE_EVENTS_MAX,
            sessions_max: 4096,
            session_regions_max: 128 << 10,
            fleet_regions_max: 1 << 20,
            fleet_polygon_vertices_max: 8 << 20,
            session_bytes_max: 8 << 20,
            session_messages_max: 64 << 10,
            session_retention_ms_max: 60_000,
            subscription_bytes_max: 1 << 30,
        }
    }
}

impl ServerLimits {
    /// Confirms that every limit lies in its range.
    ///
    /// # Errors
    /// [`ServiceError::LimitRange`] names the first that does not.
    pub fn check(&self) -> Result<(), ServiceError> {
        let ranges = self.ranges().into_iter().chain(self.subscription_ranges());
        for (name, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(ServiceError::LimitRange { name, value, min, max });
            }
        }
        Ok(())
    }

    fn ranges(&self) -> [Range; 14] {
        use shoal_engine::limits as engine;
        let permits = u64::from(u32::MAX >> 3);
        let rows = engine::CYCLE_FIXES_MAX as u64;
        let queries = engine::CYCLE_QUERIES_MAX as u64;
        let largest = MESSAGE_BYTES_MAX as u64;
        [
            (
                "message_bytes_in_flight_max",
                self.message_bytes_in_flight_max as u64,
                largest,
                permits,
            ),
            ("queue_rows_max", self.queue_rows_max as u64, 1, permits),
            ("queue_messages_max", self.queue_messages_max as u64, 1, 1 << 20),
            ("queue_queries_max", self.queue_queries_max as u64, BATCH_QUERIES_MAX as u64, 1 << 24),
            ("cycle_rows_max", self.cycle_rows_max as u64, 1, rows),
            ("cycle_queries_max", self.cycle_queries_max as u64, BATCH_QUERIES_MAX as u64, queries),
            ("stream_messages_max", self.stream_messages_max as u64, 1, 1 << 16),
            ("answer_bytes_max", self.answer_bytes_max as u64, PROBE_BYTES_MAX, 1 << 40),
            ("connections_max", self.connections_max as u64, 1, 1 << 20),
            ("connection_calls_max", self.connection_calls_max.into(), 1, 1 << 20),
            ("streams_max", self.streams_max as u64, 1, 1 << 20),
            ("fleets_max", self.fleets_max as u64, 1, FLEETS_MAX as u64),
            ("fleet_objects_max", self.fleet_objects_max, 1, engine::OBJECTS_MAX),
            ("producers_max", self.producers_max as u64, 1, 1 << 24),
        ]
    }

    fn subscription_ranges(&self) -> [Range; 10] {
        use shoal_engine::limits as engine;
        let changes = REGION_CHANGES_MAX as u64;
        // Regions of sessions that ended stand until the next cycle.
        let regions = (engine::REGIONS_MAX / 2) as u64;
        let least = (CROWDED_SHARE * SESSION_BYTES_MIN) as u64;
        [
            ("queue_subscriptions_max", self.queue_subscriptions_max as u64, changes, 1 << 20),
            ("cycle_events_max", self.cycle_events_max, 1, engine::CYCLE_EVENTS_MAX),
            ("sessions_max", self.sessions_max as u64, 1, 1 << 20),
            ("session_regions_max", self.session_regions_max as u64, 1, regions),
            ("fleet_regions_max", self.fleet_regions_max as u64, 1, regions),
            (
                "fleet_polygon_vertices_max",
                self.fleet_polygon_vertices_max as u64,
                0,
                FLEET_POLYGON_VERTICES_MAX as u64,
            ),
            ("session_bytes_max", self.session_bytes_max as u64, least, 1 << 30),
            ("session_messages_max", self.session_messages_max as u64, 16, 1 << 24),
            (
                "session_retention_ms_max",
                self.session_retention_ms_max,
                0,
                SESSION_RETENTION_MS_MAX,
            ),
            ("subscription_bytes_max", self.subscription_bytes_max as u64, 0, 1 << 40),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_polygons_take_a_gibibyte_at_most() {
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
