//! `SubscriptionService.Subscribe`: opens a session and reads it, or resumes one.
//!
//! All regions of a new session are checked before it is opened; its stream begins once the engine
//! has added them. If the session to resume is gone, the client gets a new one if its request has
//! regions.

use std::sync::Arc;

use bytes::Bytes;
use shoal_proto::v1;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::{GapReason, SubscribeRequest};
use tonic::{Request, Response};

use super::checked_fleet::CheckedFleet;
use super::deadline::Deadline;
use super::fleet_message::staleness_message;
use super::position_service::at_most;
use super::region_subscription::{followed, work};
use super::service_context::ServiceContext;
use super::session_stream::{Reader, SessionStream};
use crate::access::Call;
use crate::cycle::FleetName;
use crate::duration::millis;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::REGION_CHANGES_MAX;
use crate::subscription::{
    Attached, RegionRequest, ResumeToken, Session, SessionHandle, SessionOwner, unnumbered,
};

pub(super) async fn subscribe(
    context: &ServiceContext,
    request: Request<SubscribeRequest>,
) -> Result<Response<SessionStream>, ServiceError> {
    let call = Call::of(request.extensions())?;
    let open = context.open_stream(&call)?;
    let deadline = Deadline::of(request.metadata());
    let (request, _charge) = context.message(request).await?;
    at_most("regions", request.regions.len(), "regions", REGION_CHANGES_MAX)?;
    let name = FleetName::of_request("fleet", &request.fleet)?;
    let fleet = context.named_fleet(&call, &name)?;
    let (reader, first) = match attach(context, &call, &fleet, &request)? {
        Start::Resumed(stream) => stream,
        Start::New(gap) => {
            let opening = open_session(context, &call, &fleet, request, gap);
            deadline.bound(opening).await.map_err(|error| context.count(error))?
        }
    };
    let checked = CheckedFleet { call, fleet, name };
    Ok(Response::new(SessionStream::new(context.clone(), checked, open, deadline, reader, first)))
}

/// The reader of a stream, and its first messages.
type Stream = (Reader, Vec<Bytes>);

/// How a stream starts.
enum Start {
    /// Resumes the session of the token.
    Resumed(Stream),
    /// Opens a new session; has the reason if it replaces one that cannot be resumed.
    New(Option<GapReason>),
}

fn attach(
    context: &ServiceContext,
    call: &Call,
    fleet: &Arc<Fleet>,
    request: &SubscribeRequest,
) -> Result<Start, ServiceError> {
    if request.resume_token.is_empty() {
        return Ok(Start::New(None));
    }
    let token = ResumeToken::parse(&request.resume_token)?;
    context.check_session_fleet(call, &token.handle, fleet)?;
    let can_open = !request.regions.is_empty();
    if token.handle.term != fleet.sessions().term() {
        let (name, term) = (fleet.name().as_str().to_owned(), fleet.term());
        return if can_open {
            Ok(Start::New(Some(GapReason::Term)))
        } else {
            Err(ServiceError::TokenTerm { fleet: name, term })
        };
    }
    let attached = fleet.sessions().find(&token.handle, call.account()).and_then(|session| {
        let attached = session.attach(token.sequence)?;
        Ok((session, attached))
    });
    match attached {
        Ok((session, attached)) => {
            Ok(Start::Resumed(resume(fleet, session, attached, token.sequence)))
        }
        Err(ServiceError::SessionGone) if can_open => Ok(Start::New(Some(GapReason::Session))),
        Err(error) => Err(error),
    }
}

fn resume(fleet: &Arc<Fleet>, session: Arc<Session>, attached: Attached, sequence: u64) -> Stream {
    let Attached { reader, gap, snapshots } = attached;
    fleet.sessions().pending.snapshot(session.handle.session, snapshots);
    let sequence = gap.map_or(sequence, |next| next - 1);
    let mut first = vec![opened(fleet, &session, sequence, None)];
    if let Some(next) = gap {
        first.push(gap_message(&session.handle, GapReason::Retention, next));
    }
    (Reader::new(fleet.clone(), session, reader), first)
}

/// Opens a session with the regions of the request.
async fn open_session(
    context: &ServiceContext,
    call: &Call,
    fleet: &Arc<Fleet>,
    request: SubscribeRequest,
    gap: Option<GapReason>,
) -> Result<Stream, ServiceError> {
    let of_fleet = fleet.clone();
    let each = move |index, sent: v1::RegionSubscription| {
        let converted = followed(&of_fleet, &sent);
        let followed = converted.map_err(|error| error.under(&format!("regions[{index}]")))?;
        Ok::<_, ServiceError>(RegionRequest::Add { region_id: sent.region_id, followed })
    };
    let all_work = request.regions.iter().map(work).sum();
    let _in_work = context.reserve_work(call.client(), all_work).await?;
    let converted = context.convert(call.client(), request.regions, work, each).await?;
    let requests = converted.into_iter().collect::<Result<Vec<_>, _>>()?;
    let retention_ms = millis("retention", request.retention.as_ref())?;
    let owner = SessionOwner::new(call)?;
    let session = fleet.open_session(owner, retention_ms.map(i64::unsigned_abs))?;
    let session = session.ok_or_else(|| fleet.gone())?;
    // From here on, dropping `reader` closes the session if the stream never begins.
    let reader = Reader::new(fleet.clone(), session, 1);
    let mut epoch = fleet.view().epoch;
    if !requests.is_empty() {
        let changed = fleet.change_regions(call.client(), reader.session(), requests)?;
        if let Some((index, error)) = first_failure(changed.failures) {
            call.record_quota([&error]);
            return Err(error.under(&format!("regions[{index}]")));
        }
        epoch = fleet.changed_epoch(changed.pending).await?;
    }
    let handle = reader.session().handle;
    let mut first = vec![opened(fleet, reader.session(), 0, Some(epoch))];
    first.extend(gap.map(|reason| gap_message(&handle, reason, 1)));
    Ok((reader, first))
}

fn first_failure(failures: Vec<Option<ServiceError>>) -> Option<(usize, ServiceError)> {
    failures.into_iter().enumerate().find_map(|(index, failure)| Some((index, failure?)))
}

/// The first message of a stream. `epoch` is set for a new session.
fn opened(fleet: &Fleet, session: &Session, sequence: u64, epoch: Option<u64>) -> Bytes {
    let opened = v1::SessionOpened {
        session: session.handle.to_bytes().to_vec(),
        fleet: fleet.name().as_str().to_owned(),
        term: fleet.term(),
        epoch: epoch.unwrap_or(0),
        resumed: epoch.is_none(),
        retention: session.retention.try_into().ok(),
        staleness: fleet.staleness().map(staleness_message),
    };
    unnumbered(&session.handle, sequence, Kind::Opened(opened))
}

fn gap_message(handle: &SessionHandle, reason: GapReason, next_sequence: u64) -> Bytes {
    let gap = v1::Gap { reason: reason.into(), next_sequence };
    unnumbered(handle, next_sequence - 1, Kind::Gap(gap))
}
