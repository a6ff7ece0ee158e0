//! `SubscriptionService.Subscribe`: opens a session and reads it, or goes on reading one.
//!
//! All regions of a new session are judged before it is opened; its stream begins when the engine
//! has taken them. Who comes back too late gets a new session, if it says which regions it wants.

use std::sync::Arc;

use bytes::Bytes;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::{GapReason, SubscribeRequest};
use tonic::{Request, Response};

use super::deadline::Deadline;
use super::door::Door;
use super::duration::{duration, millis};
use super::region_subscription::subscription;
use super::remove::at_most;
use super::session_stream::{Reading, SessionStream};
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::REGION_CHANGES_MAX;
use crate::subscription::{Attached, ResumeToken, Session, SessionHandle, Wanted, unnumbered};

/// Regions that are judged before other calls get their turn.
pub(super) const JUDGED_AT_ONCE: usize = 256;

pub(super) async fn subscribe(
    door: &Arc<Door>,
    request: Request<SubscribeRequest>,
) -> Result<Response<SessionStream>, ServiceError> {
    let open = door.open_stream().map_err(|error| door.count(error))?;
    let deadline = Deadline::of(request.metadata());
    let request = request.into_inner();
    at_most("regions", request.regions.len(), "regions", REGION_CHANGES_MAX)?;
    let fleet = door.registry.find_requested("fleet", &request.fleet)?;
    let (reading, first) = match way(door, &fleet, &request)? {
        Way::On(begun) => begun,
        Way::Anew(gap) => {
            let opening = begin(&fleet, request, gap);
            deadline.bound(opening).await.map_err(|error| door.count(error))?
        }
    };
    Ok(Response::new(SessionStream::new(door.clone(), open, deadline, reading, first)))
}

/// The first messages of a stream, and who reads it.
type Begun = (Reading, Vec<Bytes>);

/// How a stream begins.
enum Way {
    /// It goes on with a session.
    On(Begun),
    /// A session is to be opened; in place of one that is no more, if there is a reason.
    Anew(Option<GapReason>),
}

fn way(door: &Door, fleet: &Arc<Fleet>, request: &SubscribeRequest) -> Result<Way, ServiceError> {
    if request.resume_token.is_empty() {
        return Ok(Way::Anew(None));
    }
    let token = ResumeToken::parse(&request.resume_token)?;
    door.registry.check_session_fleet(&token.handle, fleet)?;
    let can_begin = !request.regions.is_empty();
    if token.handle.term != fleet.term() {
        let (name, term) = (fleet.name().as_str().to_owned(), fleet.term());
        return if can_begin {
            Ok(Way::Anew(Some(GapReason::Term)))
        } else {
            Err(ServiceError::TokenTerm { fleet: name, term })
        };
    }
    let attached = fleet.sessions().find(&token.handle).and_then(|session| {
        let attached = session.attach(token.sequence)?;
        Ok((session, attached))
    });
    match attached {
        Ok((session, attached)) => Ok(Way::On(go_on(fleet, session, attached, token.sequence))),
        Err(ServiceError::SessionGone) if can_begin => Ok(Way::Anew(Some(GapReason::Session))),
        Err(error) => Err(error),
    }
}

fn go_on(fleet: &Arc<Fleet>, session: Arc<Session>, attached: Attached, sequence: u64) -> Begun {
    let Attached { reader, gap, snapshots } = attached;
    fleet.sessions().chores.snapshot(snapshots);
    let sequence = gap.map_or(sequence, |next| next - 1);
    let mut first = vec![opened(fleet, &session, sequence, None)];
    if let Some(next) = gap {
        first.push(gap_message(&session.handle, GapReason::Retention, next));
    }
    (Reading::new(fleet.clone(), session, reader), first)
}

/// Opens a session with the regions of the request.
async fn begin(
    fleet: &Arc<Fleet>,
    request: SubscribeRequest,
    gap: Option<GapReason>,
) -> Result<Begun, ServiceError> {
    let mut wanted = Vec::with_capacity(request.regions.len());
    for (index, sent) in request.regions.iter().enumerate() {
        let judged = subscription(fleet.space(), sent);
        let subscription = judged.map_err(|error| error.under(&format!("regions[{index}]")))?;
        let (region_id, snapshot) = (sent.region_id, sent.snapshot);
        wanted.push(Wanted::Add { region_id, subscription, snapshot });
        if index % JUDGED_AT_ONCE == JUDGED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    let retention_ms = millis("retention", request.retention.as_ref())?;
    let session =
        fleet.sessions().open(retention_ms.map(i64::unsigned_abs))?.ok_or_else(|| fleet.gone())?;
    // From here on the session ends with this call unless its stream begins.
    let reading = Reading::new(fleet.clone(), session, 1);
    let mut epoch = fleet.view().epoch;
    if !wanted.is_empty() {
        let changed = fleet.change_regions(reading.session(), wanted)?;
        if let Some((index, error)) = first_failure(changed.failures) {
            return Err(error.under(&format!("regions[{index}]")));
        }
        epoch = fleet.changed_epoch(changed.pending).await?;
    }
    let handle = reading.session().handle;
    let mut first = vec![opened(fleet, reading.session(), 0, Some(epoch))];
    first.extend(gap.map(|reason| gap_message(&handle, reason, 1)));
    Ok((reading, first))
}

fn first_failure(failures: Vec<Option<ServiceError>>) -> Option<(usize, ServiceError)> {
    failures.into_iter().enumerate().find_map(|(index, failure)| Some((index, failure?)))
}

/// `epoch` is that of a new session.
fn opened(fleet: &Fleet, session: &Session, sequence: u64, epoch: Option<u64>) -> Bytes {
    let opened = v1::SessionOpened {
        session: session.handle.to_bytes().to_vec(),
        fleet: fleet.name().as_str().to_owned(),
        term: fleet.term(),
        epoch: epoch.unwrap_or(0),
        resumed: epoch.is_none(),
        retention: Some(duration(session.retention.as_millis() as u64)),
    };
    unnumbered(&session.handle, sequence, Kind::Opened(opened))
}

fn gap_message(handle: &SessionHandle, reason: GapReason, next_sequence: u64) -> Bytes {
    let gap = v1::Gap { reason: reason.into(), next_sequence };
    unnumbered(handle, next_sequence - 1, Kind::Gap(gap))
}
