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
/// Producers whose last number is remembered, per fleet.
pub const PRODUCERS_MAX: usize = 100_000;
/// Refused rows told one by one in an acknowledgement.
pub const REFUSED_ROWS_TOLD_MAX: usize = 256;
/// Failed messages told one by one in an acknowledgement.
pub const FAILED_MESSAGES_TOLD_MAX: usize = 256;
/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// Fleets of a server, whatever its limits say: a token has room for one epoch of each.
pub const FLEETS_MAX: usize = 63;
/// Messages above this many bytes are read one budget at a time; smaller ones fit the windows of
/// HTTP/2 flow control, which are bounded already.
pub const BUDGETED_MESSAGE_BYTES_MIN: usize = 64 << 10;
/// Unread bytes that one stream may have in flight: HTTP/2 flow control.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Unread bytes that one connection may have in flight. Four streams whose messages wait for room
/// fill it, and no other stream of the connection moves until one of them is read on; so clients
/// keep reports and queries on few streams each.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
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
const _: () = assert!(BUDGETED_MESSAGE_BYTES_MIN < STREAM_WINDOW_BYTES as usize);
const _: () = assert!(CHUNK_BYTES_TARGET + (128 << 10) <= CHUNK_BYTES_MAX, "heads fit beside rows");
const _: () = assert!(SHUTDOWN_GRACE_MS + ENGINE_END_MS_MAX < 10_000);
const _: () = assert!(IDLE_CYCLE_MS < 1_000);
const _: () = assert!(BATCH_QUERIES_MAX <= shoal_engine::limits::CYCLE_QUERIES_MAX);

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
    /// Bytes of answers held for clients that are reading them, server-wide.
    pub answer_bytes_max: usize,
    /// Connections.
    pub connections_max: usize,
    /// Calls at once on one connection.
    pub connection_calls_max: u32,
    /// Report and batch streams, server-wide.
    pub streams_max: usize,
    /// Fleets.
    pub fleets_max: usize,
    /// Objects of a fleet that does not say less.
    pub fleet_objects_max: u64,
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
        }
    }
}

impl ServerLimits {
    /// Confirms that every limit lies in its range.
    ///
    /// # Errors
    /// [`ServiceError::LimitRange`] names the first that does not.
    pub fn check(&self) -> Result<(), ServiceError> {
        use shoal_engine::limits as engine;
        let permits = u64::from(u32::MAX >> 3);
        let rows = engine::CYCLE_FIXES_MAX as u64;
        let queries = engine::CYCLE_QUERIES_MAX as u64;
        let largest = MESSAGE_BYTES_MAX as u64;
        let ranges: [(&'static str, u64, u64, u64); 13] = [
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
        ];
        for (name, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(ServiceError::LimitRange { name, value, min, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_in_their_ranges_and_zero_does_not() {
        ServerLimits::default().check().unwrap();
        let wrong = ServerLimits { queue_rows_max: 0, ..ServerLimits::default() };
        assert!(wrong.check().unwrap_err().to_string().contains("queue_rows_max is 0"));
    }
}
