//! The attacked server, and the counts of an attack.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shoal_client::{Client, ConnectOptions, ServerError};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};
use tonic::Status;

use crate::connect::connect;
use crate::error::LoadError;
use crate::hostile::attacker::AttackReport;

/// Pause after a refusal: without it, a loop of refused calls would only load the attacker's own
/// machine.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);

/// The attacked server and fleet; counts answered and refused requests.
#[derive(Debug)]
pub struct Target {
    /// The server.
    pub url: String,
    /// The fleet.
    pub fleet: String,
    answered: AtomicU64,
    refused: AtomicU64,
    first_refusal: OnceLock<String>,
}

impl Target {
    /// A target without requests.
    #[must_use]
    pub fn new(url: String, fleet: String) -> Self {
        let (answered, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { url, fleet, answered, refused, first_refusal: OnceLock::new() }
    }

    /// Address and port of the server.
    #[must_use]
    pub fn authority(&self) -> &str {
        let url = self.url.as_str();
        url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/')
    }

    /// Counts answered requests.
    pub fn answered(&self, requests: u64) {
        self.answered.fetch_add(requests, Relaxed);
    }

    /// Counts refused requests; keeps the first cause.
    pub fn refused(&self, requests: u64, cause: impl FnOnce() -> String) {
        self.refused.fetch_add(requests, Relaxed);
        self.first_refusal.get_or_init(cause);
    }

    /// Counts a call that ended with an error, and pauses.
    pub async fn failed(&self, status: Status) {
        self.refused(1, || ServerError::from(status).to_string());
        sleep(REFUSED_PAUSE).await;
    }

    /// Connects with wide windows; retries until it succeeds.
    pub async fn connect(&self) -> Client {
        self.retry(|| connect(&self.url)).await
    }

    /// As [`Target::connect`], with the given options.
    pub async fn connect_with(&self, options: ConnectOptions) -> Client {
        self.retry(|| async { Ok(Client::connect(&self.url, options.clone()).await?) }).await
    }

    async fn retry<F>(&self, connect: impl Fn() -> F) -> Client
    where
        F: Future<Output = Result<Client, LoadError>>,
    {
        loop {
            match connect().await {
                Ok(client) => return client,
                Err(error) => self.refused(1, || error.to_string()),
            }
            sleep(REFUSED_PAUSE).await;
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn report(&self) -> AttackReport {
        AttackReport {
            answered: self.answered.load(Relaxed),
            refused: self.refused.load(Relaxed),
            first_refusal: self.first_refusal.get().cloned(),
            cpu_per_s: None,
        }
    }
}

/// Runs parts of an attack at the same time; dropping the future ends them.
pub async fn together<F>(count: usize, part: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    together_numbered(count as u64, |_| part()).await;
}

/// As [`together`]; each part gets its number from 0.
pub async fn together_numbered<F>(count: u64, part: impl Fn(u64) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let parts: JoinSet<()> = (0..count).map(part).collect();
    parts.join_all().await;
}
