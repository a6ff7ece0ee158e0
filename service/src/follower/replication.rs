//! The role of a server, which its data folder stores, and the task that the role requires.
//!
//! One task runs at a time: on a follower it copies the leader's fleets, on a promoted server it
//! fences the former leader.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::leader_link::LeaderLink;
use super::{fence, fleet_list};
use crate::access::SecretDigest;
use crate::error::ServiceError;
use crate::fleet::Registry;
use crate::limits::FOLLOW_RECORD_WAIT_MS;
use crate::persistence::{DataFolder, StoredRole};
use crate::threads::blocking;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Replication {
    pub(super) registry: Arc<Registry>,
    pub(super) link: LeaderLink,
    /// Held while the server is promoted or fenced.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// Held while the role is stored; changes take turns.
    storing: Arc<tokio::sync::Mutex<()>>,
    /// The task that follows a leader or fences the former leader.
    task: Mutex<Option<(watch::Sender<bool>, JoinHandle<()>)>>,
    /// Whether the server has a state to answer from; see [`Replication::first_copies`].
    copied: watch::Sender<bool>,
    /// Whether a promotion that failed is being undone.
    pub(super) is_undoing: AtomicBool,
    /// Whether the server is shutting down.
    pub(super) is_ending: AtomicBool,
    /// Names this server to its leader; set by [`Replication::start`].
    address: OnceLock<SocketAddr>,
}

impl Replication {
    pub(crate) fn new(registry: Arc<Registry>, link: LeaderLink) -> Arc<Self> {
        let (changing, storing, task) =
            (tokio::sync::Mutex::default(), Arc::default(), Mutex::default());
        let copied = watch::Sender::new(false);
        let (address, is_undoing, is_ending) = Default::default();
        Arc::new(Self {
            registry,
            link,
            changing,
            storing,
            task,
            copied,
            is_undoing,
            is_ending,
            address,
        })
    }

    /// Confirms that a caller knows the secret.
    ///
    /// # Errors
    /// [`ServiceError::NoReplication`], [`ServiceError::ReplicationSecret`].
    pub(crate) fn authorize(&self, secret: Option<&str>) -> Result<(), ServiceError> {
        let expected = self.link.replication_secret.as_ref().ok_or(ServiceError::NoReplication)?;
        let found = secret.ok_or(ServiceError::ReplicationSecret)?;
        // Digests compare in constant time.
        if SecretDigest::of(found) == SecretDigest::of(expected.expose()) {
            return Ok(());
        }
        Err(ServiceError::ReplicationSecret)
    }

    /// Starts the task of the server's role; call it once the fleets are recovered. `address` is
    /// part of the name of this server for its leader.
    pub(crate) fn start(self: &Arc<Self>, address: SocketAddr) {
        // An error cannot occur: a server starts once.
        let _ = self.address.set(address);
        self.resume();
    }

    /// Starts the task of the server's role.
    pub(super) fn resume(&self) {
        let Some(&address) = self.address.get() else { return };
        if self.is_ending.load(Ordering::SeqCst) {
            return;
        }
        let (registry, link) = (self.registry.clone(), self.link.clone());
        if let Some(leader) = registry.leader() {
            if !registry.list().is_empty() {
                self.copied.send_replace(true);
            }
            let copied = self.copied.clone();
            self.run(|stop| fleet_list::follow(registry, leader, link, address, copied, stop));
        } else if registry.data().is_some_and(|data| data.role().is_fence_pending) {
            self.run(|stop| fence::deliver(registry, link, stop));
        }
    }

    /// Begins a task, which must end when its channel has the value true.
    pub(super) fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        task: impl FnOnce(watch::Receiver<bool>) -> F,
    ) {
        let (stop, stopping) = watch::channel(false);
        // Hold the lock until the task is stored: the task may start the next one.
        let mut running = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some((stop, tokio::spawn(task(stopping))));
    }

    /// Ends replication at the shutdown of the server. Waits for a promotion in progress, but only
    /// for a bounded time.
    pub(crate) async fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.stop().await;
        let time = Duration::from_millis(FOLLOW_RECORD_WAIT_MS);
        // A promotion that fails meanwhile starts a task that undoes it; `stop` ends this task.
        let _ = tokio::time::timeout(time, self.changing.lock()).await;
        self.stop().await;
    }

    /// Ends the task, and any task that it starts before it ends; returns when all have ended.
    pub(crate) async fn stop(&self) {
        let take = || self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        while let Some((stop, task)) = take() {
            stop.send_replace(true);
            // An error means that it panicked.
            let _ = task.await;
        }
    }

    /// Completes once the server has a state to answer from.
    pub(crate) async fn first_copies(&self) {
        // The sender lives as long as this.
        let _ = self.copied.subscribe().wait_for(|copied| *copied).await;
    }

    /// The number of this data folder.
    ///
    /// # Errors
    /// [`ServiceError::NoLog`], [`ServiceError::Log`].
    pub(crate) async fn server_id(&self) -> Result<u64, ServiceError> {
        let data = self.registry.data().cloned().ok_or(ServiceError::NoLog)?;
        blocking(move || data.server_id()).await
    }

    /// Records that there is a follower, because it may be promoted while this server is down.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) async fn expect_followers(&self) -> Result<(), ServiceError> {
        self.change_role(|role| role.has_followers = true).await
    }

    /// Changes the stored role record durably. Changes run one after the other; a change continues
    /// if its caller is dropped, for example while the disk does not answer.
    pub(super) async fn change_role(
        &self,
        change: impl FnOnce(&mut crate::persistence::RoleRecord) + Send + 'static,
    ) -> Result<(), ServiceError> {
        let data = self.registry.data().cloned().ok_or(ServiceError::NoLog)?;
        let turn = self.storing.clone().lock_owned().await;
        blocking(move || {
            let _turn = turn;
            data.change_role(change)
        })
        .await
    }
}

/// Confirms that the server may have its role on this folder, and remembers it.
///
/// # Errors
/// [`ServiceError::FollowFolder`], [`ServiceError::Log`].
pub(crate) fn claim_role(
    data: Option<&DataFolder>,
    leader: Option<&str>,
) -> Result<(), ServiceError> {
    let refused = |why: String| Err(ServiceError::FollowFolder(why));
    if let Some(leader) = leader
        && (leader.is_empty() || leader.contains(char::is_whitespace))
    {
        return refused(format!("--follow {leader:?} is no address: use HOST:PORT"));
    }
    let Some(data) = data else {
        return leader
            .map_or(Ok(()), |_| refused("--follow needs a data folder: --data DIR".into()));
    };
    let record = data.role();
    match (record.role, leader) {
        (StoredRole::Follower, None) => refused(format!(
            "this data folder is a copy of the server at {0}: start it with --follow {0}, and \
             promote it with `shoal promote` if it is to take reports",
            record.leader
        )),
        (StoredRole::Promoted, Some(_)) if record.fenced.is_empty() => refused(format!(
            "this data folder was promoted in place of {}: start it without --follow. To make it \
             a follower, promote its own follower; then it is fenced and can be restarted with \
             --follow",
            record.leader
        )),
        (_, Some(leader)) => data.change_role(|role| {
            if role.leader != leader {
                role.leader_id = 0;
            }
            (role.role, role.leader) = (StoredRole::Follower, leader.to_owned());
            (role.fenced, role.is_fence_pending) = (Vec::new(), false);
            role.replaced.clear();
        }),
        (_, None) => Ok(()),
    }
}
