//! All limits of the load generator, with their reasons; relations between them are asserted at
//! compile time. They bound the memory of the client, not what a server accepts.

use crate::names::NAME_BYTES_MAX;

/// With a lead of at least this, 100 years, an event clock follows every row.
pub const EVENT_CLOCK_LEAD_MS: u64 = 36_525 * 86_400_000;
/// Connections of one run, each of them two HTTP/2 channels: one for reports, one for queries.
pub const CONNECTIONS_MAX: u32 = 512;
/// Rows of one message: the server's limit.
pub const BATCH_ROWS_MAX: u32 = 256 << 10;
/// Rows of one message by default. Weak evidence (prepared blocks, two cores shared with the server
/// and other work): 4,096 rows 5.7 M/s, 8,192 7.8, 16,384 7.9, 65,536 6.7; larger messages increase
/// ack latency.
pub const BATCH_ROWS_DEFAULT: u32 = 8_192;
/// Default number of rows of one message with verification. It is smaller, so that there are more
/// epochs to compare.
pub const BATCH_ROWS_VERIFY: u32 = 1_024;
/// Bytes of the largest row on the wire: tag, length, time, position, speed, heading and a name.
pub const ROW_BYTES_MAX: usize = 2 + 3 * 9 + 2 * 5 + 2 + NAME_BYTES_MAX;
/// Bytes of a report without its rows: names of fleet and producer, numbers, tags.
pub const MESSAGE_HEAD_BYTES_MAX: usize = 512;
/// The server's limit on the bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Unacknowledged messages on one connection at full speed; more do not increase the rate.
pub const REPORTS_IN_FLIGHT_MAX: u32 = 8;
/// The same with verification. The server merges acks that are read late into ranges, which state
/// only the epochs of their first and last message. A range of at most two messages leaves no epoch
/// unknown.
pub const REPORTS_IN_FLIGHT_VERIFY_MAX: u32 = 2;
/// Unacknowledged messages on one connection at a given rate. If the server is slow, the sender
/// waits at this number.
pub const REPORTS_IN_FLIGHT_PACED_MAX: u32 = 1_024;
/// Queries of one message: the server's limit.
pub const MESSAGE_QUERIES_MAX: u32 = 4_096;
/// Queries of one message by default.
pub const MESSAGE_QUERIES_DEFAULT: u32 = 256;
/// Messages of queries in flight on one connection.
pub const QUERY_MESSAGES_IN_FLIGHT_MAX: u32 = 4;
/// The same at a given rate.
pub const QUERY_MESSAGES_IN_FLIGHT_PACED_MAX: u32 = 256;
/// Minimum messages per second of a paced connection, for an even pace.
pub const PACED_MESSAGES_PER_S_MIN: f64 = 100.0;
/// Unread bytes of answers on one connection: HTTP/2 windows of stream and channel.
pub const WINDOW_BYTES: u32 = 4 << 20;
/// Unread bytes of a silent subscriber's stream: HTTP/2's initial window.
pub const NARROW_WINDOW_BYTES: u32 = (64 << 10) - 1;
/// Maximum bytes of one HTTP/2 frame from the server.
pub const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Bytes of one message of answers; the server splits them at 1 MiB.
pub const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Rows that the verifier holds before they are applied; senders wait.
pub const VERIFY_ROWS_HELD_MAX: u32 = (4 << 20) - 1;
/// Bytes of answers that the verifier holds; queries wait at the limit.
pub const VERIFY_ANSWER_BYTES_MAX: usize = 128 << 20;
/// Changes that the verifier keeps for questions about the past, about 200 bytes each.
pub const VERIFY_PAST_CHANGES_MAX: usize = 20_000_000;
/// Mismatches that are reported individually.
pub const MISMATCHES_REPORTED_MAX: usize = 5;
/// Bytes of prepared blocks, all connections together.
pub const PREPARED_BYTES_MAX: usize = 1 << 30;
/// Rounds of prepared blocks, if [`PREPARED_BYTES_MAX`] allows.
pub const PREPARED_ROUNDS: u64 = 4;
/// Ids of recently sent objects, for get queries.
pub const SEEN_OBJECTS_MAX: usize = 4_096;
/// Seconds without any ack or answer after which a run gives up.
pub const STALL_S_MAX: u64 = 60;
/// Removals of one request: the server's limit.
pub const REMOVALS_MAX: usize = 65_536;

/// Regions of one session. A comparison queries all of them in one message.
pub const SESSION_REGIONS_MAX: u32 = 4_096;
/// Sessions of one run. Each session follows one shard of the workload's regions.
pub const SESSIONS_MAX: u32 = 4_096;
/// Sessions that share a channel.
pub const CHANNEL_SESSIONS_MAX: u32 = 64;
/// Streams that are broken in one run.
pub const KILLS_MAX: u32 = 1_000_000;
/// Regions of one comparison while rows are sent; the final comparison covers the whole session.
pub const COMPARED_REGIONS: usize = 64;
/// Seconds in which a session must end after all rows are acknowledged.
pub const SUBSCRIBER_END_S_MAX: u64 = 60;
/// Epochs whose send times are kept for event latencies.
pub const EPOCH_TIMES_MAX: usize = 1 << 17;

const _: () = assert!(SESSION_REGIONS_MAX <= MESSAGE_QUERIES_MAX);
const _: () = assert!(
    CHANNEL_SESSIONS_MAX * NARROW_WINDOW_BYTES < WINDOW_BYTES,
    "unread streams do not block the others of their connection"
);
const _: () = assert!(SESSIONS_MAX <= shoal_workload::SHARDS_MAX);
const _: () = assert!(
    BATCH_ROWS_MAX as usize * ROW_BYTES_MAX + MESSAGE_HEAD_BYTES_MAX <= MESSAGE_BYTES_MAX,
    "the largest batch is a legal message"
);
const _: () = assert!(BATCH_ROWS_MAX <= shoal_codec::limits::BLOCK_ROWS_MAX);
const _: () = assert!(BATCH_ROWS_DEFAULT <= BATCH_ROWS_MAX);
const _: () = assert!(BATCH_ROWS_VERIFY <= BATCH_ROWS_DEFAULT);
const _: () = assert!(
    BATCH_ROWS_MAX <= VERIFY_ROWS_HELD_MAX,
    "one message must fit what the oracle may hold, or its sender waits for ever"
);
const _: () = assert!(MESSAGE_QUERIES_DEFAULT <= MESSAGE_QUERIES_MAX);
const _: () = assert!(REPORTS_IN_FLIGHT_VERIFY_MAX <= REPORTS_IN_FLIGHT_MAX);
