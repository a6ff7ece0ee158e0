//! TLS: certificates of server and clients, their renewal, old protocols, and peers that stall in
//! the handshake.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, IsCa, Issuer, KeyPair,
    generate_simple_self_signed,
};
use shoal_client::{Client, ClientTls, ConnectOptions, Error};
use shoal_service::tls::TlsOptions;
use shoal_service::{ServerLimits, ServerOptions, ServiceError};
use shoal_testkit::server::{FreePort, Serving, bind_any};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::running::{environment, options, until, within};

/// A server with TLS; its certificate is `cert.pem` in a folder.
struct Secure {
    address: SocketAddr,
    folder: TempDir,
    serving: Serving<ServiceError>,
}

/// Writes a new self-signed pair.
fn renew(folder: &Path) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
    fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
}

impl Secure {
    async fn start(client_ca: Option<&str>, limits: ServerLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        renew(folder.path());
        let client_ca = client_ca.map(|text| {
            fs::write(folder.path().join("ca.pem"), text).unwrap();
            folder.path().join("ca.pem")
        });
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let tls = Some(TlsOptions { certificate, key, client_ca });
        let options = ServerOptions { tls, limits, ..options() };
        let FreePort { listener, address } = bind_any().await;
        let serving = Serving::start(|stopped| {
            shoal_service::server::run_in(environment(), listener, options, stopped.wait())
        });
        Self { address, folder, serving }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn connect(&self, tls: ClientTls) -> Result<Client, Error> {
        let target = format!("https://localhost:{}", self.address.port());
        within(Client::connect(&target, ConnectOptions { tls, ..Default::default() })).await
    }

    /// Connects without a certificate and calls.
    async fn call(&self) -> Result<Client, Error> {
        let ca = Some(self.file("cert.pem"));
        let client = self.connect(ClientTls { ca, ..Default::default() }).await?;
        within(client.list_fleets()).await.map(|_| client)
    }

    async fn stop(self) {
        self.serving.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_and_connections_continue() {
    let server = Secure::start(None, ServerLimits::default()).await;
    let before = server.call().await.unwrap();
    let old = fs::read(server.file("cert.pem")).unwrap();
    renew(server.folder.path());
    until(async || server.call().await.is_ok()).await;
    // The old certificate is not trusted for new connections, and serves those that exist.
    fs::write(server.file("old.pem"), old).unwrap();
    let ca = Some(server.file("old.pem"));
    assert!(server.connect(ClientTls { ca, ..Default::default() }).await.is_err());
    within(before.list_fleets()).await.unwrap();
    // A broken renewal changes nothing.
    let good = server.file("cert.pem");
    let trusted = server.file("trusted.pem");
    fs::copy(&good, &trusted).unwrap();
    fs::write(&good, "nothing").unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let client = server.connect(ClientTls { ca: Some(trusted), ..Default::default() }).await;
    within(client.unwrap().list_fleets()).await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_a_certificate_of_the_authority_are_served() {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let text = params.self_signed(&key).unwrap().pem();
        (text, Issuer::new(params, key))
    };
    let (ca, issuer) = authority("clients");
    let (_, other) = authority("clients");
    let server = Secure::start(Some(&ca), ServerLimits::default()).await;
    let identity = |name: &str, issuer: &Issuer<'_, KeyPair>| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let files = (server.file(&format!("{name}.pem")), server.file(&format!("{name}.key")));
        fs::write(&files.0, certificate.pem()).unwrap();
        fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    };
    let call = async |identity| {
        let ca = Some(server.file("cert.pem"));
        let client = server.connect(ClientTls { ca, identity, ..Default::default() }).await?;
        within(client.list_fleets()).await
    };
    assert!(call(None).await.is_err());
    assert!(call(Some(identity("foreign", &other))).await.is_err());
    call(Some(identity("own", &issuer))).await.unwrap();
    server.stop().await;
}

/// The greeting of a client with a protocol version and one cipher suite.
fn client_hello(version: u16, suite: u16) -> Vec<u8> {
    let mut hello = version.to_be_bytes().to_vec();
    hello.extend([7; 32]);
    // No session; one suite; no compression.
    hello.extend([0, 0, 2]);
    hello.extend(suite.to_be_bytes());
    hello.extend([1, 0]);
    // Signature algorithms, groups and point formats that a server knows.
    let extensions: &[&[u8]] =
        &[&[0, 13, 0, 6, 0, 4, 4, 3, 8, 4], &[0, 10, 0, 4, 0, 2, 0, 29], &[0, 11, 0, 2, 1, 0]];
    let extensions = extensions.concat();
    hello.extend((extensions.len() as u16).to_be_bytes());
    hello.extend(extensions);
    let length = hello.len() as u32;
    let handshake = [&[1], &length.to_be_bytes()[1..], &hello[..]].concat();
    let head = [&[22, 3, 1], &(handshake.len() as u16).to_be_bytes()[..]].concat();
    [head, handshake].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_protocols_and_weak_ciphers_are_refused() {
    const TLS_1_2: u16 = 0x0303;
    // ECDHE with ECDSA, and AES-GCM or ChaCha20-Poly1305: the suites for the key of this server.
    const MODERN: [u16; 3] = [0xc02b, 0xc02c, 0xcca9];
    let server = Secure::start(None, ServerLimits::default()).await;
    // All suites that are assigned to versions before 1.3, with CBC, RC4, export keys, no
    // encryption, static RSA and others.
    let suites = (0..=0x00ff).chain(0xc000..=0xc0ff).chain(0xcca8..=0xccae).chain([0x5600]);
    let old = [0x0300, 0x0301, 0x0302].map(|version| (version, MODERN[0]));
    let asked = suites.map(|suite| (TLS_1_2, suite)).chain(old);
    for (version, suite) in asked {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&client_hello(version, suite)).await.unwrap();
        let mut head = [0; 7];
        within(stream.read_exact(&mut head)).await.unwrap();
        if version == TLS_1_2 && MODERN.contains(&suite) {
            assert_eq!((head[0], head[5]), (22, 2), "the server answers");
        } else {
            // A fatal alert: handshake_failure or protocol_version.
            let alert = if version == TLS_1_2 { 40 } else { 70 };
            assert_eq!((head[0], head[5], head[6]), (21, 2, alert), "{version:x} {suite:x}");
        }
    }
    server.call().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_stall_in_the_handshake_keep_nobody_out() {
    let limits = ServerLimits { handshakes_max: 8, ..ServerLimits::default() };
    let server = Secure::start(None, limits).await;
    let client = server.call().await.unwrap();
    let hello = client_hello(0x0303, 0xc02b);
    let mut stalled = Vec::new();
    for index in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Some say nothing, some a part of their greeting, some all of it.
        let sent = [0, 1, hello.len() / 2, hello.len()][index % 4];
        stream.write_all(&hello[..sent]).await.unwrap();
        stalled.push(stream);
        if index % 10 == 9 {
            server.call().await.unwrap();
            within(client.list_fleets()).await.unwrap();
        }
    }
    // One that is plain HTTP/2.
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    within(plain.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.first().is_none_or(|kind| *kind == 21), "at most an alert: {answer:?}");
    server.call().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_beyond_the_limit_gets_the_reason() {
    let limits = ServerLimits { connections_max: 1, ..ServerLimits::default() };
    let server = Arc::new(Secure::start(None, limits).await);
    let first = server.call().await.unwrap();
    // A client that sees the end of the connection before it sends its call does not tell why.
    let reason = "the server holds its limit of 1 connections";
    until(async || server.call().await.unwrap_err().to_string().contains(reason)).await;
    drop(first);
    until(async || server.call().await.is_ok()).await;
}
