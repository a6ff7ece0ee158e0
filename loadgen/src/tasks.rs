//! The tasks of a connection: a report sender and an ack reader on one channel, a query sender and
//! an answer reader on another, so that waiting reports never delay queries.

use std::sync::Arc;

use shoal_workload::{Mix, Workload, WorkloadError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::InFlight;
use crate::args::{QueryForm, ReportEncoding, Wanted};
use crate::connect::connect;
use crate::error::LoadError;
use crate::history::{Asker, Choosers, PastKind, PastTally};
use crate::limits::{MESSAGE_QUERIES_DEFAULT, QUERY_MESSAGES_IN_FLIGHT_MAX};
use crate::measure::Allowance;
use crate::plan::{QueryPlan, RunPlan};
use crate::query::chooser::QueryRandom;
use crate::query::{AnswerReader, Chooser, QuerySender, QueryTally, SeenObjects, SingleSender};
use crate::report::removal::Remover;
use crate::report::sender::SentTally;
use crate::report::source::Renames;
use crate::report::{AckReader, BatchMaker, ReportTally, Sender, Source};
use crate::session::Session;

/// The result of a task.
#[derive(Debug)]
pub enum Outcome {
    /// Reports were sent.
    Sent(SentTally),
    /// Their acks were read.
    Acked(ReportTally),
    /// Queries were sent.
    QueriesSent,
    /// Their answers were read.
    Answered(QueryTally),
    /// Questions about the past were asked.
    AskedPast(PastTally),
}

/// The tasks of a run.
pub type Tasks = JoinSet<Result<Outcome, LoadError>>;

/// Opens a workload; an invalid flag is a usage error.
///
/// # Errors
/// [`LoadError::Usage`] for an unknown name, [`LoadError::Workload`].
pub fn open_workload(plan: &RunPlan, connection: u32) -> Result<Box<dyn Workload>, LoadError> {
    shoal_workload::open(&plan.flags.workload, &plan.params_of(connection)).map_err(|error| {
        match error {
            WorkloadError::UnknownName { .. } | WorkloadError::Parameter { .. } => {
                LoadError::Usage(error.to_string())
            }
            _ => error.into(),
        }
    })
}

/// Number of tasks of one connection that report readiness.
#[must_use]
pub fn starters(plan: &RunPlan) -> u32 {
    u32::from(sends(plan)) + u32::from(plan.asks())
}

/// Whether a connection sends any rows, before or while the clock runs.
fn sends(plan: &RunPlan) -> bool {
    plan.sends_rows() || plan.preload
}

/// Starts the tasks of one connection.
///
/// # Errors
/// [`LoadError`] of opening the workload or a channel.
pub async fn spawn(
    session: &Arc<Session>,
    connection: u32,
    tasks: &mut Tasks,
) -> Result<(), LoadError> {
    let plan = &session.plan;
    // Questions about the past concern the objects of the first connection.
    let seen = match connection {
        0 => Arc::clone(&session.seen),
        _ => Arc::new(SeenObjects::default()),
    };
    let backlog = QUERY_MESSAGES_IN_FLIGHT_MAX * MESSAGE_QUERIES_DEFAULT.max(plan.message_queries);
    let allowance = Arc::new(Allowance::new(plan.flags.update_query, backlog.into()));
    if !plan.asks() {
        allowance.end_queries();
    }
    if sends(plan) {
        spawn_reports(session, connection, &allowance, &seen, tasks).await?;
    }
    if plan.asks() {
        spawn_queries(session, connection, &allowance, seen, tasks).await?;
    }
    Ok(())
}

async fn spawn_reports(
    session: &Arc<Session>,
    connection: u32,
    allowance: &Arc<Allowance>,
    seen: &Arc<SeenObjects>,
    tasks: &mut Tasks,
) -> Result<(), LoadError> {
    let plan = &session.plan;
    let client = connect(&plan.flags.target).await?;
    let in_flight = Arc::new(InFlight::new(plan.reports_in_flight_max()));
    let (messages, stream) = mpsc::channel(1);
    let is_verified = session.verifier.is_some();
    let sender = Sender {
        session: Arc::clone(session),
        connection,
        source: source(session, connection)?,
        maker: BatchMaker::new(
            session.message_fleet(),
            plan.flags.encoding,
            plan.flags.plans(),
            is_verified,
        ),
        in_flight: Arc::clone(&in_flight),
        allowance: Arc::clone(allowance),
        seen: Arc::clone(seen),
        remover: Remover::new(Arc::clone(session), connection, client.clone()),
        messages,
    };
    let reader = AckReader::new(Arc::clone(session), connection, in_flight, Arc::clone(seen));
    let acks = reader.run(client, ReceiverStream::new(stream));
    tasks.spawn(async { Ok(Outcome::Acked(acks.await?)) });
    tasks.spawn(async { Ok(Outcome::Sent(sender.run().await?)) });
    Ok(())
}

/// The fixes of one connection.
fn source(session: &Session, connection: u32) -> Result<Source, LoadError> {
    let plan = &session.plan;
    let workload = open_workload(plan, connection)?;
    let (shift_ms, is_bare) = (session.shift_ms, plan.flags.bare);
    let is_block = plan.flags.encoding == ReportEncoding::Block;
    let shares = &plan.shares;
    if [shares.late, shares.duplicate, shares.bad, shares.removal].iter().any(|share| *share > 0.0)
    {
        let mix = Mix::new(workload, *shares, plan.params.seed)
            .map_err(|error| LoadError::Usage(error.to_string()))?;
        let renames = Renames::new(plan.flags.rename, plan.params.seed, connection);
        return Ok(Source::mixed(mix, renames, shift_ms, is_bare, is_block));
    }
    Ok(Source::clean(workload, shift_ms, is_bare, is_block))
}

/// Starts a task for each kind of questions about the past; returns their number.
///
/// # Errors
/// [`LoadError`] of opening the workload or a channel.
pub async fn spawn_history(session: &Arc<Session>, tasks: &mut Tasks) -> Result<u32, LoadError> {
    let plan = &session.plan;
    if plan.flags.history_queries == 0 {
        return Ok(0);
    }
    for (number, kind) in (0..).zip(PastKind::ALL) {
        let chooser = |mix: &str, salt: u32| -> Result<Chooser, LoadError> {
            let queries = QueryPlan {
                mix: mix.parse().map_err(LoadError::Usage)?,
                wanted: Wanted::Ids,
                // A question becomes names when it is asked.
                is_named: false,
                ..plan.queries.clone()
            };
            Ok(Chooser::new(
                open_workload(plan, 0)?,
                session.space,
                queries,
                plan.params.step_ms,
                Arc::clone(&session.seen),
                QueryRandom::new(plan.params.seed, u32::MAX - 2 * number - salt),
            ))
        };
        let asker = Asker {
            session: Arc::clone(session),
            kind,
            choosers: Choosers {
                objects: chooser("get:1", 0)?,
                regions: chooser("range:2,circle:1,polygon:1", 1)?,
            },
            random: QueryRandom::new(plan.params.seed, u32::MAX - 100 - number),
            first_ms: session.first_ms(),
        };
        let client = connect(plan.queried()).await?;
        tasks.spawn(async { Ok(Outcome::AskedPast(asker.run(client).await?)) });
    }
    Ok(PastKind::ALL.len() as u32)
}

async fn spawn_queries(
    session: &Arc<Session>,
    connection: u32,
    allowance: &Arc<Allowance>,
    seen: Arc<SeenObjects>,
    tasks: &mut Tasks,
) -> Result<(), LoadError> {
    let plan = &session.plan;
    let client = connect(plan.queried()).await?;
    let chooser = Chooser::new(
        open_workload(plan, connection)?,
        session.space,
        plan.queries.clone(),
        plan.params.step_ms,
        seen,
        QueryRandom::new(plan.params.seed, connection),
    );
    let (session, allowance) = (Arc::clone(session), Arc::clone(allowance));
    if plan.flags.ask == QueryForm::Single {
        let sender = SingleSender { session, connection, chooser, allowance };
        tasks.spawn(async { Ok(Outcome::Answered(sender.run(client).await?)) });
        return Ok(());
    }
    let in_flight = Arc::new(InFlight::new(plan.query_messages_in_flight_max()));
    let (requests, stream) = mpsc::channel(1);
    let reader = AnswerReader::new(Arc::clone(&session), connection, Arc::clone(&in_flight));
    let sender = QuerySender { session, connection, chooser, allowance, in_flight, requests };
    let answers = reader.run(client, ReceiverStream::new(stream));
    tasks.spawn(async { Ok(Outcome::Answered(answers.await?)) });
    tasks.spawn(async {
        sender.run().await?;
        Ok(Outcome::QueriesSent)
    });
    Ok(())
}
