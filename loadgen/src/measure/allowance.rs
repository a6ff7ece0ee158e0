//! Keeps updates and queries in their ratio at full speed.
//!
//! Sent rows earn queries, and sent queries spend them. The query sender waits for earned queries;
//! the row sender waits while too many are unspent.

use tokio::sync::watch;

use crate::shares::UpdateQuery;

/// Shared by the senders of rows and queries of one connection.
#[derive(Debug)]
pub struct Allowance {
    ratio: UpdateQuery,
    /// Number of unspent queries above which the row sender waits.
    backlog_max: u64,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    rows: u64,
    taken: u64,
    /// No more rows will be sent.
    rows_ended: bool,
    /// No more queries will be sent.
    queries_ended: bool,
}

impl Allowance {
    /// An allowance without earned or spent queries.
    #[must_use]
    pub fn new(ratio: UpdateQuery, backlog_max: u64) -> Self {
        Self { ratio, backlog_max, state: watch::Sender::new(State::default()) }
    }

    /// Counts rows that were sent.
    pub fn earn(&self, rows: u64) {
        self.state.send_modify(|state| state.rows += rows);
    }

    /// Waits until at most `backlog_max` earned queries are unspent, or no more queries will be
    /// sent.
    pub async fn caught_up(&self) {
        let mut state = self.state.subscribe();
        let caught_up = |state: &State| {
            let due = self.ratio.queries_due(state.rows).saturating_sub(state.taken);
            state.queries_ended || due <= self.backlog_max
        };
        // The sender half lives in `self`, so the wait cannot fail.
        let _ = state.wait_for(caught_up).await;
    }

    /// Waits until queries are earned; spends and returns at most `most` of them, 0 after the last.
    pub async fn take(&self, most: u64) -> u64 {
        let mut state = self.state.subscribe();
        let due = |state: &State| self.ratio.queries_due(state.rows).saturating_sub(state.taken);
        let _ = state.wait_for(|state| state.rows_ended || due(state) > 0).await;
        let mut taken = 0;
        self.state.send_modify(|state| {
            taken = due(state).min(most);
            state.taken += taken;
        });
        taken
    }

    /// No more rows will be sent; earned queries can still be spent.
    pub fn end_rows(&self) {
        self.state.send_modify(|state| state.rows_ended = true);
    }

    /// No more queries will be sent; releases the row sender.
    pub fn end_queries(&self) {
        self.state.send_modify(|state| state.queries_ended = true);
    }

    /// Waits until no more rows will be sent.
    pub async fn rows_ended(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.rows_ended).await;
    }

    /// Whether no more rows will be sent.
    #[must_use]
    pub fn are_rows_ended(&self) -> bool {
        self.state.borrow().rows_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(ratio: &str, backlog_max: u64) -> Allowance {
        Allowance::new(ratio.parse().unwrap(), backlog_max)
    }

    #[tokio::test]
    async fn the_ratio_holds_to_the_row() {
        let allowance = allowance("100:3", 1_000);
        let mut sum = 0;
        for _ in 0..1_000 {
            allowance.earn(7);
        }
        allowance.end_rows();
        loop {
            match allowance.take(16).await {
                0 => break,
                taken => sum += taken,
            }
        }
        assert_eq!(sum, 7_000 * 3 / 100);
    }

    #[tokio::test]
    async fn the_sender_of_rows_waits_for_queries() {
        let allowance = allowance("1:1", 10);
        allowance.earn(11);
        {
            let waiting = allowance.caught_up();
            tokio::pin!(waiting);
            tokio::select! {
                biased;
                () = &mut waiting => panic!("11 are unspent, 10 may be"),
                () = std::future::ready(()) => {}
            }
            assert_eq!(allowance.take(1).await, 1);
            waiting.await;
        }
        allowance.earn(100);
        allowance.end_queries();
        allowance.caught_up().await;
    }

    #[tokio::test]
    async fn without_queries_in_the_ratio_nothing_is_earned() {
        let allowance = allowance("100:0", 0);
        allowance.earn(1_000_000);
        allowance.caught_up().await;
        allowance.end_rows();
        assert_eq!(allowance.take(256).await, 0);
        assert!(allowance.are_rows_ended());
        allowance.rows_ended().await;
    }
}
