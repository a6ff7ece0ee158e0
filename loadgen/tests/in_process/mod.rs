//! A server inside the test, on a port of its own, and runs against it by the real flags.
//!
//! Everything goes over real sockets; only the process is shared. Nothing here judges a summary.

#![allow(dead_code, reason = "each test file uses its part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot start a server should fail")]

use std::net::SocketAddr;

use clap::Parser as _;
use shoal_loadgen::{Command, CommandLine, LoadError, Plan, Summary};
use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::{Fleet, ListFleetsRequest};
use shoal_service::{EngineChoice, ServerLimits, ServerOptions};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// A running server.
pub(crate) struct InProcess {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl InProcess {
    pub(crate) async fn start() -> Self {
        Self::start_with(ServerLimits::default()).await
    }

    /// As [`InProcess::start`], within other limits.
    pub(crate) async fn start_with(limits: ServerLimits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let options = ServerOptions {
            engine: EngineChoice::Cpu,
            listen: address,
            limits,
            ..Default::default()
        };
        let served = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            shoal_service::run(listener, None, options, stopped).await.unwrap();
        });
        Self { address, stop, served }
    }

    pub(crate) async fn end(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap();
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The plan of some flags against this server.
    pub(crate) fn plan(&self, flags: &str) -> Result<Plan, LoadError> {
        let target = self.url();
        let words = ["shoal-loadgen", "run", "--target", &target];
        let words = words.into_iter().chain(flags.split_whitespace());
        let Command::Run(args) = CommandLine::try_parse_from(words).unwrap().command;
        Plan::new(*args)
    }

    /// Runs with some flags until the end.
    pub(crate) async fn try_run(&self, flags: &str) -> Result<Summary, LoadError> {
        let (_stop, stopped) = watch::channel(false);
        shoal_loadgen::run(self.plan(flags)?, stopped).await
    }

    /// As [`InProcess::try_run`], for runs that must come to an end; shows what came out.
    pub(crate) async fn run(&self, flags: &str) -> Summary {
        let summary = self.try_run(flags).await.unwrap();
        println!("{flags}\n{}", summary.table());
        summary
    }

    /// All fleets of the server.
    pub(crate) async fn fleets(&self) -> Vec<Fleet> {
        let mut client = FleetServiceClient::connect(self.url()).await.unwrap();
        client.list_fleets(ListFleetsRequest::default()).await.unwrap().into_inner().fleets
    }
}

/// Fails unless everything was verified to be right, at least `queries` of it.
pub(crate) fn assert_verified(summary: &Summary, queries: u64) {
    assert_eq!(summary.mismatches, 0, "{:?}", summary.problems);
    assert!(summary.is_good(), "{:?}", summary.problems);
    assert!(summary.verified_queries >= queries, "{} verified", summary.verified_queries);
    assert!(summary.verified_acks > 0);
}
