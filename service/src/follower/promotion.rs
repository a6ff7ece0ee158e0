//! Makes a follower a leader: every fleet begins a term at its last epoch.
//!
//! If a fleet cannot, the server follows again. The new role is made durable first, so that a
//! restart keeps it. After a crash before a term has begun, recovery begins the term, as after any
//! crash of a leader.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shoal_client::ServerError;
use shoal_proto::v1;
use tracing::{error, info};

use super::fence;
use super::fleet_list::identity;
use super::replication::Replication;
use crate::error::ServiceError;
use crate::fleet::{Fleet, FleetState, Followed, Role};
use crate::limits::{
    FOLLOW_RECORD_WAIT_MS, LEADER_ANSWER_MS_MAX, LOG_RETRY_MS, PROMOTION_MS_MAX,
    RECOVERY_PROGRESS_MS,
};
use crate::persistence::{NewTerm, StoredRole, random};
use crate::threads::blocking;

/// Why a promotion failed.
struct Failure {
    error: ServiceError,
    /// Fleets that may have begun a term; `None` if the role was certainly not stored, so that
    /// nothing must be undone.
    begun: Option<Vec<Arc<Fleet>>>,
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self { error, begun: None }
    }
}

impl Replication {
    /// See `LogService.Promote`. Returns the new terms.
    ///
    /// # Errors
    /// [`ServiceError::NotFollower`], [`ServiceError::LeaderReachable`],
    /// [`ServiceError::NotPromoted`].
    pub(crate) async fn promote(
        self: &Arc<Self>,
        force: bool,
    ) -> Result<Vec<NewTerm>, ServiceError> {
        let _changing = self.changing.lock().await;
        self.registry.check_ready()?;
        if self.is_undoing.load(Ordering::SeqCst) {
            return Err(ServiceError::Recovering { retry_ms: RECOVERY_PROGRESS_MS });
        }
        let leader = self.registry.leader().ok_or(ServiceError::NotFollower)?;
        if !force && self.is_reachable(&leader).await {
            return Err(ServiceError::LeaderReachable { leader: leader.to_string() });
        }
        let failed = |error| ServiceError::NotPromoted(Box::new(error));
        // Check the fleets before anything is interrupted.
        let fleets = self.registry.list();
        in_time("reading the list of fleets", self.check_complete(&fleets))
            .await
            .map_err(failed)?;
        self.stop().await;
        let terms = match self.take_over().await {
            Ok(terms) => terms,
            Err(Failure { error, begun }) => {
                self.registry.end_promotion();
                self.undo(begun);
                return Err(failed(error));
            }
        };
        self.registry.lead();
        self.registry.end_promotion();
        info!(former = %leader, "promoted: this server is the leader");
        let (registry, link) = (self.registry.clone(), self.link.clone());
        self.run(|stop| fence::deliver(registry, link, stop));
        Ok(terms)
    }

    /// Begins a term of every fleet.
    async fn take_over(self: &Arc<Self>) -> Result<Vec<NewTerm>, Failure> {
        let settled = async {
            self.registry.begin_promotion().await;
            Ok(())
        };
        in_time("a change of the list of fleets", settled).await?;
        let fleets = self.registry.list();
        in_time("reading the list of fleets", self.check_complete(&fleets)).await?;
        let replaced = fleets.iter().filter_map(|it| Some((identity(it)?, it.terms().current())));
        let replaced: Vec<_> = replaced.collect();
        let stored = self.change_role(|role| {
            role.role = StoredRole::Promoted;
            (role.is_fence_pending, role.replaced) = (!replaced.is_empty(), replaced);
        });
        let stored = in_time("storing the role of the server", stored).await;
        stored.map_err(|error| Failure { error, begun: Some(Vec::new()) })?;
        let mut terms = Vec::new();
        for fleet in &fleets {
            match begin_term(fleet).await {
                Ok(term) => terms.push(term),
                Err(error) => {
                    error!(fleet = %fleet.name(), %error, "the fleet is not promoted");
                    let begun = Some(fleets[..=terms.len()].to_vec());
                    return Err(Failure { error, begun });
                }
            }
        }
        for fleet in &fleets {
            fleet.set_role(Role::Leader { opens: None });
        }
        Ok(terms)
    }

    /// Confirms that every fleet of the list runs and that its log takes cycles.
    async fn check_complete(&self, fleets: &[Arc<Fleet>]) -> Result<(), ServiceError> {
        let data = self.registry.data().cloned().ok_or(ServiceError::NoLog)?;
        let listed = blocking(move || data.fleets()).await?;
        let running: BTreeSet<_> = fleets.iter().filter_map(|fleet| identity(fleet)).collect();
        for (name, _, folder) in listed {
            if !running.contains(&folder.identity.id) {
                return Err(self.registry.unknown(&name));
            }
        }
        for fleet in fleets {
            if fleet.state() != FleetState::Running {
                return Err(fleet.gone());
            }
            fleet.log().ok_or(ServiceError::NoLog)?.check()?;
        }
        Ok(())
    }

    /// Undoes a promotion that failed, then follows the leader again. Runs as a task, because the
    /// disk may not answer. Only a shutdown waits for this task, and only for a bounded time.
    fn undo(self: &Arc<Self>, begun: Option<Vec<Arc<Fleet>>>) {
        let Some(fleets) = begun else { return self.resume() };
        let replication = self.clone();
        self.is_undoing.store(true, Ordering::SeqCst);
        self.run(|mut stop| async move {
            let stopped = async {
                // An error means that the server has ended.
                let _ = stop.wait_for(|stop| *stop).await;
                tokio::time::sleep(Duration::from_millis(FOLLOW_RECORD_WAIT_MS)).await;
            };
            tokio::select! {
                () = replication.turn_back(&fleets) => {}
                () = stopped => return,
            }
            replication.resume();
            replication.is_undoing.store(false, Ordering::SeqCst);
        });
    }

    /// Stores the role of a follower again, and restarts the fleets that may have begun a term. The
    /// leader does not know that term, so these fleets are copied again.
    async fn turn_back(&self, fleets: &[Arc<Fleet>]) {
        loop {
            let stored = self.change_role(|role| {
                role.role = StoredRole::Follower;
                role.is_fence_pending = false;
                role.replaced.clear();
            });
            let Err(error) = stored.await else { break };
            error!(%error, "the data folder still says that this server was promoted");
            tokio::time::sleep(Duration::from_millis(LOG_RETRY_MS)).await;
        }
        for fleet in fleets {
            if self.is_ending.load(Ordering::SeqCst) {
                return;
            }
            if let Err(error) = self.registry.restart(fleet).await {
                error!(fleet = %fleet.name(), %error, "the fleet is not started again");
                self.registry.set_copying(&fleet.name(), false);
            }
        }
    }

    /// Whether the leader answers. An answer that says that it is still starting counts.
    async fn is_reachable(&self, leader: &str) -> bool {
        use v1::ErrorReason as Reason;
        let leader_id = self.registry.data().map_or(0, |data| data.role().leader_id);
        let asked = async {
            let client = self.link.connect(leader).await.ok()?;
            Some(client.log_service().describe_logs(v1::DescribeLogsRequest {}).await)
        };
        let timeout = Duration::from_millis(LEADER_ANSWER_MS_MAX);
        match tokio::time::timeout(timeout, asked).await.ok().flatten() {
            None => false,
            Some(Ok(answer)) => leader_id == 0 || answer.get_ref().server_id == leader_id,
            // A proxy in front of a dead leader answers with an error that has no `ErrorReason`.
            Some(Err(status)) => !matches!(
                ServerError::from(status).reason(),
                None | Some(Reason::Follower | Reason::Fenced | Reason::NoLog)
            ),
        }
    }
}

/// The result of a step of a promotion, if the disk answers in time.
async fn in_time<T>(
    what: &str,
    work: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, ServiceError> {
    let time = Duration::from_millis(PROMOTION_MS_MAX);
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        let why = format!("it did not end within {PROMOTION_MS_MAX} ms");
        Err(ServiceError::Io { what: what.to_owned(), source: io::Error::other(why) })
    })
}

/// Begins a term of a fleet and waits until that is durable.
async fn begin_term(fleet: &Arc<Fleet>) -> Result<NewTerm, ServiceError> {
    let (log, folder) = fleet.log().zip(fleet.folder()).ok_or(ServiceError::NoLog)?;
    let term = random()?;
    let began = async {
        fleet.follow(Followed::Lead { term }).await?;
        tokio::select! {
            began = log.in_term(term) => began,
            ended = fleet.clone().ended() => Err(ended),
        }
    };
    let time = Duration::from_millis(PROMOTION_MS_MAX);
    let began = tokio::time::timeout(time, began).await;
    let name = fleet.name().as_str().to_owned();
    began.unwrap_or_else(|_| {
        let why = format!("its disk did not answer within {PROMOTION_MS_MAX} ms");
        Err(ServiceError::LogFailed { fleet: name.clone(), why })
    })?;
    let last = fleet.terms().past().last().map_or(0, |past| past.last_epoch);
    info!(fleet = name, term, epoch = last, "a term begins");
    Ok(NewTerm { name, id: folder.identity.id, term, epoch: last })
}
