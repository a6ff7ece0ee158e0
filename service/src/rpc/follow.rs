//! `LogService.Follow` at a leader: reads the log while it is written and streams it.
//!
//! Only synced data is read, from the files and in parts. All followers share one budget for the
//! parts in memory, so that memory grows neither with the number of followers nor with the size of
//! a frame. A frame is sent with its checksum from the log, which the follower verifies.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shoal_position_log::{
    EpochState, FrameHeader, FrameKind, LogError, LogReader, Position, Terms,
};
use shoal_proto::v1;
use shoal_proto::v1::follow_request::Kind as RequestKind;
use shoal_proto::v1::follow_response::Kind;
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Request, Status, Streaming};
use tracing::{info, warn};

use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{FOLLOW_PART_BYTES, FOLLOW_PROGRESS_MS, FOLLOWER_NAME_BYTES_MAX};
use crate::persistence::{FleetFolder, FleetLog, FollowerPlace};

/// The stream of a log to a follower.
pub type FollowStream = ChunkStream<v1::FollowResponse>;
type Sender = ChunkSender<v1::FollowResponse>;

/// A message that is sent for a frame.
enum Sent {
    Part(v1::GroupPart),
    Term(v1::TermStart),
}

/// The reader of the log, and the header of the frame that is being sent.
struct Source {
    reader: LogReader,
    frame: Option<FrameHeader>,
}

/// The registration of a follower with a fleet; dropping it marks the follower as disconnected.
pub(super) struct Connection {
    log: Arc<FleetLog>,
    follower: String,
    place: FollowerPlace,
}

impl Connection {
    /// Registers a follower that has the cycles up to an epoch; `is_copying` is true if they belong
    /// to an incomplete copy.
    ///
    /// # Errors
    /// [`ServiceError::Field`], [`ServiceError::Limit`].
    pub(super) fn new(
        log: Arc<FleetLog>,
        follower: &str,
        (epoch, is_copying): (u64, bool),
        followers_max: usize,
    ) -> Result<Self, ServiceError> {
        let place = log.followers().connect(follower, (epoch, is_copying), followers_max)?;
        Ok(Self { log, follower: follower.to_owned(), place })
    }

    fn acknowledge(&self, epoch: u64) {
        self.log.followers().acknowledge(&self.follower, &self.place, epoch);
    }

    /// Completes with an error when a newer call of the same follower replaces this one.
    pub(super) async fn replaced(&self) -> ServiceError {
        self.place.replaced().await;
        ServiceError::FollowerReplaced
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.log.followers().disconnect(&self.follower, &self.place);
    }
}

pub(super) async fn follow(
    context: &ServiceContext,
    request: Request<Streaming<v1::FollowRequest>>,
) -> Result<FollowStream, Status> {
    let call = context.replication_call(&request)?;
    let mut requests = request.into_inner();
    let open = context.open_stream(&call)?;
    let first = requests.message().await?.and_then(|request| request.kind);
    let Some(RequestKind::Start(start)) = first else {
        let problem = "the first request must have a position";
        return Err(ServiceError::field("start", problem).into());
    };
    check_name("start.follower", &start.follower)?;
    let (fleet, folder) = context.find_log(&call, &start.fleet, &start.fleet_id)?;
    let log = fleet.log().cloned().ok_or(ServiceError::NoLog)?;
    context.replication.expect_followers().await?;
    // An epoch beyond the end of the log would release cycles that the follower needs.
    let durable = log.reading().durable_epoch;
    let epoch = start.epoch.min(durable);
    let (verdict, _) = judge(&fleet.terms(), &start, durable);
    // A diverging state counts as a copy in progress, so that its epochs do not count as durable.
    let is_copying = start.copying || verdict != v1::FollowState::Continues;
    let max = context.limits.followers_max;
    let connection = Connection::new(log, &start.follower, (epoch, is_copying), max)?;
    let context = context.clone();
    Ok(ChunkStream::spawn(|sender| async move {
        let _open = open;
        info!(fleet = %fleet.name(), follower = start.follower, epoch = start.epoch, "followed");
        tokio::select! {
            sent = stream(&context, &fleet, folder, &connection, &start, &sender) => sent,
            end = acknowledged(&connection, requests) => Ok(end),
            error = connection.replaced() => Ok(Err(error.into())),
            () = context.stopped() => Ok(Err(ServiceError::ShuttingDown.into())),
            error = fleet.clone().ended() => Ok(Err(error.into())),
        }
    }))
}

/// Confirms that a text can name a follower in messages and in the description of a fleet.
pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), ServiceError> {
    let is_valid = (1..=FOLLOWER_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid {
        return Ok(());
    }
    let problem = format!("not 1 to {FOLLOWER_NAME_BYTES_MAX} visible ASCII characters");
    Err(ServiceError::field(field, problem))
}

/// Reads acknowledgements until the follower leaves.
async fn acknowledged(
    connection: &Connection,
    mut requests: Streaming<v1::FollowRequest>,
) -> Result<(), Status> {
    while let Ok(Some(request)) = requests.message().await {
        if let Some(RequestKind::DurableEpoch(epoch)) = request.kind {
            let durable = connection.log.reading().durable_epoch;
            if epoch > durable {
                let problem =
                    format!("{epoch} is beyond the durable epoch of the leader, {durable}");
                return Err(ServiceError::field("durable_epoch", problem).into());
            }
            connection.acknowledge(epoch);
        }
    }
    Ok(())
}

async fn stream(
    context: &ServiceContext,
    fleet: &Fleet,
    folder: FleetFolder,
    connection: &Connection,
    start: &v1::FollowStart,
    sender: &Sender,
) -> Result<Result<(), Status>, NotTaken> {
    let budget = &context.follow_budget;
    let after_epoch = start.epoch;
    let (verdict, last_epoch) =
        judge(&fleet.terms(), start, connection.log.reading().durable_epoch);
    let opened = budget.read(move || folder.stream_log(after_epoch)).await;
    let (verdict, reader) = match opened {
        _ if verdict != v1::FollowState::Continues => (verdict, None),
        Ok(reader) => (verdict, Some(reader)),
        Err(ServiceError::Log(LogError::Gap { .. })) => (v1::FollowState::Behind, None),
        Err(error) => return Ok(Err(error.into())),
    };
    let state = verdict.into();
    send(sender, Kind::Verdict(v1::FollowVerdict { state, last_epoch })).await?;
    let Some(reader) = reader else { return Ok(Ok(())) };
    let mut source = Source { reader, frame: None };
    let mut readings = connection.log.subscribe();
    loop {
        let reading = readings.borrow_and_update().clone();
        let position = reading.position;
        while !source.has_sent(position) {
            let place = budget.part().await;
            let read = budget.read(move || {
                let sent = source.next(position, after_epoch, reading.durable_epoch, place)?;
                Ok::<_, ServiceError>((source, sent))
            });
            let sent;
            (source, sent) = match read.await {
                Ok(read) => read,
                Err(error) => {
                    // If a follower is too far behind, segments that it still reads may be
                    // recycled.
                    warn!(fleet = %fleet.name(), follower = connection.follower, %error,
                          "a follower's stream ends");
                    return Ok(Err(error.into()));
                }
            };
            for sent in sent {
                let kind = match sent {
                    Sent::Part(part) => Kind::Group(part),
                    Sent::Term(term) => Kind::Term(term),
                };
                send(sender, kind).await?;
            }
        }
        let (durable_epoch, clock_ms) = (reading.durable_epoch, reading.clock_ms);
        send(sender, Kind::Progress(v1::FollowProgress { durable_epoch, clock_ms })).await?;
        let has_more = readings.wait_for(|next| next.position.sequence > position.sequence);
        // An error means that nothing was written in this time.
        let _ = tokio::time::timeout(Duration::from_millis(FOLLOW_PROGRESS_MS), has_more).await;
    }
}

/// Compares a follower's position with the terms of the log. Returns whether the log continues
/// there. If the follower diverged, also returns the last common epoch, or 0 if its term is
/// unknown.
fn judge(terms: &Terms, start: &v1::FollowStart, durable_epoch: u64) -> (v1::FollowState, u64) {
    if start.epoch == 0 {
        return (v1::FollowState::Continues, 0);
    }
    match terms.judge(start.term, start.epoch) {
        EpochState::Valid if start.term == terms.current() && start.epoch > durable_epoch => {
            (v1::FollowState::Diverged, durable_epoch)
        }
        EpochState::Valid => (v1::FollowState::Continues, 0),
        EpochState::Lost { last_epoch } => (v1::FollowState::Diverged, last_epoch),
        EpochState::Unknown => (v1::FollowState::Diverged, 0),
    }
}

impl Source {
    /// Whether everything up to a position has been read for sending.
    fn has_sent(&self, to: Position) -> bool {
        self.frame.is_none() && self.reader.position().sequence >= to.sequence
    }

    /// Reads the next parts and terms after `after_epoch`, up to the position `to`: at most
    /// [`FOLLOW_PART_BYTES`] bytes.
    fn next(
        &mut self,
        to: Position,
        after_epoch: u64,
        durable_epoch: u64,
        place: OwnedSemaphorePermit,
    ) -> Result<Vec<Sent>, ServiceError> {
        self.reader.read_through(to);
        let place = Arc::new(place);
        let (mut sent, mut bytes) = (Vec::new(), 0);
        while bytes < FOLLOW_PART_BYTES {
            let Some(frame) = self.frame else {
                let Some(header) = self.reader.next_header()? else { break };
                let is = |kind| header.kind == kind as u16;
                if is(FrameKind::Cycles) && header.epoch_last > after_epoch {
                    self.frame = Some(header);
                } else if is(FrameKind::Start) && header.epoch_last >= after_epoch {
                    let (term, epoch) = (header.term, header.epoch_last);
                    sent.push(Sent::Term(v1::TermStart { term, epoch }));
                }
                continue;
            };
            let part = self.reader.payload_part(FOLLOW_PART_BYTES - bytes)?;
            bytes += part.len();
            let data = Bytes::from_owner(Held { bytes: part.to_vec(), _place: place.clone() });
            let last = self.reader.is_payload_read();
            if last {
                self.frame = None;
            }
            let (crc, term) = (frame.payload_crc, frame.term);
            sent.push(Sent::Part(v1::GroupPart { data, last, crc, term, durable_epoch }));
        }
        Ok(sent)
    }
}

/// The bytes of a part, with their permit from the budget of all followers.
struct Held {
    bytes: Vec<u8>,
    _place: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

async fn send(sender: &Sender, kind: Kind) -> Result<(), NotTaken> {
    sender.send(v1::FollowResponse { kind: Some(kind) }).await
}

#[cfg(test)]
mod tests {
    use shoal_position_log::PastTerm;

    use super::*;

    #[test]
    fn positions_are_judged_by_the_terms() {
        let past = vec![PastTerm { term: 1, last_epoch: 50 }];
        let terms = Terms::new(2, past);
        for (term, epoch, expected) in [
            (9, 0, (v1::FollowState::Continues, 0)),
            (2, 70, (v1::FollowState::Continues, 0)),
            (2, 71, (v1::FollowState::Diverged, 70)),
            (1, 50, (v1::FollowState::Continues, 0)),
            (1, 51, (v1::FollowState::Diverged, 50)),
            (3, 1, (v1::FollowState::Diverged, 0)),
        ] {
            let start = v1::FollowStart { term, epoch, ..v1::FollowStart::default() };
            assert_eq!(judge(&terms, &start, 70), expected, "term {term}, epoch {epoch}");
        }
    }
}
