//! The settings and credentials with which a server connects to another one: a follower to its
//! leader, a promoted server to the former leader.
//!
//! Token and certificates are read for each connection, so that they can be replaced.

use std::path::PathBuf;
use std::time::Duration;

use shoal_client::{Client, ClientTls, ConnectOptions, Secret};

use crate::limits::{FOLLOW_LIST_BYTES_MAX, FRAME_BYTES_MAX, LEADER_ANSWER_MS_MAX};

/// See the file's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderLink {
    /// The file with the token, if one is needed.
    pub token_file: Option<PathBuf>,
    /// The certificates to trust instead of the system's certificates.
    pub tls_ca: Option<PathBuf>,
    /// The secret that this server and the other one share.
    pub replication_secret: Option<Secret>,
    /// Certificate chain and private key of this server.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl LeaderLink {
    /// Connects to a server.
    ///
    /// # Errors
    /// The problem.
    pub(super) async fn connect(&self, address: &str) -> Result<Client, String> {
        let (ca, identity) = (self.tls_ca.clone(), self.identity.clone());
        let options = ConnectOptions {
            timeout: Duration::from_millis(LEADER_ANSWER_MS_MAX),
            stream_window_bytes: Some(4 << 20),
            connection_window_bytes: Some(16 << 20),
            frame_bytes_max: Some(FRAME_BYTES_MAX),
            message_bytes_max: FOLLOW_LIST_BYTES_MAX,
            token: self.token_file.as_deref().map(Secret::read).transpose()?,
            replication_secret: self.replication_secret.clone(),
            tls: ClientTls { ca, identity, server_name: None },
        };
        Client::connect(address, options).await.map_err(|error| error.to_string())
    }
}
