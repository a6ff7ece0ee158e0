//! The TLS settings of a connection: whom to trust, and how to identify this client.
//!
//! Files are read at each connection, so that a reconnection uses files that were replaced.

use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// See the file's head. All files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Certificates to trust in place of those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate chain of this client and its private key, for servers that require one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the certificate of the server must have, if not the host of the target.
    pub server_name: Option<String>,
}

impl ClientTls {
    /// The settings with the content of the files.
    ///
    /// # Errors
    /// The file that cannot be read, and why.
    pub(crate) fn config(&self) -> Result<ClientTlsConfig, String> {
        let read = |file: &Path| {
            std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
        };
        let mut config = match &self.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}
