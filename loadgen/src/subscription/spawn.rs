//! Starts the sessions of a run. Regions are divided evenly over sessions. Reading sessions share
//! connections; silent sessions use separate ones, so that full windows delay no reader.

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Duration;

use super::epoch_times::EpochTimes;
use super::plan::SubscriptionPlan;
use super::regions::SessionRegions;
use super::subscriber::{Start, Subscriber};
use super::tally::FollowTally;
use crate::connect::{connect, connect_narrow};
use crate::error::LoadError;
use crate::limits::CHANNEL_SESSIONS_MAX;
use crate::query::chooser::QueryRandom;
use crate::session::Session;

/// The sessions of a run.
pub type Subscribers = JoinSet<Result<FollowTally, LoadError>>;

/// Added to the index of a session, so that its random numbers differ from those of connections.
const SESSIONS: u32 = 1 << 20;

/// Starts all sessions; returns the number that report readiness.
///
/// # Errors
/// [`LoadError`] of opening the workload or a channel.
pub async fn spawn(
    session: &Arc<Session>,
    plan: &SubscriptionPlan,
    times: &Arc<EpochTimes>,
    quiet: &watch::Receiver<bool>,
    subscribers: &mut Subscribers,
) -> Result<u32, LoadError> {
    let reading = plan.sessions();
    let mut kills = kills(session, plan);
    let mut client: Option<Client> = None;
    for number in 0..reading + plan.silent {
        let is_silent = number >= reading;
        if number % CHANNEL_SESSIONS_MAX == 0 || number == reading {
            client = None;
        }
        let shared = match client.take() {
            Some(shared) => shared,
            None if is_silent => connect_narrow(&session.plan.flags.target).await?,
            None => connect(&session.plan.flags.target).await?,
        };
        client = Some(shared.clone());
        // Indexes of silent sessions follow those of the reading sessions.
        let kills = kills.pop_front().unwrap_or_default();
        let of_plan = &session.plan;
        let regions = SessionRegions::new(
            &of_plan.flags.workload,
            &of_plan.params,
            plan,
            (number % reading, reading),
        )?;
        let subscriber = Subscriber::new(Start {
            session: Arc::clone(session),
            regions,
            client: shared,
            times: Arc::clone(times),
            random: QueryRandom::new(of_plan.params.seed, SESSIONS + number),
            kills,
            is_silent,
            quiet: quiet.clone(),
        });
        subscribers.spawn(subscriber.run());
    }
    Ok(reading + plan.silent)
}

/// Random times at which the stream of each reading session is broken.
fn kills(session: &Session, plan: &SubscriptionPlan) -> VecDeque<VecDeque<Duration>> {
    let seconds = session.plan.seconds.unwrap_or(0.0);
    let mut random = QueryRandom::new(session.plan.params.seed, SESSIONS - 1);
    let mut kills = vec![Vec::new(); plan.sessions() as usize];
    for _ in 0..plan.kills {
        let of = random.below(kills.len() as u64) as usize;
        // Within the first 90 % of the run, so that messages follow the break.
        kills[of].push(Duration::from_secs_f64(0.9 * seconds * random.unit()));
    }
    kills.iter_mut().for_each(|moments| moments.sort_unstable());
    kills.into_iter().map(VecDeque::from).collect()
}
