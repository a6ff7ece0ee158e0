//! Limits of followers and of their leaders.

use shoal_position_log::limits::PAST_TERMS_MAX;

/// Characters of a replication secret: nobody guesses a random one of this length.
pub const REPLICATION_SECRET_BYTES_MIN: usize = 16;
/// Bytes of the leader's log that wait for the engine of a follower, per fleet; beyond them flow
/// control throttles the leader's stream.
pub const FOLLOW_QUEUE_BYTES_MAX: usize = 64 << 20;
/// Memory of a step in that queue in addition to its bytes.
pub const FOLLOW_STEP_BYTES: usize = 256;
/// Bytes of a part of a group or checkpoint on its way to a follower: below the limit of messages
/// that clients accept.
pub const FOLLOW_PART_BYTES: usize = 256 << 10;
/// Reads of logs for followers that run at once, each on a thread.
pub const FOLLOW_READS_MAX: usize = 8;
/// Bytes of a follower's name, as of a fleet's.
pub const FOLLOWER_NAME_BYTES_MAX: usize = 64;
/// A leader without news sends its progress at this interval.
pub const FOLLOW_PROGRESS_MS: u64 = 100;
/// A follower that hears nothing for so long connects again.
pub const FOLLOW_SILENCE_MS: u64 = 5_000;
/// Delay before a follower connects again: doubled from the first to the second after each failure.
pub const FOLLOW_RETRY_MS: (u64, u64) = (50, 1_000);
/// Interval at which a follower may renew a connection on which a stream has failed.
pub const FOLLOW_RENEW_MS: u64 = 5_000;
/// Longest list of the leader's fleets.
pub const FOLLOW_LIST_BYTES_MAX: usize = 32 << 20;
const _: () = {
    // An ended term has a fixed64 and a varint of at most 10 bytes, with keys and length; the rest
    // of a description is the request that created the fleet, its id and its term.
    const ENDED_TERM_BYTES: usize = (1 + 8) + (1 + 10) + 2;
    const REST_BYTES: usize = 512;
    let fleet = PAST_TERMS_MAX * ENDED_TERM_BYTES + REST_BYTES;
    assert!(super::FLEETS_MAX * fleet <= FOLLOW_LIST_BYTES_MAX, "the list names every fleet");
};
/// Fleets that a follower copies over one connection: a copy takes two calls at a time, and a server
/// limits the calls on a connection (`connection_calls_max`).
pub const FOLLOW_STREAMS_MAX: usize = 100;
/// Interval at which a follower asks its leader for the list of fleets.
pub const FOLLOW_LIST_MS: u64 = 500;
/// Interval at which a follower remembers how current its copies are.
pub const FOLLOW_RECORD_MS: u64 = 5_000;
/// Longest wait for the disk meanwhile, and at the end of a server that undoes a promotion.
pub const FOLLOW_RECORD_WAIT_MS: u64 = 1_000;
/// Longest wait of a query on a follower for the epoch of its token.
pub const FOLLOW_WAIT_MS_MAX: u64 = 10_000;
/// Longest wait for the disk in each step of a promotion; each fleet's new term is a step.
pub const PROMOTION_MS_MAX: u64 = 10_000;
/// Interval at which a promoted server tries to fence the previous leader.
pub const FENCE_INTERVAL_MS: u64 = 250;
/// A leader that has had followers takes no changes for so long after its start: a server that was
/// promoted in its place fences it meanwhile.
pub const FENCE_WAIT_MS: u64 = 1_500;
/// Longest wait for an answer of the leader before a promotion, and for that of a server that is to
/// be fenced.
pub const LEADER_ANSWER_MS_MAX: u64 = 1_000;
