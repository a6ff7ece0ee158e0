//! The plan of a run: validated flags and derived values (rows per message, pace, messages in
//! flight, share of answers to verify).

use shoal_codec::{Aim, PlanChoice};
use shoal_workload::{MixShares, Params};

use crate::args::{QueryForm, ReportEncoding, RunArgs, Wanted};
use crate::error::LoadError;
use crate::limits::*;
use crate::measure::Pace;
use crate::shares::QueryMix;
use crate::subscription::SubscriptionPlan;

/// A validated run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The flags. Other fields take precedence over flags that they complete.
    pub flags: RunArgs,
    /// The workload's parameters; shards are connections.
    pub params: Params,
    /// Shares of late, duplicate and bad rows and of removals; all 0 leaves the workload clean.
    pub shares: MixShares,
    /// Duration of sending, seconds; `None`: until the workload ends.
    pub seconds: Option<f64>,
    /// Rows (without updates: queries) per second; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// Every object is placed before the clock starts.
    pub preload: bool,
    /// Rows of one message.
    pub batch_rows: u32,
    /// Queries of one message.
    pub message_queries: u32,
    /// Share of query messages that are compared with the oracle; `None`: no oracle.
    pub verify_share: Option<f64>,
    /// Query kinds and their parameters.
    pub queries: QueryPlan,
    /// The subscribers, if any.
    pub subscription: Option<SubscriptionPlan>,
}

/// Query kinds and their parameters.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// Kinds by weight.
    pub mix: QueryMix,
    /// The projection.
    pub wanted: Wanted,
    /// k of a nearest query.
    pub nearest_k: u32,
    /// Maximum number of objects of a get query.
    pub get_objects: u32,
    /// Whether objects are asked for by name.
    pub is_named: bool,
}

impl RunPlan {
    /// Validates flags and completes them.
    ///
    /// # Errors
    /// [`LoadError::Usage`] names the flag and its permitted values.
    pub fn new(args: RunArgs) -> Result<Self, LoadError> {
        check(&args)?;
        let replay = args.workload.starts_with("replay:");
        let ratio = args.update_query;
        let rate = (args.rate > 0.0).then_some(args.rate);
        let verify_share = args.verify.then(|| {
            // At one comparison per object, query and nanosecond, 100,000 queries of a run take
            // seconds, not hours.
            let affordable = if replay { 1.0 } else { 1e5 / args.objects as f64 };
            args.verify_share.unwrap_or_else(|| affordable.min(1.0))
        });
        let idle_rows = ratio.updates == 0;
        let seconds = args.seconds.or(match (idle_rows, replay) {
            (true, _) if args.queries > 0 => Some(0.0),
            (false, true) => None,
            _ => Some(10.0),
        });
        let subscription = SubscriptionPlan::new(&args.subscribers, seconds)?;
        let mut plan = Self {
            params: params(&args),
            shares: shares(&args),
            seconds,
            rate,
            preload: args.preload || (idle_rows && args.fleet.is_none()),
            batch_rows: 0,
            message_queries: 0,
            verify_share,
            queries: QueryPlan {
                mix: args.query_mix,
                wanted: args.want.unwrap_or(if args.verify { Wanted::Mixed } else { Wanted::Ids }),
                nearest_k: args.nearest_k,
                get_objects: args.get_objects,
                is_named: args.named,
            },
            subscription,
            flags: args,
        };
        let most = if plan.flags.verify { BATCH_ROWS_VERIFY } else { BATCH_ROWS_DEFAULT };
        plan.batch_rows = plan.flags.batch.unwrap_or_else(|| paced_size(plan.rows_per_s(), most));
        plan.message_queries = match plan.flags.ask {
            QueryForm::Single => 1,
            QueryForm::Batch => plan
                .flags
                .query_batch
                .unwrap_or_else(|| paced_size(plan.queries_per_s(), MESSAGE_QUERIES_DEFAULT)),
        };
        Ok(plan)
    }

    /// Connections.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.params.shards
    }

    /// The workload's parameters for one connection.
    #[must_use]
    pub fn params_of(&self, connection: u32) -> Params {
        Params { shard: connection, ..self.params.clone() }
    }

    /// Whether rows are sent while the clock runs.
    #[must_use]
    pub fn sends_rows(&self) -> bool {
        self.flags.update_query.updates > 0
    }

    /// Whether the run sends queries.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.flags.update_query.queries > 0 || self.flags.queries > 0
    }

    /// The server that is queried.
    #[must_use]
    pub fn queried(&self) -> &str {
        self.flags.follower.as_deref().unwrap_or(&self.flags.target)
    }

    /// Share of verified query messages that have a token. At a leader it is a half, so that both
    /// forms are tested. At a follower it is 1, because a follower may lag behind the last ack and
    /// the model keeps no earlier states.
    #[must_use]
    pub fn token_share(&self) -> f64 {
        if self.flags.follower.is_some() { 1.0 } else { 0.5 }
    }

    /// Minimum number of queries of a connection.
    #[must_use]
    pub fn queries_min_of(&self, connection: u32) -> u64 {
        let connections = u64::from(self.connections());
        let extra = u64::from(u64::from(connection) < self.flags.queries % connections);
        self.flags.queries / connections + extra
    }

    /// The pace of the reports of one connection; `None` at full speed.
    #[must_use]
    pub fn report_pace(&self, connection: u32) -> Option<Pace> {
        let rate = self.rows_per_s()?;
        Some(Pace::new(self.batch_rows, rate, connection, self.connections()))
    }

    /// The pace of the messages of queries of one connection; `None` at full speed.
    #[must_use]
    pub fn query_pace(&self, connection: u32) -> Option<Pace> {
        let rate = self.queries_per_s().filter(|rate| *rate > 0.0)?;
        Some(Pace::new(self.message_queries, rate, connection, self.connections()))
    }

    /// Maximum number of reports of one connection in flight.
    #[must_use]
    pub fn reports_in_flight_max(&self) -> u32 {
        match (self.verify_share, self.rate) {
            (Some(_), _) => REPORTS_IN_FLIGHT_VERIFY_MAX,
            (None, Some(_)) => REPORTS_IN_FLIGHT_PACED_MAX,
            (None, None) => REPORTS_IN_FLIGHT_MAX,
        }
    }

    /// Maximum number of query messages of one connection in flight.
    #[must_use]
    pub fn query_messages_in_flight_max(&self) -> u32 {
        if self.rate.is_some() {
            QUERY_MESSAGES_IN_FLIGHT_PACED_MAX
        } else {
            QUERY_MESSAGES_IN_FLIGHT_MAX
        }
    }

    /// Rows per second of one connection.
    fn rows_per_s(&self) -> Option<f64> {
        Some(self.rate? / f64::from(self.connections()))
    }

    /// Queries per second of one connection.
    fn queries_per_s(&self) -> Option<f64> {
        let share = match self.flags.update_query.updates {
            0 => 1.0,
            updates => f64::from(self.flags.update_query.queries) / f64::from(updates),
        };
        Some(self.rows_per_s()? * share)
    }
}

/// Rows or queries of one message: `default`, or fewer at a low rate, so that
/// [`PACED_MESSAGES_PER_S_MIN`] messages are sent per second.
fn paced_size(per_second: Option<f64>, default: u32) -> u32 {
    match per_second {
        None => default,
        Some(rate) => ((rate / PACED_MESSAGES_PER_S_MIN).ceil() as u32).clamp(1, default),
    }
}

/// The workload's parameters.
fn params(args: &RunArgs) -> Params {
    let shape = &args.shape;
    Params {
        objects: args.objects,
        seed: args.seed,
        step_ms: args.step_ms,
        speed_range: shape.speed_range,
        window: args.window,
        shards: args.connections,
        hotspots: shape.hotspots,
        speeds: shape.speeds,
        speed_max_m_per_step: shape.speed_max_m_per_step,
        silence_max_steps: shape.silence_max_steps,
        windows_follow: shape.windows_follow,
        destinations: shape.destinations,
        update_interval_ms: shape.update_interval_ms,
        speed_unit: shape.speed_unit,
        fan_out: shape.fan_out,
        ..Params::default()
    }
}

/// Shares of late, duplicate, bad and removed rows.
fn shares(args: &RunArgs) -> MixShares {
    MixShares {
        late: args.late,
        late_delay_ms: args.late_delay_ms,
        duplicate: args.duplicate,
        duplicate_delay_ms: args.duplicate_delay_ms,
        bad: args.bad,
        removal: args.remove,
        absence_ms: args.absence_ms,
    }
}

/// Rejects flags outside their range and flags that contradict each other.
fn check(args: &RunArgs) -> Result<(), LoadError> {
    let usage = |text: String| Err(LoadError::Usage(text));
    let whole = [
        ("connections", args.connections, 1, CONNECTIONS_MAX),
        ("batch", args.batch.unwrap_or(1), 1, BATCH_ROWS_MAX),
        ("query-batch", args.query_batch.unwrap_or(1), 1, MESSAGE_QUERIES_MAX),
        ("nearest-k", args.nearest_k, 0, shoal_engine::limits::NEAREST_MAX as u32),
        ("get-objects", args.get_objects, 1, 1_024),
    ];
    for (flag, value, min, max) in whole {
        if !(min..=max).contains(&value) {
            return usage(format!("--{flag} is {value}, it must be {min} to {max}"));
        }
    }
    let shares = [
        ("verify-share", args.verify_share.unwrap_or(1.0)),
        ("late", args.late),
        ("duplicate", args.duplicate),
        ("bad", args.bad),
        ("remove", args.remove),
        ("rename", args.rename),
    ];
    for (flag, value) in shares {
        if !(0.0..=1.0).contains(&value) {
            return usage(format!("--{flag} is {value}, it must be a share of 0 to 1"));
        }
    }
    let amounts = [("rate", args.rate), ("seconds", args.seconds.unwrap_or(0.0))];
    for (flag, value) in amounts {
        if !(value.is_finite() && value >= 0.0) {
            return usage(format!("--{flag} is {value}, it must be 0 or more"));
        }
    }
    if args.ttl_ms < 0 {
        return usage(format!("--ttl-ms is {}, it must be 0 or more", args.ttl_ms));
    }
    if args.prepared && args.encoding == ReportEncoding::Rows {
        return usage("--prepared needs --encoding block: rows are not made beforehand".to_owned());
    }
    if args.block_plan != PlanChoice::Raw && args.encoding == ReportEncoding::Rows {
        let plan = args.block_plan;
        return usage(format!("--block-plan {plan} needs --encoding block: rows have no plan"));
    }
    if args.block_aim != Aim::Fast && !matches!(args.block_plan, PlanChoice::Planned(_)) {
        let aim = args.block_aim;
        return usage(format!("--block-aim {aim} needs --block-plan planned"));
    }
    if args.prepared && args.remove > 0.0 {
        return usage("--prepared takes no --remove: removals are not part of a block".to_owned());
    }
    if args.rename > 0.0 && args.remove == 0.0 {
        return usage("--rename needs --remove: removed objects get new names".to_owned());
    }
    if args.verify_share.is_some() && !args.verify {
        return usage("--verify-share needs --verify".to_owned());
    }
    if args.history_queries > 0 && args.verify && args.fleet.is_some() {
        return usage(
            "--history-queries with --verify takes no --fleet: the past of a fleet before the run \
             is not known"
                .to_owned(),
        );
    }
    params(args).check().map_err(|error| LoadError::Usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{CommandLine, LoadCommand};

    fn plan(flags: &str) -> Result<RunPlan, LoadError> {
        let words = ["shoal-loadgen", "run"].into_iter().chain(flags.split_whitespace());
        let command = CommandLine::try_parse_from(words).unwrap().command;
        let LoadCommand::Run(args) = command else { panic!("not a run") };
        RunPlan::new(*args)
    }

    #[test]
    fn without_flags_it_runs_uniform_at_full_speed() {
        let plan = plan("").unwrap();
        assert_eq!((plan.batch_rows, plan.message_queries), (8_192, 256));
        assert_eq!((plan.seconds, plan.rate, plan.verify_share), (Some(10.0), None, None));
        assert!(plan.report_pace(0).is_none() && plan.query_pace(0).is_none());
        assert!(!plan.preload && plan.sends_rows() && plan.asks());
    }

    #[test]
    fn a_low_rate_makes_small_messages_and_a_high_one_full_ones() {
        let low = plan("--rate 1000 --connections 2").unwrap();
        assert_eq!((low.batch_rows, low.message_queries), (5, 1));
        let high = plan("--rate 10000000 --connections 2").unwrap();
        assert_eq!((high.batch_rows, high.message_queries), (8_192, 256));
        assert_eq!(plan("--rate 10 --batch 77").unwrap().batch_rows, 77);
    }

    #[test]
    fn without_updates_the_rate_counts_queries_and_objects_are_placed_first() {
        let idle = plan("--update-query 0:1 --rate 100 --connections 1 --ask single").unwrap();
        assert!(idle.preload && !idle.sends_rows());
        assert_eq!(idle.query_pace(0), Some(Pace::new(1, 100.0, 0, 1)));
        assert!(!plan("--update-query 0:1 --fleet mine").unwrap().preload);
        assert_eq!(plan("--update-query 0:1 --queries 9").unwrap().seconds, Some(0.0));
        assert!(plan("--update-query 5:0 --rate 100").unwrap().query_pace(0).is_none());
    }

    #[test]
    fn verify_takes_a_share_that_ends_in_time() {
        assert_eq!(plan("--verify").unwrap().verify_share, Some(1.0));
        let large = plan("--verify --objects 1000000").unwrap();
        assert_eq!(large.verify_share, Some(0.1));
        assert_eq!(large.reports_in_flight_max(), REPORTS_IN_FLIGHT_VERIFY_MAX);
        let replay = plan("--verify --workload replay:x.csv --objects 1000000").unwrap();
        assert_eq!((replay.verify_share, replay.seconds), (Some(1.0), None));
    }

    #[test]
    fn least_queries_are_divided_over_connections() {
        let plan = plan("--queries 10 --connections 4").unwrap();
        let shares: Vec<_> = (0..4).map(|connection| plan.queries_min_of(connection)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }

    #[test]
    fn contradictions_and_ranges_are_named() {
        for (flags, word) in [
            ("--prepared", "--encoding block"),
            ("--prepared --encoding block --remove 0.1", "--remove"),
            ("--block-plan planned", "--encoding block"),
            ("--named --rename 0.5", "--remove"),
            ("--named --remove 0.1 --rename 2", "--rename"),
            ("--verify-share 0.5", "--verify"),
            ("--history-queries 5 --verify --fleet mine", "--history-queries"),
            ("--connections 0", "connections is 0"),
            ("--batch 0", "batch is 0"),
            ("--batch 2000000", "262144"),
            ("--query-batch 5000", "4096"),
            ("--late 1.5", "--late"),
            ("--rate -1", "--rate"),
            ("--seconds nan", "--seconds"),
            ("--objects 0", "objects"),
            ("--window 0", "window"),
            ("--ttl-ms=-1", "--ttl-ms"),
            ("--silent-subscribers 3", "--subscriptions"),
            ("--subscriptions 5 --session-regions 0", "--session-regions"),
            ("--subscriptions 5000 --session-regions 1", "--session-regions"),
            ("--subscriptions 5 --kill-subscribers 2000000", "--kill-subscribers"),
            ("--subscriptions 5 --kill-subscribers 2 --workload replay:x.csv", "--seconds"),
        ] {
            let flags = flags.replace("--rate -1", "--rate=-1");
            let message = plan(&flags).unwrap_err().to_string();
            assert!(message.contains(word), "{flags}: {message}");
        }
    }
}
