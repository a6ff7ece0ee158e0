//! How is a session read through connections that break?
//!
//! Every message brings the token to go on with; when the stream breaks it is opened again with it,
//! for as long as the timeout. The regions are said again too, in case the server knows the session
//! no more. What a refusal is not cured by is told at once.

use std::time::{Duration, Instant};

use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use super::answer::AnswerRow;
use super::connection::Connection;
use crate::cli::connection::ConnectionArgs;
use crate::cli::error::CliError;

/// Between two attempts to go on.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// A server that says nothing for so long is gone: it should every second.
const SILENCE_MIN: Duration = Duration::from_secs(5);

/// A session that is read.
#[derive(Debug)]
pub struct Watch {
    args: ConnectionArgs,
    request: v1::SubscribeRequest,
    session: Vec<u8>,
    connection: Connection,
    stream: Streaming<v1::SubscribeResponse>,
}

impl Watch {
    /// Opens a session.
    ///
    /// # Errors
    /// Those of the connection and the server.
    pub async fn open(
        args: &ConnectionArgs,
        request: v1::SubscribeRequest,
    ) -> Result<Self, CliError> {
        let (connection, stream) = begin(args, &request).await?;
        Ok(Self { args: args.clone(), request, session: Vec::new(), connection, stream })
    }

    /// The next message.
    ///
    /// # Errors
    /// Those of the server, once going on is hopeless.
    pub async fn next(&mut self) -> Result<Kind, CliError> {
        loop {
            let silence = self.args.timeout.max(SILENCE_MIN);
            let error = match tokio::time::timeout(silence, self.stream.message()).await {
                Ok(Ok(Some(message))) => {
                    self.request.resume_token = message.resume_token;
                    match message.kind {
                        Some(Kind::Opened(opened)) => self.session = opened.session,
                        Some(kind) => return Ok(kind),
                        // Of a later version.
                        None => {}
                    }
                    continue;
                }
                Ok(Ok(None)) => return Err(CliError::Answer("the stream ended".to_owned())),
                Ok(Err(status)) if is_final(&status) => return Err(status.into()),
                Ok(Err(status)) => status.into(),
                Err(_) => self.connection.silent(),
            };
            eprintln!("{error}; going on");
            self.go_on(error).await?;
        }
    }

    async fn go_on(&mut self, mut error: CliError) -> Result<(), CliError> {
        let until = Instant::now() + self.args.timeout;
        while Instant::now() < until {
            match begin(&self.args, &self.request).await {
                Ok((connection, stream)) => {
                    (self.connection, self.stream) = (connection, stream);
                    return Ok(());
                }
                Err(CliError::Refused(status)) if is_final(&status) => {
                    return Err(CliError::Refused(status));
                }
                Err(again) => error = again,
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        Err(error)
    }

    /// Ends the session at the server, which would end it in a while by itself.
    pub async fn close(self) {
        let request = v1::ModifyRequest {
            fleet: self.request.fleet,
            session: self.session,
            close: true,
            ..Default::default()
        };
        let request = self.connection.request(request);
        // A server that is gone has no session either.
        let _ = self.connection.wait(self.connection.subscriptions().modify(request)).await;
    }
}

async fn begin(
    args: &ConnectionArgs,
    request: &v1::SubscribeRequest,
) -> Result<(Connection, Streaming<v1::SubscribeResponse>), CliError> {
    let connection = Connection::open(args).await?;
    let mut client = connection.subscriptions();
    // Without a deadline: it would end the stream.
    let stream = connection.wait(client.subscribe(request.clone())).await?.into_inner();
    Ok((connection, stream))
}

/// Whether trying again cannot help: somebody decided so.
fn is_final(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled => false,
        Code::ResourceExhausted => status.get_error_details().retry_info().is_none(),
        _ => true,
    }
}

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Name of the kind, as in `left`; `present` for a member.
    pub event: &'static str,
    /// When.
    pub epoch: u64,
    /// To whom, and the record.
    pub row: AnswerRow,
}

/// The events of a message, and the fleet's clock.
///
/// # Errors
/// [`CliError::Answer`] for lists of unequal length.
pub fn events_of(kind: Kind) -> Result<(i64, Vec<EventRow>), CliError> {
    let mut rows = Vec::new();
    let clock_ms = match kind {
        Kind::Snapshot(chunk) => {
            for of in chunk.regions {
                let names = vec!["present"; of.objects.len()];
                add(&mut rows, chunk.epoch, &names, of.objects, of.fixes)?;
            }
            chunk.clock_ms
        }
        Kind::Events(batch) => {
            for of in batch.regions {
                let names: Vec<_> = of.kinds().map(name).collect();
                add(&mut rows, batch.epoch, &names, of.objects, of.fixes)?;
            }
            batch.clock_ms
        }
        _ => 0,
    };
    Ok((clock_ms, rows))
}

fn add(
    rows: &mut Vec<EventRow>,
    epoch: u64,
    names: &[&'static str],
    objects: Vec<u64>,
    fixes: Vec<v1::FixRecord>,
) -> Result<(), CliError> {
    if names.len() != objects.len() || (!fixes.is_empty() && fixes.len() != objects.len()) {
        let (kinds, fixes, objects) = (names.len(), fixes.len(), objects.len());
        let reason = format!("{kinds} kinds and {fixes} fixes beside {objects} objects");
        return Err(CliError::Answer(reason));
    }
    let mut fixes = fixes.into_iter();
    for (event, object) in names.iter().zip(objects) {
        let row = AnswerRow { object, fix: fixes.next(), distance_m: None };
        rows.push(EventRow { event, epoch, row });
    }
    Ok(())
}

/// A kind for people and scripts.
fn name(kind: v1::EventKind) -> &'static str {
    match kind {
        v1::EventKind::Unspecified => "unknown",
        v1::EventKind::Enter => "enter",
        v1::EventKind::Move => "move",
        v1::EventKind::Cross => "cross",
        v1::EventKind::Left => "left",
        v1::EventKind::Removed => "removed",
        v1::EventKind::Expired => "expired",
        v1::EventKind::Filtered => "filtered",
        v1::EventKind::RegionChanged => "region_changed",
        v1::EventKind::Cleared => "cleared",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_named_and_unequal_lists_refused() {
        let of = v1::RegionEvents {
            region_id: 1,
            objects: vec![3, 4],
            kinds: vec![v1::EventKind::Enter.into(), v1::EventKind::Expired.into()],
            fixes: Vec::new(),
        };
        let batch =
            |of| v1::EventBatch { epoch: 9, clock_ms: 5, regions: vec![of], ..Default::default() };
        let (clock_ms, events) = events_of(Kind::Events(batch(of.clone()))).unwrap();
        let told: Vec<_> = events.iter().map(|of| (of.event, of.row.object, of.epoch)).collect();
        assert_eq!((clock_ms, told), (5, vec![("enter", 3, 9), ("expired", 4, 9)]));
        let torn = v1::RegionEvents { objects: vec![1], ..of };
        let error = events_of(Kind::Events(batch(torn))).unwrap_err().to_string();
        assert!(error.contains("2 kinds and 0 fixes beside 1 objects"), "{error}");
        assert!(events_of(Kind::Progress(v1::Progress::default())).unwrap().1.is_empty());
    }

    #[test]
    fn what_was_decided_is_not_tried_again() {
        for status in [Status::unavailable(""), Status::unknown(""), Status::cancelled("")] {
            assert!(!is_final(&status), "{status:?}");
        }
        for status in [Status::not_found(""), Status::aborted(""), Status::invalid_argument("")] {
            assert!(is_final(&status), "{status:?}");
        }
        let busy = crate::ServiceError::Busy { what: "it", limit: 1, retry_ms: 5 };
        assert!(!is_final(&busy.into()) && is_final(&Status::resource_exhausted("")));
    }
}
