//! How far the rows of a cycle may move the event clock of a fleet.
//!
//! One client alone must not move the clock far ahead: the clock may lead a time that a second
//! client confirms by at most the lead. Connections of one token are one client, unless no other
//! token reports. The bound is passed to the engine as
//! [`shoal_engine::CycleInput::event_clock_max_ms`]; the log stores the resulting clock, so that
//! recovery and followers do not compute the bound again.

use std::collections::HashMap;

use super::newest_times::NewestTimes;
use crate::limits::{EVENT_CLOCK_CLIENT_MS, EVENT_CLOCK_CLIENTS_MAX};
use crate::shares::{Party, Requester};

/// The newest times of the clients that have reported lately.
#[derive(Debug)]
pub(super) struct EventClock {
    /// How far beyond a confirmed time the clock may move.
    lead_ms: i64,
    clients: HashMap<Requester, ReportingClient>,
}

#[derive(Debug)]
struct ReportingClient {
    times: NewestTimes,
    /// Wall clock at its last report, Unix milliseconds.
    reported_ms: i64,
}

impl EventClock {
    pub(super) fn new(lead_ms: i64) -> Self {
        Self { lead_ms, clients: HashMap::new() }
    }

    /// Returns the upper bound of the event clock for a cycle with these rows.
    ///
    /// The clock never leads the wall clock by more than the lead. If it is at most the lead behind
    /// the wall clock, no other bound applies. Otherwise it leads a confirmed time by at most the
    /// lead:
    /// - with several clients, the second greatest of their newest times, where a client is a token
    ///   with all its connections, or a connection without a token;
    /// - with several connections of a single token, the same with connections as clients;
    /// - with a single client, the newest time of an object other than that of its newest row, or,
    ///   if it reports only one object, that object's newest time before the last;
    /// - with a single row, the clock, or the row's own time if there is no clock yet.
    ///
    /// A client counts until it has not reported for [`EVENT_CLOCK_CLIENT_MS`].
    pub(super) fn bound_ms(
        &mut self,
        reported: &[(Requester, NewestTimes)],
        clock_ms: i64,
        wall_ms: i64,
    ) -> i64 {
        for (client, times) in reported.iter().filter(|(_, times)| times.newest_ms().is_some()) {
            let entry = self.clients.entry(*client);
            let state = entry.or_insert(ReportingClient { times: *times, reported_ms: wall_ms });
            state.times.merge(times);
            state.reported_ms = wall_ms;
        }
        // After a backward step of the wall clock, clients are still forgotten within this span.
        let span_ms = EVENT_CLOCK_CLIENT_MS;
        self.clients.retain(|_, client| wall_ms.abs_diff(client.reported_ms) <= span_ms);
        self.forget_oldest();
        if clock_ms >= wall_ms.saturating_sub(self.lead_ms) {
            return wall_ms.saturating_add(self.lead_ms);
        }
        let confirmed_ms = self.confirmed_ms().unwrap_or(match clock_ms {
            0 => self.newest_ms().unwrap_or(0),
            _ => clock_ms,
        });
        confirmed_ms.min(wall_ms).saturating_add(self.lead_ms)
    }

    fn newest_ms(&self) -> Option<i64> {
        self.clients.values().filter_map(|client| client.times.newest_ms()).max()
    }

    fn confirmed_ms(&self) -> Option<i64> {
        let mut clients = self.clients.values();
        if self.clients.len() == 1 {
            return clients.next()?.times.confirmed_ms();
        }
        self.second_newest_ms(|client| client.party()).or_else(|| self.second_newest_ms(|it| it))
    }

    /// The second greatest of the newest times of these groups of connections; `None` with a single
    /// group.
    fn second_newest_ms<G: Eq>(&self, group: impl Fn(Requester) -> G) -> Option<i64> {
        let (mut newest, mut second_ms) = (None, None);
        for (client, state) in &self.clients {
            let next = (state.times.newest_ms(), group(*client));
            let (first_ms, first) = newest.get_or_insert((None, group(*client)));
            if *first == next.1 {
                *first_ms = (*first_ms).max(next.0);
            } else if next.0 > *first_ms {
                second_ms = *first_ms;
                newest = Some(next);
            } else {
                second_ms = second_ms.max(next.0);
            }
        }
        second_ms
    }

    /// Limits the number of clients; drops those with the oldest times. Two of each token remain,
    /// and of as many tokens as the limit allows, so that many connections of one token do not
    /// displace those that bound it.
    fn forget_oldest(&mut self) {
        if self.clients.len() <= EVENT_CLOCK_CLIENTS_MAX {
            return;
        }
        let times = self.clients.iter().map(|(client, state)| (state.times.newest_ms(), *client));
        let mut times: Vec<_> = times.collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let mut of_party: HashMap<Party, usize> = HashMap::new();
        let (first, later): (Vec<_>, Vec<_>) = times.into_iter().partition(|(_, client)| {
            let held = of_party.entry(client.party()).or_default();
            *held += 1;
            *held <= 2
        });
        for (_, client) in first.iter().chain(&later).skip(EVENT_CLOCK_CLIENTS_MAX / 2) {
            self.clients.remove(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAD_MS: i64 = 1_000;
    /// Long after the event times: a replay.
    const WALL_MS: i64 = 1_000_000_000;

    fn times(rows: &[(i64, u64)]) -> NewestTimes {
        let mut times = NewestTimes::default();
        rows.iter().for_each(|(time_ms, object)| times.add(*time_ms, *object));
        times
    }

    /// The bound of a cycle with a message of each client, its connection and its rows.
    fn bound(clock: &mut EventClock, sent: &[(u16, &[(i64, u64)])], clock_ms: i64) -> i64 {
        let sent = sent.iter().map(|(client, rows)| (Requester::at(*client), times(rows)));
        clock.bound_ms(&sent.collect::<Vec<_>>(), clock_ms, WALL_MS)
    }

    #[test]
    fn one_client_leads_the_second_newest_by_the_lead() {
        let mut clock = EventClock::new(LEAD_MS);
        let honest = [(5_000, 1), (4_900, 2)];
        assert_eq!(bound(&mut clock, &[(1, &honest), (2, &[(64_000, 9), (64_000, 8)])], 0), 6_000);
        // The second client repeats its claim. The bound still depends on the first client.
        assert_eq!(bound(&mut clock, &[(2, &[(64_001, 9), (64_002, 8)])], 5_000), 6_000);
        assert_eq!(bound(&mut clock, &[(1, &[(5_700, 1)])], 5_000), 6_700);
        // Two clients that agree move the bound.
        assert_eq!(bound(&mut clock, &[(3, &[(64_000, 7)])], 5_700), 65_000);
    }

    #[test]
    fn connections_of_a_token_are_one_client_beside_others() {
        let mut clock = EventClock::new(LEAD_MS);
        let mut bound = |sent: &[(Requester, i64)], clock_ms| {
            let sent = sent.iter().map(|(client, time_ms)| (*client, times(&[(*time_ms, 1)])));
            clock.bound_ms(&sent.collect::<Vec<_>>(), clock_ms, WALL_MS)
        };
        let ahead = |port| (Requester::of_token(7, port), 64_000);
        assert_eq!(bound(&[(Requester::of_token(8, 1), 5_000), ahead(2), ahead(3)], 0), 6_000);
        // Order does not matter, nor how many connections agree.
        let many: Vec<_> = (10..40).map(ahead).collect();
        assert_eq!(bound(&many, 5_000), 6_000);
        assert_eq!(bound(&[(Requester::at(4), 5_800)], 5_000), 6_800);
        // Very many connections do not displace the others.
        let many: Vec<_> = (100..100 + 2 * EVENT_CLOCK_CLIENTS_MAX as u16).map(ahead).collect();
        assert_eq!(bound(&many, 5_000), 6_800);
        // Alone, the connections of a token confirm each other.
        let mut clock = EventClock::new(LEAD_MS);
        let sent = [ahead(2), (Requester::of_token(7, 3), 5_000)];
        let sent = sent.map(|(client, time_ms)| (client, times(&[(time_ms, 1)])));
        assert_eq!(clock.bound_ms(&sent, 0, WALL_MS), 6_000);
    }

    #[test]
    fn one_row_of_a_single_client_waits_for_a_second() {
        let mut clock = EventClock::new(LEAD_MS);
        assert_eq!(bound(&mut clock, &[(1, &[(5_000, 1)])], 0), 6_000);
        assert_eq!(bound(&mut clock, &[(1, &[(900_000, 2)])], 5_000), 6_000);
        assert_eq!(bound(&mut clock, &[(1, &[(900_001, 2)])], 6_000), 6_000);
        assert_eq!(bound(&mut clock, &[(1, &[(6_500, 1)])], 6_000), 7_500);
        assert_eq!(bound(&mut clock, &[(1, &[(900_000, 1)])], 6_500), 901_000);
    }

    #[test]
    fn a_single_object_follows_its_time_before() {
        let mut clock = EventClock::new(LEAD_MS);
        assert_eq!(bound(&mut clock, &[(1, &[(5_000, 1)])], 0), 6_000);
        assert_eq!(bound(&mut clock, &[(1, &[(900_000, 1)])], 5_000), 6_000);
        assert_eq!(bound(&mut clock, &[(1, &[(950_000, 1)])], 6_000), 901_000);
        // After a restart, a single row may be a mistake, so the clock may move by the lead only.
        assert_eq!(bound(&mut EventClock::new(LEAD_MS), &[(1, &[(950_000, 1)])], 6_000), 7_000);
    }

    #[test]
    fn a_message_of_several_objects_is_followed_at_once() {
        let mut clock = EventClock::new(LEAD_MS);
        let rows: Vec<(i64, u64)> = (0..500).map(|row| (row * 7_200, row as u64 % 40)).collect();
        assert_eq!(bound(&mut clock, &[(1, &rows)], 0), 498 * 7_200 + LEAD_MS);
    }

    #[test]
    fn a_live_clock_is_bounded_by_the_wall_clock_alone() {
        let mut clock = EventClock::new(LEAD_MS);
        let sent = |time_ms| [(Requester::at(1), times(&[(time_ms, 1), (time_ms, 2)]))];
        let ahead = sent(WALL_MS + 59_000);
        assert_eq!(clock.bound_ms(&ahead, WALL_MS - 5_000, WALL_MS), WALL_MS + LEAD_MS);
        // A client that lags, or repeats the past, does not hold the clock back.
        let past = [(Requester::at(2), times(&[(WALL_MS - 500_000, 3)]))];
        assert_eq!(clock.bound_ms(&past, WALL_MS - 400, WALL_MS), WALL_MS + LEAD_MS);
        assert_eq!(clock.bound_ms(&past, WALL_MS - 1_001, WALL_MS), WALL_MS - 499_000);
    }

    #[test]
    fn silent_clients_are_forgotten_and_their_number_is_bounded() {
        let mut clock = EventClock::new(LEAD_MS);
        bound(&mut clock, &[(1, &[(5_000, 1)]), (2, &[(9_000, 2)])], 0);
        let sent = [(Requester::at(2), times(&[(9_000, 2), (9_500, 3)]))];
        let at =
            |clock: &mut EventClock, after_ms| clock.bound_ms(&sent, 5_000, WALL_MS + after_ms);
        let span_ms = EVENT_CLOCK_CLIENT_MS as i64;
        assert_eq!(at(&mut clock, span_ms), 6_000);
        assert_eq!(at(&mut clock, span_ms + 1), 10_000);
        let many = EVENT_CLOCK_CLIENTS_MAX as u16 * 3;
        for client in 0..many {
            bound(&mut clock, &[(client, &[(10_000 + i64::from(client), 1)])], 5_000);
        }
        assert!(clock.clients.len() <= EVENT_CLOCK_CLIENTS_MAX);
        assert_eq!(bound(&mut clock, &[], 5_000), 10_000 + i64::from(many) - 2 + LEAD_MS);
        bound(&mut clock, &[(1, &[])], 5_000);
    }
}
