//! Makes a follower a leader: every fleet begins a term at its last epoch.
//!
//! The role is durable first, so that no restart turns it back. A crash before a term has begun is
//! like any crash of a leader: recovery begins the term.

use std::sync::Arc;
use std::time::Duration;

use shoal_proto::v1;
use tonic::Code;
use tracing::{error, info};

use super::fence;
use super::fleet_list::identity;
use super::leader_link::LeaderLink;
use super::replication::Replication;
use crate::error::ServiceError;
use crate::fleet::{Fleet, Followed, Role};
use crate::limits::LEADER_ANSWER_MS_MAX;
use crate::persistence::{LogCondition, NewTerm, StoredRole, random};

impl Replication {
    /// See `LogService.Promote`. Returns the new terms.
    ///
    /// # Errors
    /// [`ServiceError::NotFollower`], [`ServiceError::LeaderReachable`], [`ServiceError::Log`].
    pub(crate) async fn promote(&self, force: bool) -> Result<Vec<NewTerm>, ServiceError> {
        let _changing = self.changing.lock().await;
        self.registry.check_ready()?;
        let leader = self.registry.leader().ok_or(ServiceError::NotFollower)?;
        if !force && is_reachable(&self.link, &leader).await {
            return Err(ServiceError::LeaderReachable { leader: leader.to_string() });
        }
        self.stop().await;
        self.registry.copies_settled().await;
        let fleets = self.registry.list();
        let replaced = fleets.iter().filter_map(|it| Some((identity(it)?, it.terms().current())));
        let replaced: Vec<_> = replaced.collect();
        self.change_role(|role| {
            role.role = StoredRole::Promoted;
            (role.is_fence_pending, role.replaced) = (true, replaced);
        })
        .await?;
        let mut terms = Vec::new();
        for fleet in self.registry.list() {
            match lead(&fleet).await {
                Ok(term) => terms.push(term),
                Err(error) => error!(fleet = %fleet.name(), %error, "the fleet is not promoted"),
            }
        }
        self.registry.lead();
        info!(former = %leader, "promoted: this server is the leader");
        let (registry, link) = (self.registry.clone(), self.link.clone());
        self.run(|stop| fence::deliver(registry, link, stop));
        Ok(terms)
    }
}

/// Begins a term of a fleet and waits until that is durable.
async fn lead(fleet: &Arc<Fleet>) -> Result<NewTerm, ServiceError> {
    let (log, folder) = fleet.log().zip(fleet.folder()).ok_or(ServiceError::NoLog)?;
    let term = random()?;
    fleet.follow(Followed::Lead { term }).await?;
    let mut readings = log.subscribe();
    let is_decided = |reading: &crate::persistence::LogReading| {
        reading.term == term || matches!(reading.condition, LogCondition::Failed(_))
    };
    tokio::select! {
        _ = readings.wait_for(is_decided) => {}
        ended = fleet.clone().ended() => return Err(ended),
    }
    log.check()?;
    fleet.set_role(Role::Leader { opens: None });
    let last = fleet.terms().past().last().map_or(0, |past| past.last_epoch);
    let name = fleet.name().as_str().to_owned();
    info!(fleet = name, term, epoch = last, "a term begins");
    Ok(NewTerm { name, id: folder.identity.id, term, epoch: last })
}

/// Whether a leader answers, or starts.
async fn is_reachable(link: &LeaderLink, leader: &str) -> bool {
    let asked = async {
        let client = link.connect(leader).await.ok()?;
        let answer = client.log_service().describe_logs(v1::DescribeLogsRequest {}).await;
        Some(answer.map_or_else(|status| status.code(), |_| Code::Ok))
    };
    let timeout = Duration::from_millis(LEADER_ANSWER_MS_MAX);
    // A server that follows or is fenced answers FAILED_PRECONDITION.
    let code = tokio::time::timeout(timeout, asked).await.ok().flatten();
    code.is_some_and(|code| code != Code::FailedPrecondition)
}
