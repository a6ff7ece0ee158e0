//! The limits of tokens, keys, certificates, handshakes and connections without calls.

use super::PREFACE_MS_MAX;

/// Tokens of a file: some 500 bytes each.
pub const TOKENS_MAX: usize = 100_000;
/// Bytes of a file of tokens or keys, and of a file of certificates.
pub const ACCESS_FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the name of a token.
pub const TOKEN_NAME_BYTES_MAX: usize = 128;
/// Grants of a token, and patterns of fleets of a grant: a call tries each of them.
pub const GRANTS_MAX: usize = 32;
/// See [`GRANTS_MAX`].
pub const GRANT_PATTERNS_MAX: usize = 64;
/// Keys that sign tokens: enough for several issuers that replace their keys.
pub const JWT_KEYS_MAX: usize = 64;
/// Withdrawn ids and subjects of signed tokens.
pub const JWT_WITHDRAWN_MAX: usize = 100_000;
/// Bytes of the subject and of the id of a signed token.
pub const JWT_SUBJECT_BYTES_MAX: usize = 256;
/// What the clocks of issuers may differ from that of the server, seconds: `exp` and `nbf` are
/// extended by it.
pub const JWT_LEEWAY_S: u64 = 5;
/// Signed tokens whose verification is remembered; a verification takes 50 to 200 us.
pub const JWT_CACHE_MAX: usize = 4096;
/// Tokens of one connection whose quotas count it.
pub const CONNECTION_TOKENS_MAX: usize = 64;
/// Interval between checks of the files of tokens, keys and certificates, and of the expiry of the
/// tokens of calls in progress. The streams of a withdrawn token end within a second.
pub const RELOAD_MS: u64 = 250;

/// Interval at which an answer from the history checks whether its fleet was renamed.
pub const RENAME_CHECK_MS: u64 = 250;
/// Interval at which a call that waits for a quota checks whether the quota was raised.
pub const QUOTA_WAIT_MS_MAX: u64 = 1_000;
/// Refusals of one token, or of one address without a token, that the audit log records in a
/// second.
pub const AUDIT_SOURCE_REFUSALS_MAX: usize = 20;
/// Refusals of all sources that the audit log records in a second.
pub const AUDIT_REFUSALS_MAX: usize = 500;
/// Time for the last records of an audit file at the end of the server.
pub const AUDIT_END_MS_MAX: u64 = 300;
/// Time for a TLS handshake: a few round trips of a bad mobile network.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// Refused connections of a listener whose peers are reading the reason; one more is closed at
/// once.
pub const REFUSALS_MAX: usize = 256;
/// Time that the peer of a refused connection has to read the reason.
pub const REFUSAL_MS_MAX: u64 = 1_000;
/// Connections to the monitoring address: a few monitoring systems, each with one request at a
/// time.
pub const METRICS_CONNECTIONS_MAX: usize = 64;
/// Life of a connection to the monitoring address, which has one request and its answer: as long as
/// Prometheus waits by default.
pub const METRICS_CONNECTION_MS_MAX: u64 = 10_000;

const _: () = assert!(3 * RELOAD_MS < 1_000, "a withdrawn token ends within a second");
const _: () = assert!(HANDSHAKE_MS_MAX < PREFACE_MS_MAX);
