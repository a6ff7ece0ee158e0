//! `LogService.Follow` at a leader: reads the log behind the writer and streams it.
//!
//! Only what is synced is read, from the files: memory for a slow follower does not grow. A frame
//! is sent with the checksum that the log has for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shoal_position_log::{EpochState, FrameKind, LogError, LogReader, Position, ReadMode, Terms};
use shoal_proto::v1;
use shoal_proto::v1::follow_request::Kind as RequestKind;
use shoal_proto::v1::follow_response::Kind;
use tonic::{Request, Status, Streaming};
use tracing::{info, warn};

use super::chunk_stream::{ChunkSender, ChunkStream, NotTaken};
use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{FOLLOW_PART_BYTES, FOLLOW_PROGRESS_MS};
use crate::persistence::{FleetFolder, FleetLog};

/// The log on its way to a follower.
pub type FollowStream = ChunkStream<v1::FollowResponse>;
type Sender = ChunkSender<v1::FollowResponse>;
/// Bytes of frames that are read at once; a larger frame is read alone.
const READ_BYTES: usize = 2 << 20;

/// What is sent of a frame.
enum Sent {
    Group { payload: Bytes, crc: u32, term: u64 },
    Term { term: u64, epoch: u64 },
}

/// A follower's connection.
struct Connection {
    log: Arc<FleetLog>,
    follower: String,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.log.followers().disconnect(&self.follower);
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
    let (fleet, folder) = context.find_log(&call, &start.fleet, &start.fleet_id)?;
    let log = fleet.log().cloned().ok_or(ServiceError::NoLog)?;
    context.replication.expect_followers().await?;
    let context = context.clone();
    Ok(ChunkStream::spawn(|sender| async move {
        let _open = open;
        let connection = Connection { log: log.clone(), follower: start.follower.clone() };
        log.followers().connect(&start.follower, start.epoch);
        info!(fleet = %fleet.name(), follower = start.follower, epoch = start.epoch, "followed");
        tokio::select! {
            sent = stream(&fleet, folder, &connection, &start, &sender) => sent,
            () = acknowledged(&connection, requests) => Ok(Ok(())),
            () = context.stopped() => Ok(Err(ServiceError::ShuttingDown.into())),
            error = fleet.clone().ended() => Ok(Err(error.into())),
        }
    }))
}

/// Reads acknowledgements until the follower leaves.
async fn acknowledged(connection: &Connection, mut requests: Streaming<v1::FollowRequest>) {
    while let Ok(Some(request)) = requests.message().await {
        if let Some(RequestKind::DurableEpoch(epoch)) = request.kind {
            connection.log.followers().acknowledge(&connection.follower, epoch);
        }
    }
}

async fn stream(
    fleet: &Fleet,
    folder: FleetFolder,
    connection: &Connection,
    start: &v1::FollowStart,
    sender: &Sender,
) -> Result<Result<(), Status>, NotTaken> {
    let after_epoch = start.epoch;
    let (verdict, last_epoch) =
        judge(&fleet.terms(), start, connection.log.reading().durable_epoch);
    let opened = blocking(move || folder.read_log(after_epoch, ReadMode::Through(0))).await;
    let (verdict, reader) = match opened {
        _ if verdict != v1::FollowState::Continues => (verdict, None),
        Ok(reader) => (verdict, Some(reader)),
        Err(ServiceError::Log(LogError::Gap { .. })) => (v1::FollowState::Behind, None),
        Err(error) => return Ok(Err(error.into())),
    };
    let state = verdict.into();
    send(sender, Kind::Verdict(v1::FollowVerdict { state, last_epoch })).await?;
    let Some(mut reader) = reader else { return Ok(Ok(())) };
    let mut readings = connection.log.subscribe();
    loop {
        let reading = readings.borrow_and_update().clone();
        let position = reading.position;
        let read = blocking(move || {
            let frames = read_frames(&mut reader, position, after_epoch)?;
            Ok::<_, ServiceError>((reader, frames))
        });
        let frames;
        (reader, frames) = match read.await {
            Ok(read) => read,
            Err(error) => {
                // Segments of a follower that is too far behind are recycled while it reads them.
                warn!(fleet = %fleet.name(), follower = connection.follower, %error,
                      "a follower's stream ends");
                return Ok(Err(error.into()));
            }
        };
        for frame in frames {
            send_frame(sender, frame, reading.durable_epoch).await?;
        }
        if reader.position().sequence < position.sequence {
            continue;
        }
        let (durable_epoch, clock_ms) = (reading.durable_epoch, reading.clock_ms);
        send(sender, Kind::Progress(v1::FollowProgress { durable_epoch, clock_ms })).await?;
        let has_more = readings.wait_for(|next| next.position.sequence > position.sequence);
        // An error means that nothing more was written.
        let _ = tokio::time::timeout(Duration::from_millis(FOLLOW_PROGRESS_MS), has_more).await;
    }
}

/// Whether the log continues behind a follower's position.
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

/// The next frames up to a position with cycles and terms after an epoch.
fn read_frames(
    reader: &mut LogReader,
    to: Position,
    after_epoch: u64,
) -> Result<Vec<Sent>, ServiceError> {
    reader.read_through(to);
    let (mut frames, mut bytes) = (Vec::new(), 0);
    while bytes < READ_BYTES {
        let Some(frame) = reader.next_frame()? else { break };
        let header = frame.header;
        if header.kind == FrameKind::Cycles as u16 && header.epoch_last > after_epoch {
            bytes += frame.payload().len();
            let payload = Bytes::copy_from_slice(frame.payload());
            frames.push(Sent::Group { payload, crc: header.payload_crc, term: header.term });
        } else if header.kind == FrameKind::Start as u16 && header.epoch_last >= after_epoch {
            frames.push(Sent::Term { term: header.term, epoch: header.epoch_last });
        }
    }
    Ok(frames)
}

async fn send_frame(sender: &Sender, frame: Sent, durable_epoch: u64) -> Result<(), NotTaken> {
    match frame {
        Sent::Term { term, epoch } => send(sender, Kind::Term(v1::TermStart { term, epoch })).await,
        Sent::Group { mut payload, crc, term } => {
            while !payload.is_empty() {
                let data = payload.split_to(payload.len().min(FOLLOW_PART_BYTES));
                let last = payload.is_empty();
                let part = v1::GroupPart { data, last, crc, term, durable_epoch };
                send(sender, Kind::Group(part)).await?;
            }
            Ok(())
        }
    }
}

async fn send(sender: &Sender, kind: Kind) -> Result<(), NotTaken> {
    sender.send(v1::FollowResponse { kind: Some(kind) }).await
}

/// Runs work that blocks beside the tasks.
async fn blocking<T: Send + 'static, E: Into<ServiceError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ServiceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(ServiceError::ShuttingDown),
    }
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
