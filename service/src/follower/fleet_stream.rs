//! Copies the log of one fleet: continues at the last durable cycle, or begins with a checkpoint.
//!
//! A stream that breaks, or has a wrong checksum, is opened again at the last durable cycle. Cycles
//! that are on their way to the engine are not repeated.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use shoal_client::{Client, Transport};
use shoal_position_log::{CheckpointImport, PastTerm, Terms};
use shoal_proto::v1;
use shoal_proto::v1::follow_request::Kind as RequestKind;
use shoal_proto::v1::follow_response::Kind;
use shoal_proto::v1::log_service_client::LogServiceClient;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tracing::{info, warn};

use super::fence::parting;
use super::fleet_list::{Backoff, Problem, identity};
use super::group_assembly::GroupAssembly;
use crate::error::ServiceError;
use crate::fleet::{Fleet, FleetName, FleetSpec, FleetState, Followed, Following, Registry};
use crate::limits::{FOLLOW_PART_BYTES, FOLLOW_SILENCE_MS};
use crate::persistence::{FleetFolder, FleetLog};

/// A fleet of the leader.
#[derive(Clone, Debug)]
pub(super) struct CopiedFleet {
    pub(super) name: FleetName,
    pub(super) spec: FleetSpec,
    pub(super) id: u128,
    /// As the leader described it when the stream began.
    pub(super) log: v1::LogDescription,
}

/// How a stream ended.
enum End {
    /// The leader cannot continue at this position; a checkpoint is needed.
    Behind,
    /// The copy has cycles that the leader does not have.
    Diverged { last_epoch: u64 },
}

/// What is on its way to the engine of a copy.
struct Line {
    fleet: Arc<Fleet>,
    log: Arc<FleetLog>,
    following: Arc<Following>,
    terms: Terms,
    /// Of the last cycle.
    epoch: u64,
    /// Of the last step.
    passed_epoch: u64,
}

/// Copies a fleet until it is aborted, or its engine ends.
pub(super) async fn copy(
    registry: Arc<Registry>,
    newest: watch::Receiver<Client>,
    copied: CopiedFleet,
    address: SocketAddr,
) {
    let (mut backoff, mut line) = (Backoff::default(), None);
    loop {
        let client = newest.borrow().clone();
        let attempt = attempt(&registry, &client, &copied, address, &mut line, &mut backoff).await;
        if let Err(problem) = attempt {
            warn!(fleet = %copied.name, problem, "the leader's log is not followed");
        }
        if line.as_ref().is_some_and(|line| line.fleet.state() != FleetState::Running) {
            return;
        }
        backoff.wait().await;
    }
}

async fn attempt(
    registry: &Arc<Registry>,
    client: &Client,
    copied: &CopiedFleet,
    address: SocketAddr,
    line: &mut Option<Line>,
    backoff: &mut Backoff,
) -> Result<(), Problem> {
    let failed = |error: ServiceError| error.to_string();
    let mut service = client.log_service();
    let current = match line {
        Some(current) => current,
        None => {
            let found = registry.list().into_iter().find(|fleet| *fleet.name() == copied.name);
            let fleet = match found.filter(|fleet| identity(fleet) == Some(copied.id)) {
                Some(fleet) => fleet,
                None => begin(registry, &mut service, copied).await.map_err(failed)?,
            };
            line.insert(Line::new(fleet)?)
        }
    };
    match current.receive(&mut service, address, backoff).await? {
        End::Behind => {
            let fleet = current.fleet.clone();
            info!(fleet = %copied.name, "the leader's log begins later; the copy begins again");
            *line = None;
            registry.set_copying(&copied.name, true);
            registry.remove_copy(&fleet, None).await.map_err(failed)
        }
        End::Diverged { last_epoch } => {
            let (fleet, term) = (current.fleet.clone(), current.terms.current());
            let epoch = current.log.reading().position.epoch;
            // The leader judges the last term alone, which may have begun after a crash here.
            let common = parting(&current.terms, epoch, &copied.log).unwrap_or(last_epoch);
            warn!(
                fleet = %copied.name, epoch, last_epoch = common,
                epochs = epoch.saturating_sub(common),
                "this server has a term or epochs that the leader does not have: it is set aside"
            );
            *line = None;
            registry.set_copying(&copied.name, true);
            let suffix = format!("diverged-{term:016x}");
            registry.remove_copy(&fleet, Some(suffix)).await.map_err(failed)
        }
    }
}

/// Begins a copy with the leader's newest checkpoint.
async fn begin(
    registry: &Arc<Registry>,
    service: &mut LogServiceClient<Transport>,
    copied: &CopiedFleet,
) -> Result<Arc<Fleet>, ServiceError> {
    let CopiedFleet { name, spec, id, .. } = copied.clone();
    registry.set_copying(&name, true);
    let request = v1::FetchCheckpointRequest {
        fleet: name.as_str().to_owned(),
        fleet_id: id.to_be_bytes().to_vec(),
    };
    let parts =
        service.fetch_checkpoint(request).await.map_err(|status| foreign(&status))?.into_inner();
    let reserve_bytes = registry.limits().log_reserve_bytes;
    registry.add_copy((name, spec, id), |folder| import(folder, parts, reserve_bytes)).await
}

fn foreign(status: &tonic::Status) -> ServiceError {
    let (code, message) = (status.code(), status.message().to_owned());
    ServiceError::Foreign { code, reason: v1::ErrorReason::Transport, message }
}

/// Writes a checkpoint that arrives in parts.
async fn import(
    folder: FleetFolder,
    mut parts: Streaming<v1::FetchCheckpointResponse>,
    reserve_bytes: u64,
) -> Result<(), ServiceError> {
    let mut import = None;
    while let Some(part) = parts.message().await.map_err(|status| foreign(&status))? {
        let folder = folder.clone();
        let appended = tokio::task::spawn_blocking(move || {
            let mut import = match import {
                Some(import) => import,
                None => {
                    let path = folder.checkpoint();
                    CheckpointImport::create(folder.storage, &path, reserve_bytes)?
                }
            };
            import.append(&part.data)?;
            Ok::<_, ServiceError>(import)
        });
        import = Some(appended.await.unwrap_or(Err(ServiceError::ShuttingDown))?);
    }
    let Some(import) = import else { return Ok(()) };
    let finished = tokio::task::spawn_blocking(move || import.finish(&folder.identity));
    let finished = finished.await.map_err(|_| ServiceError::ShuttingDown)?;
    let epoch = finished?;
    info!(epoch, "a checkpoint of the leader is copied");
    Ok(())
}

impl Line {
    /// Continues a copy without steps on their way.
    fn new(fleet: Arc<Fleet>) -> Result<Self, Problem> {
        let log = fleet.log().cloned().ok_or("the copy has no log")?;
        let following = fleet.following().ok_or("the fleet is no copy")?;
        let (terms, epoch) = (fleet.terms(), log.reading().position.epoch);
        Ok(Self { fleet, log, following, terms, epoch, passed_epoch: epoch })
    }

    /// Receives the log until the stream breaks, or the leader cannot continue.
    async fn receive(
        &mut self,
        service: &mut LogServiceClient<Transport>,
        address: SocketAddr,
        backoff: &mut Backoff,
    ) -> Result<End, Problem> {
        let mut readings = self.log.subscribe();
        let reading = readings.borrow_and_update().clone();
        let folder = self.fleet.folder().ok_or("the copy has no files")?;
        let start = v1::FollowStart {
            fleet: self.fleet.name().as_str().to_owned(),
            fleet_id: folder.identity.id.to_be_bytes().to_vec(),
            term: reading.term,
            epoch: reading.position.epoch,
            follower: address.to_string(),
        };
        let request = |kind| v1::FollowRequest { kind: Some(kind) };
        let (sender, requests) = mpsc::channel(2);
        let first = sender.try_send(request(RequestKind::Start(start)));
        first.map_err(|error| error.to_string())?;
        let call = service.follow(ReceiverStream::new(requests));
        let silence = Duration::from_millis(FOLLOW_SILENCE_MS);
        let silent = |_| format!("the leader is silent for {FOLLOW_SILENCE_MS} ms");
        let answer = tokio::time::timeout(silence, call).await.map_err(silent)?;
        let mut messages = answer.map_err(|status| status.message().to_owned())?.into_inner();
        let mut group = GroupAssembly::default();
        loop {
            let message = tokio::select! {
                message = tokio::time::timeout(silence, messages.message()) => message,
                changed = readings.changed() => {
                    changed.map_err(|error| error.to_string())?;
                    let epoch = readings.borrow_and_update().durable_epoch;
                    // A full channel means that a later epoch follows.
                    let _ = sender.try_send(request(RequestKind::DurableEpoch(epoch)));
                    continue;
                }
            };
            let message = message.map_err(silent)?.map_err(|status| status.message().to_owned())?;
            let message = message.ok_or("the leader ended the stream")?;
            if let Some(end) = self.handle(message, &mut group).await? {
                return Ok(end);
            }
            *backoff = Backoff::default();
        }
    }

    async fn handle(
        &mut self,
        message: v1::FollowResponse,
        group: &mut GroupAssembly,
    ) -> Result<Option<End>, Problem> {
        match message.kind {
            Some(Kind::Verdict(verdict)) => match verdict.state() {
                v1::FollowState::Continues => {}
                v1::FollowState::Behind => return Ok(Some(End::Behind)),
                v1::FollowState::Diverged => {
                    return Ok(Some(End::Diverged { last_epoch: verdict.last_epoch }));
                }
                v1::FollowState::Unspecified => return Err("an unknown verdict".into()),
            },
            Some(Kind::Group(part)) => {
                if part.data.len() > 4 * FOLLOW_PART_BYTES {
                    return Err(format!("a part of {} bytes", part.data.len()));
                }
                for cycle in group.add(&part, self.epoch)? {
                    self.epoch = cycle.header.epoch;
                    self.passed_epoch = self.epoch;
                    self.fleet.follow_cycle(cycle).await?;
                }
                if part.last && part.durable_epoch > 0 {
                    self.following.heard(part.durable_epoch);
                }
            }
            Some(Kind::Term(v1::TermStart { term, epoch })) => self.begin_term(term, epoch).await?,
            Some(Kind::Progress(v1::FollowProgress { durable_epoch, clock_ms })) => {
                if let Some(clock_ms) = clock_ms.filter(|_| durable_epoch > self.passed_epoch) {
                    self.passed_epoch = durable_epoch;
                    self.step(Followed::Clock { epoch: durable_epoch, clock_ms }).await?;
                }
                self.following.heard(durable_epoch);
            }
            None => return Err("a message without content".into()),
        }
        Ok(None)
    }

    async fn begin_term(&mut self, term: u64, last_epoch: u64) -> Result<(), Problem> {
        let is_known =
            self.terms.current() == term || self.terms.past().iter().any(|past| past.term == term);
        if is_known {
            return Ok(());
        }
        if last_epoch < self.epoch {
            return Err(format!("a term begins at epoch {last_epoch}, before {}", self.epoch));
        }
        let ended = PastTerm { term: self.terms.current(), last_epoch };
        self.terms.extend(&[ended], term);
        self.passed_epoch = last_epoch;
        self.step(Followed::Term { term, last_epoch }).await
    }

    async fn step(&self, step: Followed) -> Result<(), Problem> {
        self.fleet.follow(step).await.map_err(|error| error.to_string())
    }
}
