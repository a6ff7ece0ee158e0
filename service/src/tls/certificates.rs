//! The certificate of the server, and the authorities that sign its clients' certificates, read
//! from PEM files.
//!
//! The files are read again when they change; existing connections continue. If a file is invalid,
//! the error is logged and the previous certificates stay in use. A renewal may write certificate
//! and key one after the other, so they are used once they match.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::Semaphore;

use crate::error::ServiceError;
use crate::file_watch::{keep_read, read_bounded};
use crate::limits::{ACCESS_FILE_BYTES_MAX, RELOAD_MS};

/// The files. All are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate chain of the server; its own certificate comes first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities; one of them must have signed the certificate of each client. `None` if
    /// clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// See the file's head. Clones share the files and their content.
#[derive(Clone)]
pub struct Certificates {
    shared: Arc<Shared>,
    /// The application protocols (ALPN) that a listener offers.
    protocols: Vec<Vec<u8>>,
}

struct Shared {
    options: TlsOptions,
    config: RwLock<Arc<ServerConfig>>,
    /// One permit, which each step of a handshake holds.
    turn: Arc<Semaphore>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificates").field(&self.shared.options).finish()
    }
}

impl Certificates {
    /// Reads the files, for a listener that offers these application protocols (ALPN).
    ///
    /// # Errors
    /// [`ServiceError::AccessFile`].
    pub fn open(options: TlsOptions, protocols: &[&str]) -> Result<Self, ServiceError> {
        let config = RwLock::new(Arc::new(read(&options)?));
        let turn = Arc::new(Semaphore::new(1));
        let shared = Arc::new(Shared { options, config, turn });
        Ok(Self { shared, protocols: Vec::new() }.with_protocols(protocols))
    }

    /// The same certificates for a listener that offers other application protocols. The handshakes
    /// of both take turns.
    #[must_use]
    pub fn with_protocols(&self, protocols: &[&str]) -> Self {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { shared: self.shared.clone(), protocols }
    }

    /// The current TLS configuration, for a new handshake.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.current());
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config)
    }

    /// The content of the files.
    fn current(&self) -> Arc<ServerConfig> {
        self.shared.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The permit that the steps of all handshakes share.
    pub(super) fn turn(&self) -> Arc<Semaphore> {
        self.shared.turn.clone()
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// [`ServiceError::AccessFile`]: then nothing changes.
    pub fn reload(&self) -> Result<(), ServiceError> {
        let config = Arc::new(read(&self.shared.options)?);
        *self.shared.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Reads the files again whenever they change; runs until the future is dropped.
    pub async fn watch_files(self) {
        let TlsOptions { certificate, key, client_ca } = self.shared.options.clone();
        let files = [Some(certificate), Some(key), client_ca].into_iter().flatten().collect();
        let interval = Duration::from_millis(RELOAD_MS);
        keep_read(files, interval, "the files of certificates", move || self.reload()).await;
    }
}

fn read(options: &TlsOptions) -> Result<ServerConfig, ServiceError> {
    let TlsOptions { certificate, key, client_ca } = options;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(wrong(certificate))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for authority in read_certificates(file)? {
                roots.add(authority).map_err(wrong(file))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(wrong(file))?)
        }
    };
    let chain = read_certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_slice(read_text(key)?.as_bytes());
    // The parser's error is not reported, because it may quote the private key.
    let private = private.map_err(|_| ServiceError::AccessFile {
        file: key.clone(),
        reason: "no PEM of a private key".into(),
    })?;
    // Fails if the key does not belong to the certificate.
    builder.with_single_cert(chain, private).map_err(wrong(certificate))
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ServiceError> {
    let text = read_text(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(ServiceError::AccessFile {
            file: file.to_owned(),
            reason: "no PEM of certificates".into(),
        }),
    }
}

fn read_text(file: &Path) -> Result<String, ServiceError> {
    read_bounded(file, ACCESS_FILE_BYTES_MAX)
        .map_err(|reason| ServiceError::AccessFile { file: file.to_owned(), reason })
}

fn wrong<E: fmt::Display>(file: &Path) -> impl FnOnce(E) -> ServiceError {
    let file = file.to_owned();
    move |error| ServiceError::AccessFile { file, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    /// Writes a new pair; returns the bytes of the certificate.
    fn write_pair(folder: &Path) -> Vec<u8> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
        fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
        cert.der().to_vec()
    }

    fn options(folder: &Path) -> TlsOptions {
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        TlsOptions { certificate, key, client_ca: None }
    }

    #[test]
    fn a_pair_that_does_not_fit_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write_pair(folder.path());
        let certificates = Certificates::open(options(folder.path()), &["h2"]).unwrap();
        let before = certificates.current();
        let key = fs::read(folder.path().join("key.pem")).unwrap();
        write_pair(folder.path());
        certificates.reload().unwrap();
        assert!(!Arc::ptr_eq(&before, &certificates.current()));
        let before = certificates.current();
        fs::write(folder.path().join("key.pem"), key).unwrap();
        assert!(certificates.reload().is_err());
        assert!(Arc::ptr_eq(&before, &certificates.current()));
    }

    #[test]
    fn wrong_files_are_named_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        write_pair(folder.path());
        let open = |options| Certificates::open(options, &["h2"]).unwrap_err().to_string();
        let absent = TlsOptions { key: folder.path().join("none"), ..options(folder.path()) };
        assert!(open(absent).contains("none"));
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, "nothing").unwrap();
        let without = TlsOptions { client_ca: Some(ca), ..options(folder.path()) };
        assert!(open(without).contains("ca.pem"));
        fs::write(folder.path().join("key.pem"), "not for logs").unwrap();
        let error = open(options(folder.path()));
        assert!(error.contains("key.pem") && !error.contains("not for logs"), "{error}");
    }
}
