//! What remains of many batches for a client that did not keep up?
//!
//! Of each object and region the outcome alone: whether it came, stayed or left, with the newest
//! record. Who came and went again is left out, for the client's set does not change by it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use prost::Message as _;
use shoal_proto::v1;
use shoal_proto::v1::EventKind;
use shoal_proto::v1::subscribe_response::Kind;

use crate::limits::CHUNK_BYTES_MAX;

/// Bytes to which coalesced batches are filled: more than others, so that they never are more
/// messages than what they stand for.
const COALESCED_BYTES_TARGET: usize = CHUNK_BYTES_MAX / 4 * 3;

/// What happened to one object in one region.
#[derive(Debug)]
struct Outcome {
    was_member: bool,
    is_member: bool,
    /// The last event that ended a membership.
    leave: i32,
    /// The last event of all.
    kind: i32,
    fix: Option<v1::FixRecord>,
}

/// Batches in place of others.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Coalesced {
    /// At least one, the events of which may be none.
    pub(super) batches: Vec<v1::EventBatch>,
    /// Whether the last batch completed its epoch.
    pub(super) epoch_done: bool,
    /// Events that went in and did not come out.
    pub(super) saved: u64,
}

/// Coalesces messages of events, in order; none when one of them is something else.
pub(super) fn coalesce<'a>(
    messages: impl Iterator<Item = &'a Bytes>,
    wants_move: impl Fn(u64) -> bool,
) -> Option<Coalesced> {
    let mut outcomes = Outcomes::default();
    for message in messages {
        let message = v1::SubscribeResponse::decode(message.clone()).ok()?;
        let Some(Kind::Events(batch)) = message.kind else { return None };
        outcomes.take(batch, message.epoch_done);
    }
    outcomes.from_epoch?;
    Some(outcomes.finish(wants_move))
}

#[derive(Debug, Default)]
struct Outcomes {
    from_epoch: Option<u64>,
    epoch: u64,
    clock_ms: i64,
    epoch_done: bool,
    events: u64,
    /// Regions in the order in which they appeared.
    regions: Vec<(u64, BTreeMap<u64, Outcome>)>,
    places: HashMap<u64, usize>,
}

impl Outcomes {
    fn take(&mut self, batch: v1::EventBatch, epoch_done: bool) {
        let first =
            if batch.coalesced_from_epoch == 0 { batch.epoch } else { batch.coalesced_from_epoch };
        self.from_epoch.get_or_insert(first);
        (self.epoch, self.clock_ms, self.epoch_done) = (batch.epoch, batch.clock_ms, epoch_done);
        for of in batch.regions {
            let place = *self.places.entry(of.region_id).or_insert_with(|| {
                self.regions.push((of.region_id, BTreeMap::new()));
                self.regions.len() - 1
            });
            let outcomes = &mut self.regions[place].1;
            self.events += of.objects.len() as u64;
            let mut fixes = of.fixes.into_iter();
            for (object, kind) in of.objects.into_iter().zip(of.kinds) {
                add(outcomes, object, kind, fixes.next());
            }
        }
    }

    fn finish(self, wants_move: impl Fn(u64) -> bool) -> Coalesced {
        let mut filling = Filling::new(&self);
        let mut told = 0;
        for (region_id, outcomes) in self.regions {
            let wants_move = wants_move(region_id);
            for (object, outcome) in outcomes {
                if let Some(kind) = outcome.told_as(wants_move) {
                    filling.push(region_id, object, kind, outcome.fix);
                    told += 1;
                }
            }
        }
        filling.batches.push(filling.batch);
        let saved = self.events - told;
        Coalesced { batches: filling.batches, epoch_done: self.epoch_done, saved }
    }
}

fn ends_membership(kind: i32) -> bool {
    kind >= EventKind::Left as i32
}

fn add(outcomes: &mut BTreeMap<u64, Outcome>, object: u64, kind: i32, fix: Option<v1::FixRecord>) {
    let was_member = kind == EventKind::Move as i32 || ends_membership(kind);
    let outcome = outcomes.entry(object).or_insert(Outcome {
        was_member,
        is_member: was_member,
        leave: 0,
        kind,
        fix: None,
    });
    if ends_membership(kind) {
        (outcome.is_member, outcome.leave) = (false, kind);
    } else if kind != EventKind::Cross as i32 {
        outcome.is_member = true;
    }
    (outcome.kind, outcome.fix) = (kind, fix);
}

impl Outcome {
    fn told_as(&self, wants_move: bool) -> Option<i32> {
        match (self.was_member, self.is_member) {
            (false, true) => Some(EventKind::Enter as i32),
            (true, true) => wants_move.then_some(EventKind::Move as i32),
            (true, false) => Some(self.leave),
            (false, false) => {
                (self.kind == EventKind::Cross as i32).then_some(EventKind::Cross as i32)
            }
        }
    }
}

/// Batches being filled.
struct Filling {
    empty: v1::EventBatch,
    batch: v1::EventBatch,
    bytes: usize,
    batches: Vec<v1::EventBatch>,
}

impl Filling {
    fn new(outcomes: &Outcomes) -> Self {
        let empty = v1::EventBatch {
            epoch: outcomes.epoch,
            clock_ms: outcomes.clock_ms,
            regions: Vec::new(),
            coalesced_from_epoch: outcomes.from_epoch.unwrap_or(outcomes.epoch),
        };
        Self { batch: empty.clone(), empty, bytes: 0, batches: Vec::new() }
    }

    fn push(&mut self, region_id: u64, object: u64, kind: i32, fix: Option<v1::FixRecord>) {
        if self.bytes >= COALESCED_BYTES_TARGET {
            self.batches.push(std::mem::replace(&mut self.batch, self.empty.clone()));
            self.bytes = 0;
        }
        let goes_on = self.batch.regions.last().is_some_and(|last| last.region_id == region_id);
        if !goes_on {
            self.batch.regions.push(v1::RegionEvents { region_id, ..Default::default() });
            self.bytes += 32;
        }
        if let Some(of) = self.batch.regions.last_mut() {
            of.objects.push(object);
            of.kinds.push(kind);
            self.bytes += 9 + fix.as_ref().map_or(0, |fix| 2 + fix.encoded_len());
            of.fixes.extend(fix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u64, events: &[(u64, u64, EventKind)]) -> Bytes {
        let mut regions: Vec<v1::RegionEvents> = Vec::new();
        for (region_id, object, kind) in events {
            if regions.last().is_none_or(|last| last.region_id != *region_id) {
                regions.push(v1::RegionEvents { region_id: *region_id, ..Default::default() });
            }
            let of = regions.last_mut().unwrap();
            of.objects.push(*object);
            of.kinds.push(*kind as i32);
            of.fixes.push(v1::FixRecord { time_ms: epoch as i64, ..Default::default() });
        }
        let batch = v1::EventBatch { epoch, regions, ..Default::default() };
        let kind = Some(Kind::Events(batch));
        v1::SubscribeResponse { kind, epoch_done: true, ..Default::default() }
            .encode_to_vec()
            .into()
    }

    #[test]
    fn only_outcomes_remain() {
        use EventKind::{Cross, Enter, Expired, Left, Move};
        let batches = [
            batch(
                3,
                &[(1, 10, Enter), (1, 11, Move), (1, 12, Left), (1, 15, Cross), (2, 10, Enter)],
            ),
            batch(
                4,
                &[(1, 10, Move), (1, 11, Left), (1, 12, Enter), (1, 13, Enter), (2, 10, Left)],
            ),
            batch(7, &[(1, 13, Expired), (1, 14, Move), (1, 14, Left), (1, 14, Cross)]),
        ];
        let of_all = coalesce(batches.iter(), |_| true).unwrap();
        assert_eq!((of_all.epoch_done, of_all.saved, of_all.batches.len()), (true, 14 - 5, 1));
        let found = &of_all.batches[0];
        assert_eq!((found.epoch, found.coalesced_from_epoch, found.regions.len()), (7, 3, 1));
        let of = &found.regions[0];
        assert_eq!(of.objects, [10, 11, 12, 14, 15]);
        assert_eq!(of.kinds, [Enter, Left, Move, Left, Cross].map(|kind| kind as i32));
        let times: Vec<i64> = of.fixes.iter().map(|fix| fix.time_ms).collect();
        assert_eq!(times, [4, 4, 4, 7, 3]);
        let unmoved = coalesce(batches.iter(), |_| false).unwrap();
        assert_eq!(unmoved.batches[0].regions[0].objects, [10, 11, 14, 15]);
    }

    #[test]
    fn coalesced_batches_coalesce_again_and_nothing_may_remain() {
        let batches =
            [batch(3, &[(1, 10, EventKind::Enter)]), batch(4, &[(1, 10, EventKind::Removed)])];
        let nothing = coalesce(batches.iter(), |_| true).unwrap();
        assert!(nothing.batches[0].regions.is_empty());
        assert_eq!((nothing.batches[0].coalesced_from_epoch, nothing.saved), (3, 2));
        let kind = Some(Kind::Events(nothing.batches[0].clone()));
        let again: Bytes =
            v1::SubscribeResponse { kind, ..Default::default() }.encode_to_vec().into();
        let later = batch(9, &[(1, 1, EventKind::Enter)]);
        let both = coalesce([&again, &later].into_iter(), |_| true).unwrap();
        assert_eq!((both.batches[0].coalesced_from_epoch, both.batches[0].epoch), (3, 9));
        let other = v1::SubscribeResponse::default().encode_to_vec().into();
        assert_eq!(coalesce([&other].into_iter(), |_| true), None);
    }

    #[test]
    fn many_outcomes_are_cut_into_messages() {
        let events: Vec<_> = (0..100_000).map(|object| (1, object, EventKind::Enter)).collect();
        let found = coalesce([batch(1, &events)].iter(), |_| true).unwrap();
        assert!(found.batches.len() > 1);
        let rows: usize = found.batches.iter().map(|batch| batch.regions[0].objects.len()).sum();
        assert_eq!(rows, events.len());
        for batch in found.batches {
            assert!(batch.encoded_len() < CHUNK_BYTES_MAX);
        }
    }
}
