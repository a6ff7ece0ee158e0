//! Fences: a promoted server informs the former leader, which then accepts no changes. It repeats
//! the request until the former leader has confirmed every fleet.
//!
//! The terms of a fleet show where the two logs diverge. Until the fence arrives, clients may still
//! reach the former leader. It then acknowledges changes that are lost. Two servers alone cannot
//! prevent this (service/DESIGN.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use shoal_position_log::Terms;
use shoal_proto::v1;
use tokio::sync::watch;
use tracing::{info, warn};

use super::fleet_list::identity;
use super::leader_link::LeaderLink;
use super::log_description::describe_log;
use super::replication::Replication;
use crate::error::ServiceError;
use crate::fleet::{Fleet, Registry, Role};
use crate::limits::{CONTROL_MESSAGE_BYTES_MAX, FENCE_INTERVAL_MS, LEADER_ANSWER_MS_MAX};
use crate::persistence::{DataFolder, NewTerm, RoleRecord};
use crate::threads::blocking;

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
    let mut last_problem = String::new();
    loop {
        let RoleRecord { leader, leader_id, replaced, is_fence_pending, .. } = data.role();
        if !is_fence_pending {
            info!(leader, "the former leader is fenced");
            return;
        }
        let (mut confirmed, mut problem) = (Vec::new(), None);
        for request in requests(&registry.list(), &replaced, leader_id) {
            let sending = send(&link, &leader, request);
            let timeout = Duration::from_millis(LEADER_ANSWER_MS_MAX);
            let answer = tokio::time::timeout(timeout, sending).await;
            match answer.unwrap_or_else(|_| Err("it does not answer in time".into())) {
                Ok(answer) => confirmed.extend(answer.confirmed),
                Err(why) => {
                    problem = Some(why);
                    break;
                }
            }
        }
        let left = confirm(&registry, &data, replaced, &confirmed).await;
        let problem = problem.unwrap_or(left);
        if problem != last_problem && !problem.is_empty() {
            warn!(leader, problem, "the former leader is not fenced yet");
            last_problem = problem;
        }
        tokio::time::sleep(Duration::from_millis(FENCE_INTERVAL_MS)).await;
    }
}

/// Stores which fleets remain to be fenced. Returns an error while any remain.
async fn confirm(
    registry: &Registry,
    data: &DataFolder,
    mut pending: Vec<(u128, u64)>,
    confirmed: &[Vec<u8>],
) -> String {
    let ids: BTreeSet<u128> = registry.list().iter().filter_map(|fleet| identity(fleet)).collect();
    let confirmed: BTreeSet<&[u8]> = confirmed.iter().map(Vec::as_slice).collect();
    let is_confirmed = |id: u128| confirmed.contains(&id.to_be_bytes()[..]);
    // A fleet that was deleted here needs no fence.
    pending.retain(|(id, _)| ids.contains(id) && !is_confirmed(*id));
    let left = pending.len();
    let data = data.clone();
    let stored = blocking(move || {
        data.change_role(|role| {
            role.is_fence_pending = !pending.is_empty();
            role.replaced = pending;
        })
    });
    match stored.await {
        Ok(()) if left == 0 => String::new(),
        Ok(()) => format!("it does not confirm {left} fleets"),
        Err(error) => error.to_string(),
    }
}

/// The requests that fence the pending fleets: as few as the bound of a message allows.
fn requests(
    fleets: &[Arc<Fleet>],
    replaced: &[(u128, u64)],
    server_id: u64,
) -> Vec<v1::FenceRequest> {
    let ended: BTreeMap<u128, u64> = replaced.iter().copied().collect();
    let mut requests: Vec<v1::FenceRequest> = Vec::new();
    let mut bytes = usize::MAX;
    for fleet in fleets {
        let Some(id) = identity(fleet) else { continue };
        let Some(ended) = ended.get(&id) else { continue };
        let Some(log) = describe_log(fleet) else { continue };
        let promotion = successor(&fleet.terms(), *ended).map(|(term, epoch)| {
            let (fleet, fleet_id) = (fleet.name().as_str().to_owned(), id.to_be_bytes().to_vec());
            v1::FleetTerm { fleet, fleet_id, term, epoch }
        });
        let more = log.encoded_len() + promotion.as_ref().map_or(0, v1::FleetTerm::encoded_len);
        // Key and length of each message, and the rest of the request.
        let more = more + 2 * 6;
        if bytes.saturating_add(more) > CONTROL_MESSAGE_BYTES_MAX - 64 {
            requests.push(v1::FenceRequest { server_id, ..v1::FenceRequest::default() });
            bytes = 0;
        }
        bytes += more;
        let request = requests.last_mut().expect("the first fleet begins one");
        request.logs.push(log);
        request.promotions.extend(promotion);
    }
    requests
}

/// The term that followed `ended`, and the last epoch of `ended`; `None` if `ended` is the current
/// term or unknown.
fn successor(terms: &Terms, ended: u64) -> Option<(u64, u64)> {
    let index = terms.past().iter().position(|past| past.term == ended)?;
    let next = terms.past().get(index + 1).map_or(terms.current(), |past| past.term);
    Some((next, terms.past()[index].last_epoch))
}

async fn send(
    link: &LeaderLink,
    leader: &str,
    request: v1::FenceRequest,
) -> Result<v1::FenceResponse, String> {
    let server_id = request.server_id;
    let client = link.connect(leader).await?;
    let answer = client.log_service().fence(request).await;
    let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
    if server_id != 0 && answer.server_id != server_id {
        let found = answer.server_id;
        return Err(format!(
            "another server answers: data folder {found:016x}, not {server_id:016x}"
        ));
    }
    Ok(answer)
}

impl Replication {
    /// See `LogService.Fence`.
    ///
    /// # Errors
    /// [`ServiceError::NotFenced`], [`ServiceError::Log`]: then nothing is fenced.
    pub(crate) async fn fence(
        &self,
        request: v1::FenceRequest,
    ) -> Result<v1::FenceResponse, ServiceError> {
        let server_id = self.server_id().await?;
        if ![0, server_id].contains(&request.server_id) {
            return Err(ServiceError::NotFenced("the fence names another server"));
        }
        let answer = |fenced: usize, confirmed| {
            let fenced_count = u32::try_from(fenced).unwrap_or(u32::MAX);
            v1::FenceResponse { fenced_count, server_id, confirmed }
        };
        let all = || request.logs.iter().map(|log| log.fleet_id.clone()).collect();
        // A follower accepts no changes, and its leader decides what it holds. Return without
        // waiting for `changing`, which a promotion of this server may hold for long.
        if self.registry.leader().is_some() {
            let confirmed = if request.server_id == server_id { all() } else { Vec::new() };
            return Ok(answer(0, confirmed));
        }
        let _changing = self.changing.lock().await;
        if !self.registry.data().is_some_and(|data| data.role().has_followers) {
            return Err(ServiceError::NotFenced("this server has never had a follower"));
        }
        let mut fences: Vec<(Arc<Fleet>, NewTerm)> = Vec::new();
        let (mut confirmed, fleets) = (Vec::new(), self.registry.list());
        for log in &request.logs {
            let is_this = |fleet: &&Arc<Fleet>| {
                identity(fleet).is_some_and(|id| log.fleet_id == id.to_be_bytes())
            };
            let verdict = match fleets.iter().find(is_this) {
                None if request.server_id == server_id => Verdict::Harmless,
                None => Verdict::Unrelated,
                Some(fleet) => match judge(fleet, log, &request) {
                    Verdict::Fence(fence) => {
                        fences.push((fleet.clone(), fence));
                        Verdict::Harmless
                    }
                    verdict => verdict,
                },
            };
            if matches!(verdict, Verdict::Harmless) {
                confirmed.push(log.fleet_id.clone());
            }
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
        Ok(answer(fences.len(), confirmed))
    }

    /// See `FleetReplication.unfenced_leader`.
    pub(crate) fn unfenced_leader(&self, fleet: &Fleet) -> String {
        let role = self.registry.data().map(DataFolder::role).unwrap_or_default();
        let is_pending = role.is_fence_pending
            && role.replaced.iter().any(|(id, _)| Some(*id) == identity(fleet));
        if is_pending { role.leader } else { String::new() }
    }

    /// See `LogService.Unfence`.
    ///
    /// # Errors
    /// [`ServiceError::NotFenced`], [`ServiceError::Log`].
    pub(crate) async fn unfence(&self, fleet: &Fleet) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        let Role::Fenced { term, last_epoch } = fleet.role() else {
            return Err(ServiceError::NotFenced("the fleet is not fenced"));
        };
        let id = identity(fleet);
        self.change_role(move |role| role.fenced.retain(|fence| Some(fence.id) != id)).await?;
        fleet.set_role(Role::Leader { opens: None });
        warn!(fleet = %fleet.name(), term, last_epoch, "the fence is removed: it takes changes");
        Ok(())
    }
}

/// What a fence means for a fleet.
enum Verdict {
    /// The fleet accepts no changes from now on.
    Fence(NewTerm),
    /// The fleet knows the new term already, or needs no fence.
    Harmless,
    /// The fleet shares no term with the fleet of the promoted server.
    Unrelated,
}

fn judge(fleet: &Fleet, log: &v1::LogDescription, request: &v1::FenceRequest) -> Verdict {
    let Some(id) = identity(fleet) else { return Verdict::Unrelated };
    let is_this = |it: &&v1::FleetTerm| it.fleet_id == id.to_be_bytes();
    let promotion = request.promotions.iter().find(is_this);
    let terms = fleet.terms();
    if terms.knows(log.term) || promotion.is_some_and(|promotion| terms.knows(promotion.term)) {
        return Verdict::Harmless;
    }
    let name = fleet.name().as_str().to_owned();
    common_epoch(&terms, fleet.view().epoch, log).map_or(Verdict::Unrelated, |epoch| {
        Verdict::Fence(NewTerm { name, id, term: log.term, epoch })
    })
}

/// The last epoch that a fleet shares with the other server's log, 0 if they share no term; `None`
/// if the fleet knows the current term of that log.
pub(super) fn parting(terms: &Terms, epoch: u64, log: &v1::LogDescription) -> Option<u64> {
    if terms.knows(log.term) {
        return None;
    }
    Some(common_epoch(terms, epoch, log).unwrap_or(0))
}

/// The last common epoch of the newest term that both logs have. It is the smaller one of the last
/// epochs that the two logs have of this term.
fn common_epoch(terms: &Terms, epoch: u64, log: &v1::LogDescription) -> Option<u64> {
    let own = terms.past().iter().map(|past| (past.term, past.last_epoch));
    let own: Vec<(u64, u64)> = own.chain([(terms.current(), epoch)]).collect();
    own.iter().rev().find_map(|(term, own_epoch)| {
        let ended = log.ended_terms.iter().find(|ended| ended.term == *term)?;
        Some(ended.last_epoch.min(*own_epoch))
    })
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
        // This server crashed before the promotion and has no epochs that the other one lacks.
        let own = Terms::new(4, vec![past(1, 50), past(2, 80)]);
        assert_eq!(parting(&own, 80, &promoted), Some(80));
    }
}
