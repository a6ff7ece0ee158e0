//! Runs the attacks one after the other, each while a well-behaved client uses the server.
//!
//! The client is a run of `shoal-loadgen run`, so it measures as that command does. It is connected
//! before an attack starts.

use clap::Parser as _;
use shoal_client::Client;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep};

use super::args::{Attack, HostileArgs};
use super::attacker::{AttackReport, Attacker};
use super::http_client::{HttpRow, use_http};
use super::process_stats::{MemoryWatch, resident_mib};
use super::summary::{AttackRow, HostileSummary, ServerMib};
use crate::args::{CommandLine, LoadCommand};
use crate::connect::connect;
use crate::error::LoadError;
use crate::fleet::fresh_name;
use crate::measure::write_json;
use crate::plan::RunPlan;
use crate::run::{run, run_with_start};

/// Places all objects; one query follows, because a run without updates sends at least one. The
/// lead of the fleet's clock is bounded, so that rows ahead do not move it.
const LOAD_FLAGS: &str = "--workload world --encoding block --preload --update-query 0:1 \
     --queries 1 --event-clock-lead-ms 1000";
/// 20 reports of 50 rows a second, and one range query of a small rectangle every 50 ms, whether or
/// not earlier ones are answered.
const CLIENT_FLAGS: &str = "--workload world --connections 1 --rate 1000 --batch 50 \
     --update-query 50:1 --query-batch 1 --query-mix range:1 --want ids";
/// Queries per second that `CLIENT_FLAGS` request.
const CLIENT_QUERIES_PER_S: f64 = 20.0;

/// Runs the attacks; `stop` ends the command early and gracefully.
///
/// # Errors
/// [`LoadError`] if the fleet cannot be created or the results cannot be written. Failures during
/// an attack are reported in the summary.
pub async fn run_hostile(
    args: HostileArgs,
    stop: watch::Receiver<bool>,
) -> Result<HostileSummary, LoadError> {
    args.check()?;
    let control = connect(&args.target).await?;
    let hostile = Hostile { fleet: fresh_name(), args, stop };
    let measured = hostile.load_and_measure().await;
    let deleted = hostile.delete_fleet(&control).await;
    let mut summary = measured?;
    summary.problems.extend(deleted.err().map(|error| error.to_string()));
    if let Some(file) = &hostile.args.json {
        write_json(&summary, file)?;
    }
    Ok(summary)
}

struct Hostile {
    args: HostileArgs,
    fleet: String,
    stop: watch::Receiver<bool>,
}

impl Hostile {
    async fn load_and_measure(&self) -> Result<HostileSummary, LoadError> {
        let HostileArgs { objects, seconds, p99_max: p99_max_ms, .. } = self.args;
        eprintln!("load {objects} objects");
        let loaded = run(self.plan(LOAD_FLAGS, 0.0)?, self.stop.clone()).await?;
        let mut summary =
            HostileSummary { objects, seconds, p99_max_ms, ..HostileSummary::default() };
        if loaded.fleet_objects != objects && !self.is_stopped() {
            let placed = loaded.fleet_objects;
            let problem = format!("only {placed} of {objects} objects could be placed");
            return Err(LoadError::Protocol(problem));
        }
        self.rest().await;
        let attacks = self.args.attacks().into_iter().map(Some);
        for attack in std::iter::once(None).chain(attacks) {
            if self.is_stopped() {
                break;
            }
            let row = self.measure(attack, &mut summary.problems).await?;
            summary.rows.push(row);
        }
        summary.interrupted = self.is_stopped();
        Ok(summary)
    }

    /// Measures the client during an attack, or without one, then waits for `--rest` seconds.
    async fn measure(
        &self,
        attack: Option<Attack>,
        problems: &mut Vec<String>,
    ) -> Result<AttackRow, LoadError> {
        let name = attack.map_or_else(|| "none".to_owned(), Attack::name);
        eprintln!("attack {name}");
        let attacker = match attack {
            Some(attack) => Some(Attacker::start(&self.args, &self.fleet, attack).await?),
            None => None,
        };
        let flags = self.args.client.as_deref().unwrap_or(CLIENT_FLAGS);
        let plan = self.plan(flags, self.args.seconds)?;
        let pid = self.args.server_pid;
        let before = pid.and_then(resident_mib);
        let memory = pid.map(MemoryWatch::start);
        let start = watch::Sender::new(None);
        let started = start.subscribe();
        let client = run_with_start(plan, self.stop.clone(), start);
        let over_http = self.use_http(started.clone());
        let attack = self.attack(attacker, started);
        let (client, attacked, http) = tokio::join!(client, attack, over_http);
        let max = memory.as_ref().map(MemoryWatch::max_mib);
        drop(memory);
        self.rest().await;
        let mut row = AttackRow { attack: name, http, ..AttackRow::default() };
        match client {
            Ok(summary) => {
                // The last query is due at the same time as the last report, whose ack may end the
                // run first.
                let queries_due = match self.args.client {
                    None => (self.args.seconds * CLIENT_QUERIES_PER_S) as u64,
                    Some(_) => 0,
                };
                row.set_client(summary, queries_due.saturating_sub(1));
            }
            Err(error) => row.broken = Some(error.to_string()),
        }
        match attacked {
            Ok(report) => {
                let unknown = |refusal: &String| refusal.contains("[METHOD_UNKNOWN]");
                let refusal = report.as_ref().and_then(|report| report.first_refusal.as_ref());
                problems.extend(refusal.filter(|refusal| unknown(refusal)).map(|refusal| {
                    format!("{}: the attack calls what the server lacks: {refusal}", row.attack)
                }));
                row.attacker = report;
            }
            Err(error) => problems.push(format!("{}: {error}", row.attack)),
        }
        if let (Some(before), Some(max), Some(after)) = (before, max, pid.and_then(resident_mib)) {
            row.server_mib = Some(ServerMib { before, max, after });
        }
        Ok(row)
    }

    /// Attacks from the start of the client's clock; `None` without an attack, or if the client
    /// does not start or the command is stopped.
    async fn attack(
        &self,
        attacker: Option<Attacker>,
        mut started: watch::Receiver<Option<Instant>>,
    ) -> Result<Option<AttackReport>, LoadError> {
        let Some(attacker) = attacker else { return Ok(None) };
        if started.wait_for(Option::is_some).await.is_err() {
            return Ok(None);
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            report = attacker.run() => report.map(Some),
            Ok(_) = stop.wait_for(|stopped| *stopped) => Ok(None),
        }
    }

    /// Measures a client of the HTTP address, if there is one, from the start of the other client's
    /// clock.
    async fn use_http(&self, mut started: watch::Receiver<Option<Instant>>) -> Option<HttpRow> {
        let address = self.args.http?;
        started.wait_for(Option::is_some).await.ok()?;
        let mut stop = self.stop.clone();
        tokio::select! {
            row = use_http(address, &self.fleet, self.args.seconds) => Some(row),
            Ok(_) = stop.wait_for(|stopped| *stopped) => None,
        }
    }

    /// The plan of a run on the fleet.
    fn plan(&self, flags: &str, seconds: f64) -> Result<RunPlan, LoadError> {
        let Self { args, fleet, .. } = self;
        let (objects, seconds) = (args.objects.to_string(), seconds.to_string());
        let words = ["shoal-loadgen", "run", "--target", &args.target, "--fleet", fleet];
        let words = words.into_iter().chain(["--objects", &objects, "--seconds", &seconds]);
        let words = words.chain(flags.split_whitespace());
        let usage = |error: clap::Error| LoadError::Usage(error.to_string());
        match CommandLine::try_parse_from(words).map_err(usage)?.command {
            LoadCommand::Run(args) => RunPlan::new(*args),
            _ => Err(LoadError::Usage("the client's flags are not those of a run".to_owned())),
        }
    }

    async fn rest(&self) {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = sleep(Duration::from_secs_f64(self.args.rest)) => {}
            _ = stop.wait_for(|stopped| *stopped) => {}
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    async fn delete_fleet(&self, control: &Client) -> Result<(), LoadError> {
        control.delete_fleet(&self.fleet).await.map_err(LoadError::call("DeleteFleet"))
    }
}
