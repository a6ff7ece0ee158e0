//! Fences: a promoted server informs the leader before, which then takes no changes.
//!
//! The terms of a fleet say where the histories part. Until the fence arrives, a former leader that
//! clients still reach acknowledges changes that are not part of the fleet: with two servers
//! nothing can prevent that (ARCHITECTURE.md).

use std::sync::Arc;
use std::time::Duration;

use shoal_position_log::Terms;
use shoal_proto::v1;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::fleet_list::identity;
use super::leader_link::LeaderLink;
use super::replication::Replication;
use crate::error::ServiceError;
use crate::fleet::{Fleet, Registry, Role};
use crate::limits::{FENCE_INTERVAL_MS, LEADER_ANSWER_MS_MAX};
use crate::persistence::{NewTerm, RoleRecord};
use crate::rpc::describe_log;

/// Fences the former leader as soon as it answers.
pub(super) async fn deliver(
    registry: Arc<Registry>,
    link: LeaderLink,
    mut stop: watch::Receiver<bool>,
) {
    tokio::select! {
        () = attempts(registry, link) => {}
        // An error means that the server has ended.
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn attempts(registry: Arc<Registry>, link: LeaderLink) {
    let Some(data) = registry.data().cloned() else { return };
    let RoleRecord { leader, replaced, .. } = data.role();
    loop {
        let sending = send(&link, &leader, request(&registry.list(), &replaced));
        let timeout = Duration::from_millis(LEADER_ANSWER_MS_MAX);
        match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(fleets)) => {
                info!(leader, fleets, "the former leader is fenced");
                let data = data.clone();
                let stored = tokio::task::spawn_blocking(move || {
                    data.change_role(|role| {
                        role.is_fence_pending = false;
                        role.replaced.clear();
                    })
                });
                if let Ok(Err(error)) = stored.await {
                    warn!(%error, "the fence is sent again after a restart");
                }
                return;
            }
            Ok(Err(problem)) => debug!(leader, problem, "the former leader is not fenced yet"),
            Err(_) => debug!(leader, "the former leader does not answer"),
        }
        tokio::time::sleep(Duration::from_millis(FENCE_INTERVAL_MS)).await;
    }
}

fn request(fleets: &[Arc<Fleet>], replaced: &[(u128, u64)]) -> v1::FenceRequest {
    let promotion = |fleet: &Arc<Fleet>| {
        let id = identity(fleet)?;
        let (_, ended) = replaced.iter().find(|(other, _)| *other == id)?;
        let (term, epoch) = successor(&fleet.terms(), *ended)?;
        let (fleet, fleet_id) = (fleet.name().as_str().to_owned(), id.to_be_bytes().to_vec());
        Some(v1::FleetTerm { fleet, fleet_id, term, epoch })
    };
    v1::FenceRequest {
        logs: fleets.iter().filter_map(|fleet| describe_log(fleet)).collect(),
        promotions: fleets.iter().filter_map(promotion).collect(),
    }
}

/// The term that began after a term, and the epoch before it; nothing if that term has not ended.
fn successor(terms: &Terms, ended: u64) -> Option<(u64, u64)> {
    let index = terms.past().iter().position(|past| past.term == ended)?;
    let next = terms.past().get(index + 1).map_or(terms.current(), |past| past.term);
    Some((next, terms.past()[index].last_epoch))
}

async fn send(link: &LeaderLink, leader: &str, request: v1::FenceRequest) -> Result<u32, String> {
    let client = link.connect(leader).await?;
    let answer = client.log_service().fence(request).await;
    answer.map(|answer| answer.into_inner().fenced_count).map_err(|status| status.to_string())
}

impl Replication {
    /// See `LogService.Fence`. Returns the number of fleets that are fenced.
    ///
    /// # Errors
    /// [`ServiceError::Log`]: then nothing is fenced.
    pub(crate) async fn fence(&self, request: v1::FenceRequest) -> Result<u32, ServiceError> {
        let _changing = self.changing.lock().await;
        if self.registry.leader().is_some() {
            // A follower takes no changes anyway, and its leader decides what it holds.
            return Ok(0);
        }
        let mut fences: Vec<(Arc<Fleet>, NewTerm)> = Vec::new();
        for fleet in self.registry.list() {
            let fence = fence_of(&fleet, &request);
            fences.extend(fence.map(|fence| (fleet, fence)));
        }
        let terms: Vec<NewTerm> = fences.iter().map(|(_, fence)| fence.clone()).collect();
        self.change_role(move |role| {
            role.fenced.retain(|old| terms.iter().all(|new| new.id != old.id));
            role.fenced.extend(terms);
        })
        .await?;
        for (fleet, NewTerm { term, epoch, .. }) in &fences {
            fleet.set_role(Role::Fenced { term: *term, last_epoch: *epoch });
            let lost = fleet.view().epoch.saturating_sub(*epoch);
            warn!(
                fleet = %fleet.name(), term, last_epoch = epoch, cycles = lost,
                "another server was promoted; this one takes no changes any more"
            );
        }
        Ok(u32::try_from(fences.len()).unwrap_or(u32::MAX))
    }
}

/// The fence of a fleet; nothing if the request does not concern it, or is outdated.
fn fence_of(fleet: &Fleet, request: &v1::FenceRequest) -> Option<NewTerm> {
    let id = identity(fleet)?;
    let is_this = |fleet_id: &[u8]| fleet_id == id.to_be_bytes();
    let log = request.logs.iter().find(|log| is_this(&log.fleet_id))?;
    let promotion = request.promotions.iter().find(|promotion| is_this(&promotion.fleet_id));
    let terms = fleet.terms();
    if promotion.is_some_and(|promotion| terms.knows(promotion.term)) {
        return None;
    }
    let epoch = parting(&terms, fleet.view().epoch, log)?;
    Some(NewTerm { name: fleet.name().as_str().to_owned(), id, term: log.term, epoch })
}

/// The last epoch that a fleet has in common with that of a promoted server; nothing if the fleet
/// has its term.
pub(super) fn parting(terms: &Terms, epoch: u64, log: &v1::LogDescription) -> Option<u64> {
    if terms.knows(log.term) {
        return None;
    }
    let own = terms.past().iter().map(|past| (past.term, past.last_epoch));
    let own: Vec<(u64, u64)> = own.chain([(terms.current(), epoch)]).collect();
    // The newest term that both have; it ends for both at the earlier epoch.
    let common = own.iter().rev().find_map(|(term, own_epoch)| {
        let ended = log.ended_terms.iter().find(|ended| ended.term == *term)?;
        Some(ended.last_epoch.min(*own_epoch))
    });
    Some(common.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use shoal_position_log::PastTerm;

    use super::*;

    #[test]
    fn the_term_of_a_promotion_follows_the_one_that_it_ended() {
        let past = |term, last_epoch| PastTerm { term, last_epoch };
        let terms = Terms::new(4, vec![past(1, 50), past(2, 80), past(3, 90)]);
        assert_eq!(successor(&terms, 1), Some((2, 50)));
        assert_eq!(successor(&terms, 3), Some((4, 90)));
        // The promotion crashed before its term began, or the term is forgotten.
        assert_eq!((successor(&terms, 4), successor(&terms, 9)), (None, None));
    }

    #[test]
    fn histories_part_where_the_last_common_term_ends() {
        let past = |term, last_epoch| PastTerm { term, last_epoch };
        let ended = |term, last_epoch| v1::EndedTerm { term, last_epoch };
        let log =
            |term, ended_terms| v1::LogDescription { term, ended_terms, ..Default::default() };
        let own = Terms::new(2, vec![past(1, 50)]);
        // The follower was promoted at epoch 80 of term 2.
        let promoted = log(3, vec![ended(1, 50), ended(2, 80)]);
        assert_eq!(parting(&own, 95, &promoted), Some(80));
        assert_eq!(parting(&own, 70, &promoted), Some(70));
        // The leader has begun term 4 since, which the promoted server does not know.
        let own = Terms::new(4, vec![past(1, 50), past(2, 85)]);
        assert_eq!(parting(&own, 95, &promoted), Some(80));
        // This server has followed the promoted one.
        let own = Terms::new(9, vec![past(2, 80), past(3, 90)]);
        assert_eq!(parting(&own, 95, &promoted), None);
        assert_eq!(parting(&Terms::new(7, Vec::new()), 5, &promoted), Some(0));
        // It crashed before the promotion, and has no other epochs.
        let own = Terms::new(4, vec![past(1, 50), past(2, 80)]);
        assert_eq!(parting(&own, 80, &promoted), Some(80));
    }
}
