//! Coalesces the unread events of a session whose reader is slow.
//!
//! For each object and region one event remains, which says that the object entered, moved or left
//! and has its newest record. An object that entered and left again is omitted, because the
//! client's set of objects does not change. Adjacent event messages are merged into fewer messages
//! with the same range of numbers.

use std::collections::HashMap;
use std::sync::Arc;

use shoal_codec::FixRow;
use shoal_engine::EventKind;

use super::columns::{EventColumns, EventSlice, EventWriter};
use super::message::MessageFormat;
use super::outbox::Bounds;
use super::outbox_entry::{Content, Entry};
use crate::limits::CHUNK_BYTES_MAX;

/// Encoded bytes to which coalesced messages are filled. It is more than for other messages, so
/// that there are never more coalesced messages than original ones.
const COALESCED_BYTES_TARGET: usize = CHUNK_BYTES_MAX / 4 * 3;

/// Unread messages, taken out of an outbox to be coalesced.
#[derive(Debug)]
pub(super) struct CoalesceJob {
    /// Number of the first message: unique among the jobs of the session.
    pub(super) first: u64,
    pub(super) entries: Vec<Entry>,
}

impl CoalesceJob {
    /// Coalesces adjacent messages of events; also returns the number of events saved. `None` if
    /// the result exceeds a quarter of `bounds`.
    pub(super) fn run(
        self,
        format: &MessageFormat,
        bounds: &Bounds,
        wants_move: impl Fn(u64) -> bool,
    ) -> Option<(Self, u64)> {
        let (mut entries, mut saved) = (Vec::new(), 0);
        let is_events = |entry: &Entry| entry.events().is_some();
        for run in self.entries.chunk_by(|a, b| is_events(a) && is_events(b)) {
            if let [single] = run {
                entries.push(single.clone());
            } else {
                let (merged, less) = merge(format, run, &wants_move)?;
                entries.extend(merged);
                saved += less;
            }
        }
        let bytes: usize = entries.iter().map(Entry::bytes).sum();
        let is_small = 4 * bytes <= bounds.bytes_max && 4 * entries.len() <= bounds.messages_max;
        is_small.then_some((Self { first: self.first, entries }, saved))
    }
}

/// Merges a run of event messages; also returns the number of events saved. `None` if there would
/// be more messages than numbers.
fn merge(
    format: &MessageFormat,
    run: &[Entry],
    wants_move: impl Fn(u64) -> bool,
) -> Option<(Vec<Entry>, u64)> {
    let (first, last, epoch_done) = (run.first()?.first, run.last()?.last, run.last()?.epoch_done);
    let messages: Vec<_> = run.iter().filter_map(Entry::events).collect();
    let (messages, saved) = coalesce(format, &messages, wants_move);
    // The first message gets all numbers that the others do not need.
    let rest = messages.len() as u64 - 1;
    let first_last = last.checked_sub(rest).filter(|first_last| *first_last >= first)?;
    let entries = messages.into_iter().zip(0..).map(|(columns, part)| Entry {
        first: if part == 0 { first } else { first_last + part },
        last: first_last + part,
        epoch_done: epoch_done && part == rest,
        content: Content::Events(Arc::new(columns)),
    });
    Some((entries.collect(), saved))
}

/// An event. `place` is the index of its region, in order of first appearance.
struct Row<'a> {
    object: u64,
    fix: Option<&'a FixRow>,
    place: u32,
    kind: u8,
}

/// Coalesces the events of `messages` into at least one message, which may be empty; also returns
/// the number of events saved.
fn coalesce(
    format: &MessageFormat,
    messages: &[&EventColumns],
    wants_move: impl Fn(u64) -> bool,
) -> (Vec<EventColumns>, u64) {
    let mut places = HashMap::new();
    let (mut regions, mut rows) = (Vec::new(), Vec::new());
    for of in messages.iter().flat_map(|message| message.slices()) {
        let place = *places.entry(of.region_id).or_insert_with(|| {
            regions.push((of.region_id, wants_move(of.region_id)));
            regions.len() as u32 - 1
        });
        let pairs = of.objects.iter().zip(of.kinds).enumerate();
        rows.extend(pairs.map(|(index, (&object, &kind))| {
            let fix = of.fixes.get(index);
            Row { object, fix, place, kind }
        }));
    }
    // The sort is stable: the events of one object stay in the order in which they happened.
    rows.sort_by_key(|row| (row.place, row.object));
    let (stamp, from_epoch) = span(messages);
    let mut writer = EventWriter::new(format, stamp, from_epoch, COALESCED_BYTES_TARGET);
    let mut reported = 0;
    for events in rows.chunk_by(|a, b| (a.place, a.object) == (b.place, b.object)) {
        let (region_id, wants_move) = regions[events[0].place as usize];
        if let Some(kind) = outcome(events, wants_move) {
            let fixes =
                events.last().and_then(|last| last.fix).map_or(&[][..], std::slice::from_ref);
            let objects = &[events[0].object];
            writer.add(EventSlice { region_id, objects, kinds: &[kind as u8], fixes });
            reported += 1;
        }
    }
    let mut coalesced = writer.finish();
    if coalesced.is_empty() {
        coalesced.push(EventColumns::new(stamp, from_epoch));
    }
    (coalesced, rows.len() as u64 - reported)
}

/// The last epoch stamp of the messages, and their first epoch.
fn span(messages: &[&EventColumns]) -> (super::EpochStamp, u64) {
    let stamp = messages.last().map_or_else(Default::default, |last| last.stamp);
    let from_epoch = messages.first().map_or(0, |first| match first.coalesced_from_epoch {
        0 => first.stamp.epoch,
        from_epoch => from_epoch,
    });
    (stamp, from_epoch)
}

/// The event that replaces the events of one object in one region; `None` if no event remains.
fn outcome(events: &[Row<'_>], wants_move: bool) -> Option<EventKind> {
    let kind = |row: &Row<'_>| EventKind::of(row.kind);
    let (first, last) = (kind(events.first()?)?, kind(events.last()?)?);
    let was_member = first == EventKind::Move || first.ends_membership();
    let change = events.iter().rev().find_map(|row| kind(row).filter(|k| *k != EventKind::Cross));
    let is_member = change.map_or(was_member, |change| !change.ends_membership());
    match (was_member, is_member) {
        (false, true) => Some(EventKind::Enter),
        (true, true) => wants_move.then_some(EventKind::Move),
        (true, false) => change,
        (false, false) => (last == EventKind::Cross).then_some(last),
    }
}

#[cfg(test)]
mod tests {
    use super::super::EpochStamp;
    use super::*;

    fn message(epoch: u64, events: &[(u64, u64, EventKind)]) -> EventColumns {
        let stamp = EpochStamp { epoch, clock_ms: 0 };
        let format = MessageFormat::numeric();
        let mut writer = EventWriter::new(&format, stamp, 0, 1 << 30);
        for &(region_id, object, kind) in events {
            let (objects, kinds) = (&[object], &[kind as u8]);
            let fixes = &[FixRow::new(object, epoch as i64, 0, 0)];
            writer.add(EventSlice { region_id, objects, kinds, fixes });
        }
        writer.finish().remove(0)
    }

    #[test]
    fn only_outcomes_remain() {
        use EventKind::{Cross, Enter, Expired, Left, Move};
        let messages = [
            message(
                3,
                &[(1, 10, Enter), (1, 11, Move), (1, 12, Left), (1, 15, Cross), (2, 10, Enter)],
            ),
            message(
                4,
                &[(1, 10, Move), (1, 11, Left), (1, 12, Enter), (1, 13, Enter), (2, 10, Left)],
            ),
            message(7, &[(1, 13, Expired), (1, 14, Move), (1, 14, Left), (1, 14, Cross)]),
        ];
        let messages = messages.each_ref();
        let (found, saved) = coalesce(&MessageFormat::numeric(), &messages, |_| true);
        assert_eq!((found.len(), saved), (1, 14 - 5));
        assert_eq!((found[0].stamp.epoch, found[0].coalesced_from_epoch), (7, 3));
        let slices: Vec<_> = found[0].slices().collect();
        assert_eq!((slices.len(), slices[0].region_id), (1, 1));
        assert_eq!(slices[0].objects, [10, 11, 12, 14, 15]);
        assert_eq!(slices[0].kinds, [Enter, Left, Move, Left, Cross].map(|kind| kind as u8));
        let times: Vec<i64> = slices[0].fixes.iter().map(|fix| fix.time_ms).collect();
        assert_eq!(times, [4, 4, 4, 7, 3]);
        let (unmoved, _) = coalesce(&MessageFormat::numeric(), &messages, |_| false);
        assert_eq!(unmoved[0].slices().next().unwrap().objects, [10, 11, 14, 15]);
    }

    #[test]
    fn coalesced_messages_coalesce_again_even_when_empty() {
        let enter = message(3, &[(1, 10, EventKind::Enter)]);
        let (nothing, saved) = coalesce(
            &MessageFormat::numeric(),
            &[&enter, &message(4, &[(1, 10, EventKind::Removed)])],
            |_| true,
        );
        assert_eq!((nothing.len(), nothing[0].slices().count(), saved), (1, 0, 2));
        assert_eq!(nothing[0].coalesced_from_epoch, 3);
        let later = message(9, &[(1, 1, EventKind::Enter)]);
        let (both, saved) = coalesce(&MessageFormat::numeric(), &[&nothing[0], &later], |_| true);
        assert_eq!((both[0].coalesced_from_epoch, both[0].stamp.epoch, saved), (3, 9, 0));
    }

    #[test]
    fn records_stay_beside_their_events() {
        let with = message(3, &[(1, 10, EventKind::Enter), (1, 12, EventKind::Enter)]);
        let format = MessageFormat::numeric();
        let mut writer = EventWriter::new(&format, EpochStamp::default(), 0, 1 << 30);
        let (objects, kinds) = (&[11], &[EventKind::Enter as u8]);
        writer.add(EventSlice { region_id: 1, objects, kinds, fixes: &[] });
        let without = writer.finish();
        let (found, _) = coalesce(&MessageFormat::numeric(), &[&with, &without[0]], |_| true);
        let slices: Vec<_> =
            found[0].slices().map(|of| (of.objects[0], of.kinds.len(), of.fixes.len())).collect();
        assert_eq!(slices, [(10, 1, 1), (11, 1, 0), (12, 1, 1)]);
    }

    #[test]
    fn many_outcomes_are_cut_into_messages() {
        let events: Vec<_> = (0..100_000).map(|object| (1, object, EventKind::Enter)).collect();
        let (found, _) = coalesce(&MessageFormat::numeric(), &[&message(1, &events)], |_| true);
        let objects: Vec<u64> = found
            .iter()
            .flat_map(|columns| columns.slices())
            .flat_map(|of| of.objects)
            .copied()
            .collect();
        assert!(found.len() > 1 && objects.into_iter().eq(0..100_000));
        for columns in found {
            let body = super::super::message::events_body(&MessageFormat::numeric(), &columns);
            assert!(body.len() < CHUNK_BYTES_MAX - 1024);
        }
    }
}
