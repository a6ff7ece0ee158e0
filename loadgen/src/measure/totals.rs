//! Sums the tallies of all tasks and derives the summary. Rates end with the last ack or answer and
//! exclude the verifier's time.

use shoal_client::add_counts;
use tokio::time::Instant;

use super::summary::{PastCounts, Summary};
use crate::args::ReportEncoding;
use crate::history::{PastKind, PastTally};
use crate::plan::RunPlan;
use crate::query::QueryTally;
use crate::report::ReportTally;
use crate::report::sender::SentTally;
use crate::subscription::FollowTally;
use crate::tasks::Outcome;
use crate::verify::Verdict;

/// Sums over all connections.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    acks: ReportTally,
    sent: SentTally,
    answers: QueryTally,
    followed: FollowTally,
    past: PastCounts,
    problems: Vec<String>,
}

impl Totals {
    /// Adds the tally of one task.
    pub fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::QueriesSent => {}
            Outcome::Sent(sent) => self.add_sent(sent),
            Outcome::Acked(acks) => self.add_acks(acks),
            Outcome::Answered(answers) => self.add_answers(answers),
            Outcome::AskedPast(past) => self.add_past(past),
        }
    }

    /// Adds the tally of one subscriber.
    pub fn add_followed(&mut self, tally: &FollowTally) {
        self.followed.add(tally);
    }

    fn add_sent(&mut self, sent: SentTally) {
        self.sent.messages += sent.messages;
        self.sent.rows += sent.rows;
        self.sent.bytes += sent.bytes;
        self.sent.behind_rows += sent.behind_rows;
        self.sent.removed += sent.removed;
        self.sent.renamed += sent.renamed;
        // Every connection of a replay reads the whole file.
        self.sent.unreadable_rows = self.sent.unreadable_rows.max(sent.unreadable_rows);
        self.problems.extend(sent.failure);
    }

    fn add_acks(&mut self, acks: ReportTally) {
        self.acks.latency.add(&acks.latency);
        self.acks.latency_sent.add(&acks.latency_sent);
        add_counts(&mut self.acks.rows, &acks.rows);
        self.acks.failed_messages += acks.failed_messages;
        self.acks.last_ack = self.acks.last_ack.max(acks.last_ack);
        self.problems.extend(acks.failures);
    }

    fn add_answers(&mut self, answers: QueryTally) {
        self.answers.latency.add(&answers.latency);
        self.answers.latency_sent.add(&answers.latency_sent);
        self.answers.queries += answers.queries;
        self.answers.failed += answers.failed;
        self.answers.rows += answers.rows;
        self.answers.last_answer = self.answers.last_answer.max(answers.last_answer);
        self.problems.extend(answers.failures);
    }

    fn add_past(&mut self, tally: PastTally) {
        self.past.past_queries += tally.answered;
        self.past.past_rows += tally.rows;
        self.past.failed_past_queries += tally.failed;
        let latency = tally.latency.percentiles();
        match tally.kind {
            PastKind::Trajectory => self.past.trajectory_ms = latency,
            PastKind::AsOf => self.past.as_of_ms = latency,
            PastKind::Passed => self.past.passed_ms = latency,
            PastKind::Replay => self.past.replay_ms = latency,
            PastKind::Density => self.past.density_ms = latency,
        }
        self.problems.extend(tally.failure);
    }

    /// The summary of a run that started at `start`.
    #[must_use]
    pub fn summary(self, plan: &RunPlan, start: Option<Instant>, preloaded_rows: u64) -> Summary {
        let seconds = |end: Option<Instant>| match (start, end) {
            (Some(start), Some(end)) => (end - start).as_secs_f64(),
            _ => 0.0,
        };
        let (update_seconds, query_seconds) =
            (seconds(self.acks.last_ack), seconds(self.answers.last_answer));
        let rows = self.acks.rows;
        let followed = plan.subscription.as_ref();
        let followed = followed.map(|plan| self.followed.followed(plan, start));
        let accepted = rows.applied + rows.duplicate + rows.superseded + rows.late + rows.expired;
        Summary {
            updates_per_s: rate(accepted, update_seconds),
            queries_per_s: rate(self.answers.queries, query_seconds),
            ack_ms: self.acks.latency.percentiles(),
            query_ms: self.answers.latency.percentiles(),
            ack_from_send_ms: self.acks.latency_sent.percentiles(),
            query_from_send_ms: self.answers.latency_sent.percentiles(),
            refused_rows: rows.refused,
            late_rows: rows.late,
            update_seconds,
            query_seconds,
            sent_rows: self.sent.rows,
            applied_rows: rows.applied,
            duplicate_rows: rows.duplicate,
            superseded_rows: rows.superseded,
            expired_rows: rows.expired,
            behind_rows: self.sent.behind_rows,
            preloaded_rows,
            unreadable_rows: self.sent.unreadable_rows,
            removed_objects: self.sent.removed,
            renamed_objects: self.sent.renamed,
            messages: self.sent.messages,
            bytes_per_update: rate(self.sent.bytes, self.sent.rows as f64),
            failed_messages: self.acks.failed_messages,
            queries: self.answers.queries,
            failed_queries: self.answers.failed,
            answer_rows: self.answers.rows,
            followed: followed.unwrap_or_default(),
            past: self.past,
            problems: [self.problems, self.followed.counts.problems].concat(),
            ..of_plan(plan)
        }
    }
}

/// A count over a divisor; 0 for a divisor of 0.
fn rate(count: u64, divisor: f64) -> f64 {
    if divisor > 0.0 { count as f64 / divisor } else { 0.0 }
}

/// The part of a summary that repeats the plan.
fn of_plan(plan: &RunPlan) -> Summary {
    Summary {
        prepared: plan.flags.prepared,
        workload: plan.flags.workload.clone(),
        objects: plan.params.objects,
        seed: plan.params.seed,
        connections: plan.connections(),
        encoding: match plan.flags.encoding {
            ReportEncoding::Rows => "rows",
            ReportEncoding::Block => "block",
        },
        block_plan: (plan.flags.encoding == ReportEncoding::Block)
            .then(|| plan.flags.plans().name()),
        batch_rows: plan.batch_rows,
        update_query: plan.flags.update_query.to_string(),
        query_mix: plan.queries.mix.to_string(),
        window: plan.params.window,
        rate: plan.rate.unwrap_or(0.0),
        ..Summary::default()
    }
}

impl Summary {
    /// Adds the oracle's results.
    pub fn add_verdict(&mut self, verdict: Verdict) {
        self.verified_queries = verdict.queries;
        self.past.verified_past_queries = verdict.past;
        self.verified_acks = verdict.acks;
        self.unverifiable_queries = verdict.unverifiable;
        self.mismatches = verdict.mismatches;
        self.problems.extend(verdict.problems);
    }
}
