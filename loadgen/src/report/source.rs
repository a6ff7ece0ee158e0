//! The fixes and removals of a connection.
//!
//! The fixes come from a workload, with late, duplicate and bad rows. Their times are shifted for a
//! reused fleet, and attributes are optional. Removed objects may get new names. A batch ends before
//! the next report of an object that it removes. If blocks are sent, a batch also ends where its
//! times exceed the range of a block.

use std::collections::{HashMap, HashSet};

use shoal_client::block_rows;
use shoal_engine::limits::{TIME_MAX_MS, TIME_MIN_MS};
use shoal_workload::{Event, Fix, Mix, Workload};

use crate::limits::REMOVALS_MAX;
use crate::names::renamed;
use crate::query::chooser::QueryRandom;

/// A connection's stream of fixes and removals.
pub struct Source {
    stream: Stream,
    shift_ms: i64,
    is_bare: bool,
    is_block: bool,
    /// Drawn fixes that are not yet returned.
    drawn: Vec<Fix>,
    given: usize,
    /// Objects to remove after the last drawn fix.
    removals: Vec<u64>,
}

/// The source of events.
enum Stream {
    /// Fixes only.
    Clean(Box<dyn Workload>),
    /// Fixes and removals, and a lookahead event.
    Mixed(Box<Mix>, Option<Event>, Renames),
}

/// Gives removed objects new names: later events of an object concern another one.
#[derive(Clone, Debug)]
pub struct Renames {
    share: f64,
    random: QueryRandom,
    /// What the events of an object concern now, if it was renamed.
    current: HashMap<u64, u64>,
    count: u64,
}

impl Renames {
    /// Renames a share of the removed objects.
    #[must_use]
    pub fn new(share: f64, seed: u64, connection: u32) -> Self {
        // Connections of queries have the numbers below and above.
        let random = QueryRandom::new(seed, u32::MAX / 2 + connection);
        Self { share, random, current: HashMap::new(), count: 0 }
    }

    /// What events of an object concern.
    fn current(&self, object: u64) -> u64 {
        self.current.get(&object).copied().unwrap_or(object)
    }

    /// Records the removal of an object; returns what was removed.
    fn remove(&mut self, object: u64) -> u64 {
        let removed = self.current(object);
        let is_renamed = self.share > 0.0 && self.random.unit() < self.share;
        if let Some(next) = renamed(removed).filter(|_| is_renamed) {
            self.current.insert(object, next);
            self.count += 1;
        }
        removed
    }
}

impl Source {
    /// A stream that adds `shift_ms` to every time; `is_block` cuts batches for blocks.
    #[must_use]
    pub fn clean(
        workload: Box<dyn Workload>,
        shift_ms: i64,
        is_bare: bool,
        is_block: bool,
    ) -> Self {
        Self::new(Stream::Clean(workload), shift_ms, is_bare, is_block)
    }

    /// The same for a mixed workload.
    #[must_use]
    pub fn mixed(mix: Mix, renames: Renames, shift_ms: i64, is_bare: bool, is_block: bool) -> Self {
        Self::new(Stream::Mixed(Box::new(mix), None, renames), shift_ms, is_bare, is_block)
    }

    fn new(stream: Stream, shift_ms: i64, is_bare: bool, is_block: bool) -> Self {
        Self {
            stream,
            shift_ms,
            is_bare,
            is_block,
            drawn: Vec::new(),
            given: 0,
            removals: Vec::new(),
        }
    }

    /// Returns up to `rows` fixes and the objects to remove after them; no fixes at the end.
    pub fn next(&mut self, rows: usize) -> (&[Fix], &[u64]) {
        if self.given == self.drawn.len() {
            self.draw(rows);
        }
        let left = &self.drawn[self.given..];
        let length = self.cut(&left[..left.len().min(rows)]);
        let from = self.given;
        self.given += length;
        let is_last = self.given == self.drawn.len();
        let removals = if is_last { self.removals.as_slice() } else { &[] };
        (&self.drawn[from..self.given], removals)
    }

    /// Returns the error that ended the workload, if any, and the number of unreadable rows.
    pub fn end(&mut self) -> (Option<String>, u64) {
        let end = |workload: &dyn Workload| {
            (workload.failure().map(ToString::to_string), workload.unreadable_rows())
        };
        match &mut self.stream {
            Stream::Clean(workload) => end(workload.as_ref()),
            Stream::Mixed(mix, ..) => end(mix.workload()),
        }
    }

    /// Number of renames so far.
    #[must_use]
    pub fn renames(&self) -> u64 {
        match &self.stream {
            Stream::Clean(_) => 0,
            Stream::Mixed(_, _, renames) => renames.count,
        }
    }

    fn draw(&mut self, rows: usize) {
        self.drawn.clear();
        self.removals.clear();
        self.given = 0;
        match &mut self.stream {
            Stream::Clean(workload) => {
                workload.fill(rows, &mut self.drawn);
            }
            Stream::Mixed(mix, ahead, renames) => {
                draw_mixed(mix, ahead, rows, &mut self.drawn, &mut self.removals);
                for fix in &mut self.drawn {
                    fix.object = renames.current(fix.object);
                }
                for object in &mut self.removals {
                    *object = renames.remove(*object);
                }
            }
        }
        if self.shift_ms != 0 || self.is_bare {
            for fix in &mut self.drawn {
                if is_acceptable_ms(fix.time_ms) {
                    fix.time_ms = fix.time_ms.saturating_add(self.shift_ms);
                }
                if self.is_bare {
                    (fix.speed_mps, fix.heading_deg) = (None, None);
                }
            }
        }
    }

    /// Number of fixes that fit one message.
    fn cut(&self, fixes: &[Fix]) -> usize {
        if self.is_block { block_rows(fixes.iter().map(|fix| fix.time_ms)) } else { fixes.len() }
    }
}

/// Whether an event time is in the range that a server can accept. Callers do not shift times
/// outside it, which are invalid on purpose.
pub(super) fn is_acceptable_ms(time_ms: i64) -> bool {
    (TIME_MIN_MS..=TIME_MAX_MS).contains(&time_ms)
}

/// Draws fixes and subsequent removals; later events of removed objects are deferred.
fn draw_mixed(
    mix: &mut Mix,
    ahead: &mut Option<Event>,
    rows: usize,
    fixes: &mut Vec<Fix>,
    removals: &mut Vec<u64>,
) {
    let mut removed = HashSet::new();
    while fixes.len() < rows && removals.len() < REMOVALS_MAX {
        match ahead.take().or_else(|| mix.next()) {
            None => return,
            Some(Event::Remove(object)) if removed.insert(object) => removals.push(object),
            Some(Event::Fix(fix)) if !removed.contains(&fix.object) => fixes.push(fix),
            Some(event) => {
                *ahead = Some(event);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shoal_codec::limits::TIME_SPAN_MS_MAX;
    use shoal_workload::{MixShares, Params, START_MS, Window, WorkloadSpace};

    use super::*;

    /// One fix per time.
    struct Times(Vec<i64>);

    impl Workload for Times {
        fn space(&self) -> WorkloadSpace {
            WorkloadSpace::Geographic
        }

        fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize {
            let rows = rows.min(self.0.len());
            out.extend(self.0.drain(..rows).map(|time_ms| Fix {
                object: 1,
                time_ms,
                x: 0.0,
                y: 0.0,
                speed_mps: Some(1.0),
                heading_deg: Some(1.0),
            }));
            rows
        }

        fn window(&mut self) -> Window {
            Window { west: 0.0, south: 0.0, east: 0.0, north: 0.0 }
        }
    }

    fn lengths(source: &mut Source, rows: usize) -> Vec<usize> {
        std::iter::from_fn(|| Some(source.next(rows).0.len()).filter(|rows| *rows > 0)).collect()
    }

    #[test]
    fn batches_for_blocks_are_cut_at_gaps_and_nothing_is_lost() {
        let far = i64::from(TIME_SPAN_MS_MAX) + 100;
        let times = vec![0, 5, far, far + 1, 3, 4, 5];
        let mut source = Source::clean(Box::new(Times(times.clone())), 0, false, true);
        assert_eq!(lengths(&mut source, 100), [2, 2, 3]);
        let mut source = Source::clean(Box::new(Times(times)), 0, false, false);
        assert_eq!(lengths(&mut source, 3), [3, 3, 1]);
    }

    #[test]
    fn times_are_shifted_and_attributes_left_out() {
        let mut source = Source::clean(Box::new(Times(vec![START_MS, 5])), 100, true, false);
        let fixes = source.next(9).0;
        assert_eq!((fixes[0].time_ms, fixes[0].speed_mps), (START_MS + 100, None));
        assert_eq!((fixes[1].time_ms, fixes[1].heading_deg), (5, None), "wrong on purpose");
    }

    #[test]
    fn calls_divide_a_workload_without_changing_it() {
        let open = || {
            let params = Params { objects: 10, ..Params::default() };
            let workload = shoal_workload::open("uniform", &params).unwrap();
            Source::clean(workload, 0, false, true)
        };
        let whole = open().next(30).0.to_vec();
        let mut parts = open();
        let parts: Vec<_> = (0..10).flat_map(|_| parts.next(3).0.to_vec()).collect();
        assert_eq!(whole, parts);
    }

    #[test]
    fn an_object_comes_back_only_after_the_message_that_it_was_removed_behind() {
        let params = Params { objects: 20, ..Params::default() };
        let workload = shoal_workload::open("uniform", &params).unwrap();
        let shares = MixShares {
            removal: 0.2,
            absence_ms: 1_500,
            duplicate: 0.3,
            duplicate_delay_ms: 700,
            ..MixShares::default()
        };
        let mix = || {
            let workload = shoal_workload::open("uniform", &params).unwrap();
            Mix::new(workload, shares, 4).unwrap()
        };
        let expected: Vec<_> = mix().take(5_000).collect();
        let (mix_of, renames) = (Mix::new(workload, shares, 4).unwrap(), Renames::new(0.0, 1, 0));
        let mut source = Source::mixed(mix_of, renames, 0, false, false);
        let mut got = Vec::new();
        let mut removed = 0;
        while got.len() < 6_000 {
            let (fixes, removals) = source.next(64);
            assert!(!fixes.is_empty() || !removals.is_empty());
            removed += removals.len();
            got.extend(fixes.iter().copied().map(Event::Fix));
            got.extend(removals.iter().copied().map(Event::Remove));
        }
        assert!(removed > 100, "{removed}");
        let of = |events: &[Event], object: u64| -> Vec<Event> {
            let is_of = |event: &&Event| match event {
                Event::Fix(fix) => fix.object == object,
                Event::Remove(removed) => *removed == object,
            };
            events.iter().filter(is_of).copied().collect()
        };
        for object in 0..20 {
            let (expected, got) = (of(&expected, object), of(&got, object));
            assert!(got.starts_with(&expected), "the order of object {object} is kept");
        }
    }

    #[test]
    fn a_renamed_object_never_has_its_former_name_again() {
        let params = Params { objects: 20, ..Params::default() };
        let workload = shoal_workload::open("uniform", &params).unwrap();
        let shares = MixShares { removal: 0.1, absence_ms: 2_000, ..MixShares::default() };
        let (mix, renames) = (Mix::new(workload, shares, 4).unwrap(), Renames::new(0.5, 1, 0));
        let mut source = Source::mixed(mix, renames, 0, false, false);
        let (mut removed, mut kept) = (HashSet::new(), 0);
        let mut renames = HashMap::new();
        for _ in 0..500 {
            let (fixes, removals) = source.next(64);
            for fix in fixes {
                let (base, now) = (fix.object & 0xffff, fix.object >> 48);
                let before = renames.insert(base, now).unwrap_or(0);
                assert!(now == before || now == before + 1, "{before} {now}");
                kept += u64::from(removed.remove(&base) && now == before);
            }
            removed.extend(removals.iter().map(|object| object & 0xffff));
        }
        let sum: u64 = renames.values().sum();
        assert!(sum > 100 && kept > 100, "{sum} renamed, {kept} not");
        assert!(source.renames() >= sum);
    }
}
