//! The settings of a server, and the check that they are consistent.
//!
//! `config.rs` reads them from flags, the environment and a file; tests and other programs set them
//! directly.

use std::net::SocketAddr;
use std::path::PathBuf;

use shoal_codec::Aim;
use shoal_engine::{Clock, Space};

use crate::access::AccessOptions;
use crate::cycle::FleetKind;
use crate::engine_choice::EngineChoice;
use crate::error::ServiceError;
use crate::follower::LeaderLink;
use crate::http::{AllowedOrigin, MapTiles};
use crate::limits::ServerLimits;
use crate::persistence::HistoryKeep;
use crate::tls::TlsOptions;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address for clients. [`crate::run`] takes listeners that are already bound to the addresses
    /// given here.
    pub listen: SocketAddr,
    /// Address of `/metrics` and `/healthz`.
    pub metrics_listen: Option<SocketAddr>,
    /// Address for HTTP.
    pub http_listen: Option<SocketAddr>,
    /// Origins whose pages may call over HTTP, in addition to the server's own pages.
    pub http_allow_origin: Vec<AllowedOrigin>,
    /// Tiles of the map. They need the feature `map`.
    pub map_tiles: Option<MapTiles>,
    /// Engine of the fleets.
    pub engine: EngineChoice,
    /// Bytes of device memory that each fleet may use, if the engine runs on a device; `None` for
    /// the limit of all fleets together.
    pub gpu_fleet_memory_bytes: Option<u64>,
    /// Bytes of memory for pages of all histories; `None` for an eighth of the machine's memory or
    /// of the limit of the control group.
    pub history_memory_bytes: Option<u64>,
    /// Bytes of device memory that runs of histories may use; `None` for a tenth of the
    /// device's memory budget.
    pub gpu_history_memory_bytes: Option<u64>,
    /// What identifies the objects of the fleet `default`.
    pub default_kind: FleetKind,
    /// Space of the fleet `default`.
    pub default_space: Space,
    /// Clock of the fleet `default`.
    pub default_clock: Clock,
    /// Time to live of the fleet `default`, milliseconds.
    pub default_ttl_ms: Option<i64>,
    /// Lead of the event clock of the fleet `default`, milliseconds; see
    /// `CreateFleetRequest.event_clock_lead`.
    pub default_event_clock_lead_ms: Option<i64>,
    /// Consent to listen where other machines can connect, without TLS and tokens.
    pub insecure: bool,
    /// Certificates of the listeners for gRPC and HTTP; `None` for plain connections.
    pub tls: Option<TlsOptions>,
    /// Who may do what.
    pub access: AccessOptions,
    /// Serve the descriptions of the services by gRPC reflection.
    pub reflection: bool,
    /// Event times more than this ahead of the server's clock are refused, milliseconds.
    pub time_ahead_max_ms: i64,
    /// Threads of the engines' shared pool, and of the runtime that the caller builds for this
    /// server; 0 means one per core. The first server of a process determines the size of the pool.
    pub threads: usize,
    /// Folder that keeps the fleets across restarts; without one a restart loses them.
    pub data: Option<PathBuf>,
    /// How much history of the fleets is kept; `None` writes no history. Needs a data folder.
    pub history: Option<HistoryKeep>,
    /// Address of the leader that this server follows; needs a data folder.
    pub follow: Option<String>,
    /// Settings and credentials of connections to the current or former leader. Without a
    /// replication secret in it, no other server can copy, promote or fence this one.
    pub leader_link: LeaderLink,
    /// Whether the blocks of plain rows in the log are encoded for speed or for size.
    pub log_aim: Aim,
    /// Bounds of queues, buffers and counts.
    pub limits: ServerLimits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7117)),
            metrics_listen: None,
            http_listen: None,
            http_allow_origin: Vec::new(),
            map_tiles: None,
            engine: EngineChoice::Auto,
            gpu_fleet_memory_bytes: None,
            history_memory_bytes: None,
            gpu_history_memory_bytes: None,
            default_kind: FleetKind::Numeric,
            default_space: Space::geographic(),
            default_clock: Clock::System,
            default_ttl_ms: None,
            default_event_clock_lead_ms: None,
            insecure: false,
            tls: None,
            access: AccessOptions::default(),
            reflection: true,
            time_ahead_max_ms: 60_000,
            threads: 0,
            data: None,
            history: None,
            follow: None,
            leader_link: LeaderLink::default(),
            log_aim: Aim::Fast,
            limits: ServerLimits::default(),
        }
    }
}

impl ServerOptions {
    /// Checks that a server can run with these options.
    ///
    /// # Errors
    /// [`ServiceError::Insecure`], [`ServiceError::EngineUnavailable`],
    /// [`ServiceError::LimitRange`], [`ServiceError::FollowFolder`].
    pub fn check(&self) -> Result<(), ServiceError> {
        self.engine.check()?;
        self.limits.check()?;
        if self.follow.is_some() && self.leader_link.replication_secret.is_none() {
            return Err(ServiceError::FollowFolder(
                "--follow needs the secret of the leader: --replication-secret FILE".to_owned(),
            ));
        }
        if self.map_tiles.is_some() && !cfg!(feature = "map") {
            return Err(ServiceError::NoMap);
        }
        let guarded = std::iter::once(self.listen).chain(self.http_listen);
        guarded.into_iter().try_for_each(|address| self.check_exposure(address))?;
        self.metrics_listen.map_or(Ok(()), |address| self.check_plain_exposure(address))
    }

    /// Refuses an address that other machines can reach, unless it is protected or the user
    /// consented.
    pub(crate) fn check_exposure(&self, address: SocketAddr) -> Result<(), ServiceError> {
        let missing = match (&self.tls, self.access.is_enforced()) {
            (Some(_), true) => return Ok(()),
            (Some(_), false) => "--tokens or --jwt-keys",
            (None, true) => "--tls-cert and --tls-key",
            (None, false) => "--tls-cert, --tls-key and --tokens",
        };
        self.check_consent(address, missing)
    }

    /// As [`Self::check_exposure`], for the address for monitoring, which has neither TLS nor
    /// tokens.
    pub(crate) fn check_plain_exposure(&self, address: SocketAddr) -> Result<(), ServiceError> {
        self.check_consent(address, "a proxy with TLS and access control in front of it")
    }

    fn check_consent(
        &self,
        address: SocketAddr,
        missing: &'static str,
    ) -> Result<(), ServiceError> {
        if self.insecure || address.ip().to_canonical().is_loopback() {
            Ok(())
        } else {
            Err(ServiceError::Insecure { address, missing })
        }
    }
}
