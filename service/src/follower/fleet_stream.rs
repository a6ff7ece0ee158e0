//! Copies the log of one fleet. The copy continues after the last durable cycle. If the leader
//! cannot continue there, a new copy replaces the fleet.
//!
//! A stream that breaks, or has a wrong checksum, is opened again at the last durable cycle. Cycles
//! already queued for the engine are not applied twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shoal_client::{Client, Transport};
use shoal_position_log::{PastTerm, Terms};
use shoal_proto::v1;
use shoal_proto::v1::follow_response::Kind;
use shoal_proto::v1::log_service_client::LogServiceClient;
use tokio::sync::watch;
use tracing::{info, warn};

use super::fence::parting;
use super::fleet_copy::fetch;
use super::fleet_list::{Backoff, Problem, identity};
use super::group_assembly::GroupAssembly;
use super::leader_stream::LeaderStream;
use crate::cycle::{FleetName, FleetSpec};
use crate::fleet::{Fleet, FleetState, Followed, Following, Registry};
use crate::persistence::FleetLog;

/// A fleet of the leader.
#[derive(Clone, Debug)]
pub(super) struct CopiedFleet {
    pub(super) name: FleetName,
    pub(super) spec: FleetSpec,
    pub(super) id: u128,
    /// Description of the leader's log when the stream began.
    pub(super) log: v1::LogDescription,
}

/// How a stream ended.
enum End {
    /// The leader cannot continue at this position; a checkpoint is needed.
    Behind,
    /// The copy has cycles that the leader does not have.
    Diverged { last_epoch: u64 },
}

/// The steps queued for the engine of a copy.
struct Line {
    fleet: Arc<Fleet>,
    log: Arc<FleetLog>,
    following: Arc<Following>,
    terms: Terms,
    /// Epoch of the last queued cycle.
    epoch: u64,
    /// Epoch of the last queued step.
    passed_epoch: u64,
}

/// What a stream does next.
enum Next {
    /// Follows the existing fleet; copies a missing one.
    Find,
    /// Copies the fleet. The existing one is renamed with the suffix `aside`, or removed.
    Copy { aside: Option<String> },
    /// Receives the log of the leader.
    Follow(Line),
}

/// Copies a fleet until it is aborted, or its engine ends.
pub(super) async fn copy(
    registry: Arc<Registry>,
    newest: watch::Receiver<Client>,
    has_failed: Arc<AtomicBool>,
    copied: CopiedFleet,
    follower: Arc<str>,
) {
    let (mut backoff, mut next) = (Backoff::default(), Next::Find);
    loop {
        let client = newest.borrow().clone();
        let attempt =
            attempt(&registry, &client, &copied, &follower, &mut next, &mut backoff).await;
        if let Err(problem) = attempt {
            warn!(fleet = %copied.name, problem, "the leader's log is not followed");
            has_failed.store(true, Ordering::Relaxed);
        }
        if let Next::Follow(line) = &next
            && line.fleet.state() != FleetState::Running
        {
            return;
        }
        backoff.wait().await;
    }
}

async fn attempt(
    registry: &Arc<Registry>,
    client: &Client,
    copied: &CopiedFleet,
    follower: &str,
    next: &mut Next,
    backoff: &mut Backoff,
) -> Result<(), Problem> {
    let mut service = client.log_service();
    if let Next::Find = next {
        // A copy of this name may be about to replace the fleet.
        registry.settled().await;
        let found = registry.list().into_iter().find(|fleet| fleet.name() == copied.name);
        *next = match found {
            None => Next::Copy { aside: None },
            Some(fleet) if identity(&fleet) == Some(copied.id) => Next::Follow(Line::new(fleet)?),
            // The leader has another fleet of this name.
            Some(fleet) => Next::Copy { aside: Some(format!("replaced-{:016x}", fleet.term())) },
        };
    }
    if let Next::Copy { aside } = next {
        registry.set_copying(&copied.name, true);
        let folder = fetch(registry, &mut service, copied, follower, aside.clone()).await?;
        let CopiedFleet { name, spec, .. } = copied.clone();
        let installed = registry.install_copy(name, spec, folder).await;
        *next = Next::Follow(Line::new(installed.map_err(|error| error.to_string())?)?);
    }
    let Next::Follow(line) = next else { return Ok(()) };
    let aside = match line.receive(&mut service, follower, backoff).await? {
        End::Behind => {
            info!(fleet = %copied.name, "the leader's log begins later; another copy begins");
            None
        }
        End::Diverged { last_epoch } => {
            let term = line.terms.current();
            let epoch = line.log.reading().position.epoch;
            // The leader compares only the last term of this server. If that term began here after
            // a crash, the leader does not know it and answers 0. `parting` compares all terms.
            let common = parting(&line.terms, epoch, &copied.log).unwrap_or(last_epoch);
            warn!(
                fleet = %copied.name, epoch, last_epoch = common,
                epochs = epoch.saturating_sub(common),
                "this server has a term or epochs that the leader does not have: another copy begins"
            );
            Some(format!("diverged-{term:016x}"))
        }
    };
    *next = Next::Copy { aside };
    Ok(())
}

impl Line {
    /// Continues a copy that has no queued steps.
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
        follower: &str,
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
            follower: follower.to_owned(),
            copying: false,
        };
        let mut stream = LeaderStream::open(service, start).await?;
        let mut group = GroupAssembly::default();
        loop {
            let message = tokio::select! {
                message = stream.next() => message?,
                changed = readings.changed() => {
                    changed.map_err(|error| error.to_string())?;
                    stream.acknowledge(readings.borrow_and_update().durable_epoch);
                    continue;
                }
            };
            let is_verdict = matches!(message, Kind::Verdict(_));
            if let Some(end) = self.handle(message, &mut group).await? {
                return Ok(end);
            }
            if !is_verdict {
                *backoff = Backoff::default();
            }
        }
    }

    async fn handle(
        &mut self,
        message: Kind,
        group: &mut GroupAssembly,
    ) -> Result<Option<End>, Problem> {
        match message {
            Kind::Verdict(verdict) => match verdict.state() {
                v1::FollowState::Continues => {}
                v1::FollowState::Behind => return Ok(Some(End::Behind)),
                v1::FollowState::Diverged => {
                    return Ok(Some(End::Diverged { last_epoch: verdict.last_epoch }));
                }
                v1::FollowState::Unspecified => return Err("an unknown verdict".into()),
            },
            Kind::Group(part) => {
                for cycle in group.add(&part, self.epoch)? {
                    self.epoch = cycle.header.epoch;
                    self.passed_epoch = self.epoch;
                    self.fleet.follow_cycle(cycle).await?;
                }
                if part.last && part.durable_epoch > 0 {
                    self.following.heard(part.durable_epoch);
                }
            }
            Kind::Term(v1::TermStart { term, epoch }) => self.begin_term(term, epoch).await?,
            Kind::Progress(v1::FollowProgress { durable_epoch, clock_ms }) => {
                if let Some(clock_ms) = clock_ms.filter(|_| durable_epoch > self.passed_epoch) {
                    self.passed_epoch = durable_epoch;
                    self.step(Followed::Clock { epoch: durable_epoch, clock_ms }).await?;
                }
                self.following.heard(durable_epoch);
            }
        }
        Ok(None)
    }

    async fn begin_term(&mut self, term: u64, last_epoch: u64) -> Result<(), Problem> {
        if self.terms.knows(term) {
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
