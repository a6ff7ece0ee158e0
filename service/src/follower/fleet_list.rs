//! Keeps the fleets of a follower equal to its leader's: requests the list of fleets at an
//! interval, begins and ends copies, and runs one stream for each copy.
//!
//! No copy is deleted here: a copy of a fleet that the leader no longer lists stays until an
//! operator deletes it. If another server answers at the leader's address, it is not followed. When
//! a server first follows a leader, its fleets that the leader does not list are set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shoal_client::Client;
use shoal_proto::v1;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{info, warn};

use super::fleet_stream::{CopiedFleet, copy};
use super::leader_link::LeaderLink;
use crate::cycle::FleetName;
use crate::error::ServiceError;
use crate::fleet::{Fleet, Registry};
use crate::limits::{
    FOLLOW_LIST_MS, FOLLOW_RECORD_MS, FOLLOW_RENEW_MS, FOLLOW_RETRY_MS, FOLLOW_STREAMS_MAX,
};
use crate::persistence::recorded_spec;
use crate::threads::blocking;

/// Why the list or a stream is tried again.
pub(super) type Problem = String;

/// A delay that doubles from the shortest to the longest one.
#[derive(Debug)]
pub(super) struct Backoff(u64);

impl Default for Backoff {
    fn default() -> Self {
        Self(FOLLOW_RETRY_MS.0)
    }
}

impl Backoff {
    /// Waits for the current delay, then doubles it up to the longest.
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.0)).await;
        self.0 = (self.0 * 2).min(FOLLOW_RETRY_MS.1);
    }
}

/// The streams of all copies.
struct FleetList {
    registry: Arc<Registry>,
    leader: Arc<str>,
    link: LeaderLink,
    /// Name of this server for the leader: its address, and the number of its data folder, because
    /// servers on different machines may listen at the same local address.
    follower: Arc<str>,
    /// The connection for the list, which is the first of `connections`; `None` after it failed.
    client: Option<Client>,
    /// Each carries some of the streams.
    connections: Vec<Connection>,
    /// When the age of the copies was last recorded on disk.
    recorded: Option<Instant>,
    streams: BTreeMap<FleetName, CopyStream>,
    tasks: JoinSet<()>,
}

/// A connection of some streams.
struct Connection {
    /// Publishes the newest one. Streams that begin again use it.
    newest: watch::Sender<Client>,
    /// Set if a stream has failed.
    has_failed: Arc<AtomicBool>,
    since: Instant,
}

impl Connection {
    fn new(client: Client) -> Self {
        let (newest, has_failed) = (watch::Sender::new(client), Arc::default());
        Self { newest, has_failed, since: Instant::now() }
    }

    fn replace(&mut self, client: Client) {
        self.newest.send_replace(client);
        self.has_failed.store(false, Ordering::Relaxed);
        self.since = Instant::now();
    }
}

/// The stream of one copy.
struct CopyStream {
    /// The identity of the fleet.
    id: u128,
    task: AbortHandle,
    /// The index of its connection.
    connection: usize,
}

/// Follows a leader until `stop`. `copied` becomes true once there is a copy of each fleet.
pub(super) async fn follow(
    registry: Arc<Registry>,
    leader: Arc<str>,
    link: LeaderLink,
    address: SocketAddr,
    copied: watch::Sender<bool>,
    mut stop: watch::Receiver<bool>,
) {
    let (streams, tasks) = Default::default();
    let (client, connections, recorded) = (None, Vec::new(), None);
    let follower = String::new().into();
    let mut list = FleetList {
        registry,
        leader,
        link,
        follower,
        client,
        connections,
        recorded,
        streams,
        tasks,
    };
    tokio::select! {
        () = list.run(address, &copied) => {}
        // An error means that the server has ended.
        _ = stop.wait_for(|stop| *stop) => {}
    }
    // Once this function returns, no stream may queue further cycles for a fleet.
    list.tasks.shutdown().await;
    list.registry.record_current().await;
}

impl FleetList {
    async fn run(&mut self, address: SocketAddr, copied: &watch::Sender<bool>) {
        let data = self.registry.data().cloned();
        let id = blocking(move || data.map_or(Err(ServiceError::NoLog), |data| data.server_id()));
        self.follower = format!("{address}/{:016x}", id.await.unwrap_or_default()).into();
        let (mut backoff, mut last_problem) = (Backoff::default(), String::new());
        loop {
            let is_due = |at: Instant| at.elapsed() >= Duration::from_millis(FOLLOW_RECORD_MS);
            if self.recorded.is_none_or(is_due) {
                self.registry.record_current().await;
                self.recorded = Some(Instant::now());
            }
            match self.update().await {
                Ok(()) => {
                    if self.registry.list().len() >= self.streams.len() {
                        copied.send_replace(true);
                    }
                    if !last_problem.is_empty() {
                        info!(leader = %self.leader, "the leader answers");
                    }
                    (backoff, last_problem) = (Backoff::default(), String::new());
                    tokio::time::sleep(Duration::from_millis(FOLLOW_LIST_MS)).await;
                }
                Err(problem) => {
                    self.client = None;
                    if problem != last_problem {
                        warn!(leader = %self.leader, problem, "no list of the leader's fleets");
                        last_problem = problem;
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    async fn update(&mut self) -> Result<(), Problem> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.link.connect(&self.leader).await?,
        };
        if self.client.is_none() {
            match self.connections.first_mut() {
                Some(first) => first.replace(client.clone()),
                None => self.connections.push(Connection::new(client.clone())),
            }
            self.client = Some(client.clone());
        }
        for other in &mut self.connections[1..] {
            let is_due = other.since.elapsed() >= Duration::from_millis(FOLLOW_RENEW_MS);
            if is_due && other.has_failed.load(Ordering::Relaxed) {
                other.replace(self.link.connect(&self.leader).await?);
            }
        }
        let mut service = client.log_service();
        let call = service.describe_logs(v1::DescribeLogsRequest {});
        let timeout = client.options().timeout;
        let answer = tokio::time::timeout(timeout, call).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?;
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        self.apply(answer).await
    }

    async fn apply(&mut self, answer: v1::DescribeLogsResponse) -> Result<(), Problem> {
        let failed = |error: ServiceError| error.to_string();
        let mut fleets = BTreeMap::new();
        for log in answer.logs {
            let fleet = copied(&log).map_err(failed)?;
            fleets.insert(fleet.name.clone(), fleet);
        }
        let data = self.registry.data().cloned().ok_or("there is no data folder")?;
        let (leader_id, found) = (data.role().leader_id, answer.server_id);
        let is_known = leader_id == found;
        if !is_known && leader_id != 0 {
            return Err(format!(
                "another server answers there: its data folder is {found:016x}, not \
                 {leader_id:016x}. Its fleets are not copied. Promote this server with `shoal \
                 promote --force`, or follow the other one with an empty data folder"
            ));
        }
        self.streams.retain(|name, CopyStream { id, task, .. }| {
            let is_kept = fleets.get(name).is_some_and(|fleet| fleet.id == *id);
            if !is_kept {
                self.registry.set_copying(name, false);
                task.abort();
            }
            is_kept && !task.is_finished()
        });
        while self.tasks.try_join_next().is_some() {}
        let names = fleets.values().map(|fleet| (fleet.id, fleet.name.clone())).collect();
        self.registry.adopt_names(names).await.map_err(failed)?;
        let mut orphans = BTreeSet::new();
        for fleet in self.registry.list() {
            if fleets.contains_key(&fleet.name()) {
                continue;
            }
            if is_known {
                orphans.insert(fleet.name());
            } else {
                let suffix = format!("foreign-{:016x}", fleet.term());
                self.registry.set_aside(&fleet, suffix).await.map_err(failed)?;
            }
        }
        for name in self.registry.set_orphans(orphans) {
            warn!(
                fleet = %name,
                "the leader does not have this fleet any more; the copy stays until `shoal fleets \
                 delete` is called here"
            );
        }
        if !is_known {
            let leader_id = answer.server_id;
            let changed = blocking(move || data.change_role(|role| role.leader_id = leader_id));
            changed.await.map_err(failed)?;
        }
        for (name, fleet) in fleets {
            if !self.streams.contains_key(&name) {
                let (id, connection) = (fleet.id, self.connection().await?);
                let Connection { newest, has_failed, .. } = &self.connections[connection];
                let (registry, newest) = (self.registry.clone(), newest.subscribe());
                let (has_failed, follower) = (has_failed.clone(), self.follower.clone());
                let task = self.tasks.spawn(copy(registry, newest, has_failed, fleet, follower));
                self.streams.insert(name, CopyStream { id, task, connection });
            }
        }
        Ok(())
    }

    /// The index of a connection with room for a stream; connects if there is none.
    async fn connection(&mut self) -> Result<usize, Problem> {
        let mut streams = vec![0; self.connections.len()];
        self.streams.values().for_each(|stream| streams[stream.connection] += 1);
        if let Some(free) = streams.iter().position(|count| *count < FOLLOW_STREAMS_MAX) {
            return Ok(free);
        }
        self.connections.push(Connection::new(self.link.connect(&self.leader).await?));
        Ok(streams.len())
    }
}

/// The identity of a fleet with files.
pub(super) fn identity(fleet: &Fleet) -> Option<u128> {
    fleet.folder().map(|folder| folder.identity.id)
}

fn copied(log: &v1::LogDescription) -> Result<CopiedFleet, ServiceError> {
    let request = log.fleet.clone().unwrap_or_default();
    let id: [u8; 16] = log.fleet_id[..].try_into().map_err(|_| {
        ServiceError::field("fleet_id", format!("{} bytes, not 16", log.fleet_id.len()))
    })?;
    Ok(CopiedFleet {
        name: FleetName::new("name", &request.name)?,
        spec: recorded_spec(&request)?,
        id: u128::from_be_bytes(id),
        log: log.clone(),
    })
}
