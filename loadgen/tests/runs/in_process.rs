//! An in-process server on a free port, and runs of the load generator against it from flags.

#![allow(dead_code, reason = "each test file uses a subset")]

use std::net::SocketAddr;

use clap::Parser as _;
use shoal_loadgen::{CommandLine, LoadCommand, LoadError, RunPlan, Summary};
use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::{Fleet, ListFleetsRequest};
use shoal_service::{EngineChoice, Listeners, ServerLimits, ServerOptions, ServiceError};
use shoal_testkit::server::{FreePort, Serving, bind_any, until};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::Status;

/// A running server.
pub(crate) struct InProcess {
    /// The listening address.
    pub(crate) address: SocketAddr,
    serving: Serving<ServiceError>,
}

impl InProcess {
    pub(crate) async fn start() -> Self {
        Self::start_with(ServerLimits::default()).await
    }

    /// Starts a server with limits.
    pub(crate) async fn start_with(limits: ServerLimits) -> Self {
        Self::start_as(ServerOptions { limits, ..Default::default() }).await
    }

    /// Starts a server with options; engine and address are set here.
    pub(crate) async fn start_as(options: ServerOptions) -> Self {
        Self::start_on(None, options).await
    }

    /// Starts a server with HTTP, and returns the address of HTTP.
    pub(crate) async fn start_with_http() -> (Self, SocketAddr) {
        let http = bind_any().await;
        let started = Self::start_on(Some(http.listener), ServerOptions::default()).await;
        (started, http.address)
    }

    async fn start_on(http: Option<TcpListener>, options: ServerOptions) -> Self {
        let FreePort { listener: clients, address } = bind_any().await;
        let options = ServerOptions { engine: EngineChoice::Cpu, listen: address, ..options };
        let listeners = Listeners { clients, metrics: None, http };
        let serving =
            Serving::start(|stopped| shoal_service::run(listeners, options, stopped.wait()));
        let started = Self { address, serving };
        // The server already listens; wait until it has recovered its fleets.
        until(async || started.try_fleets().await.is_ok()).await;
        started
    }

    pub(crate) async fn end(self) {
        self.serving.stop().await.unwrap();
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The plan of flags against this server.
    pub(crate) fn plan(&self, flags: &str) -> Result<RunPlan, LoadError> {
        let target = self.url();
        let words = ["shoal-loadgen", "run", "--target", &target];
        let words = words.into_iter().chain(flags.split_whitespace());
        let command = CommandLine::try_parse_from(words).unwrap().command;
        let LoadCommand::Run(args) = command else { panic!("not a run") };
        RunPlan::new(*args)
    }

    /// Runs with flags to completion.
    pub(crate) async fn try_run(&self, flags: &str) -> Result<Summary, LoadError> {
        let (_stop, stopped) = watch::channel(false);
        shoal_loadgen::run(self.plan(flags)?, stopped).await
    }

    /// Runs with flags, fails on an error, and prints the summary.
    pub(crate) async fn run(&self, flags: &str) -> Summary {
        let summary = self.try_run(flags).await.unwrap();
        println!("{flags}\n{}", summary.table());
        summary
    }

    /// All fleets of the server.
    pub(crate) async fn fleets(&self) -> Vec<Fleet> {
        self.try_fleets().await.unwrap()
    }

    /// The same, unless the server is not ready.
    pub(crate) async fn try_fleets(&self) -> Result<Vec<Fleet>, Status> {
        let mut client = FleetServiceClient::connect(self.url()).await.unwrap();
        Ok(client.list_fleets(ListFleetsRequest::default()).await?.into_inner().fleets)
    }
}

/// Fails on a mismatch or if fewer than `queries` answers were verified.
pub(crate) fn assert_verified(summary: &Summary, queries: u64) {
    assert_eq!(summary.mismatches, 0, "{:?}", summary.problems);
    assert!(summary.is_good(), "{:?}", summary.problems);
    assert!(summary.verified_queries >= queries, "{} verified", summary.verified_queries);
    assert!(summary.verified_acks > 0);
}

/// Runs with `--verify`, this minimum of queries and flags on a fresh server; fails as
/// [`assert_verified`] does.
pub(crate) async fn verified_run(flags: &str, queries: u64) -> Summary {
    let server = InProcess::start().await;
    let summary = server.run(&format!("--verify --queries {queries} {flags}")).await;
    assert_verified(&summary, queries);
    server.end().await;
    summary
}
