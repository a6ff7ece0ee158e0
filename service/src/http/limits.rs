//! The limits of HTTP, each with the reason for its number. Those that the size of a machine
//! decides are fields of `ServerLimits`.

/// Concurrent calls on one HTTP/2 connection of the HTTP listener: browsers open up to this many.
pub(super) const HTTP_CONNECTION_CALLS_MAX: u32 = 100;
/// Requests of one HTTP connection. The connection then ends and the client opens another, so that
/// a proxy distributes its connections again.
pub(super) const HTTP_CONNECTION_REQUESTS_MAX: u64 = 100_000;
/// An HTTP connection without a call ends after this time, or twice as much. Headers that are
/// incomplete are no call.
pub(super) const HTTP_IDLE_MS_MAX: u64 = 30_000;
/// Longest time for the headers of a request over HTTP/1.1, milliseconds.
pub(super) const HTTP_HEADER_MS_MAX: u64 = 20_000;
/// Bytes of a document of a report over HTTP: as much as a message of a query.
pub(super) const HTTP_DOCUMENT_BYTES_MAX: usize = crate::limits::SMALL_MESSAGE_BYTES_MAX;
/// Bytes of a document that states a region or a fleet: 4,096 vertices of 128 bytes.
pub(super) const HTTP_REGION_BYTES_MAX: usize = 512 << 10;
/// Bytes of all documents until their call ends, shared by connection. The shortest row, 37 bytes,
/// becomes a fix of 96 in a list that may grow to three times its length: 8 times its bytes.
pub(super) const HTTP_DOCUMENTS_BYTES_MAX: usize = 32 << 20;
/// Bytes of a document beyond its limit that are read and dropped, and the time for them, so that
/// its sender learns why it is refused.
pub(super) const HTTP_DISCARD_BYTES_MAX: usize = 16 << 20;
/// See [`HTTP_DISCARD_BYTES_MAX`].
pub(super) const HTTP_DISCARD_MS_MAX: u64 = 2_000;
/// Bytes of a line of a report over HTTP.
pub(super) const HTTP_LINE_BYTES_MAX: usize = 64 << 10;
/// Rows of lines that make one message: some 200 KiB.
pub(super) const HTTP_BATCH_ROWS_MAX: usize = 4096;
/// A message of fewer lines is sent this time after its first one, milliseconds.
pub(super) const HTTP_BATCH_MS: u64 = 20;
/// If a stream of events has sent nothing for this time, milliseconds, it sends a comment, so that
/// proxies keep it open.
pub(super) const HTTP_HEARTBEAT_MS: u64 = 15_000;
/// How long a browser waits before it connects to a stream of events again, milliseconds.
pub(super) const HTTP_EVENTS_RETRY_MS: u64 = 1_000;
/// After the server has ended a connection gracefully, it closes the connection when there was no
/// call for this time, milliseconds, or for up to twice as long.
pub(super) const HTTP_END_MS: u64 = 1_000;
/// Bytes of a text that a client sends over a WebSocket: some 500 regions.
pub(super) const WEB_SOCKET_TEXT_BYTES_MAX: usize = 64 << 10;
/// A client over HTTP that takes no bytes for this long loses its connection.
pub(super) const HTTP_WRITE_STALL_MS_MAX: u64 = 60_000;
/// A client over HTTP/2 that takes parts of some answers and none of another one for this long
/// loses its connection.
pub(super) const HTTP_CALL_STALL_MS_MAX: u64 = 5 * HTTP_WRITE_STALL_MS_MAX;
/// Bytes of an answer with a range of a tile archive; the browser asks again for more. Tiles and
/// directories of an archive are smaller.
pub(super) const TILE_RANGE_BYTES_MAX: u64 = 4 << 20;
