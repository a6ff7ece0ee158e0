//! Hazard: a follower misses faults.
//!
//! A correct stream of random walks passes; an omitted, repeated or displaced message or event is
//! counted as lost, repeated or misordered.

use std::collections::BTreeSet;

use shoal_loadgen::query::chooser::QueryRandom;
use shoal_loadgen::subscription::compare::{Found, compare};
use shoal_loadgen::subscription::{Counts, Follower};
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::{
    EventBatch, EventKind, Gap, GapReason, Lagged, Progress, RegionEvents, RegionMembers,
    SessionOpened, SnapshotChunk, SubscribeResponse,
};

const REGIONS: u64 = 3;
const OBJECTS: u64 = 40;
const EPOCHS: u64 = 30;
const SEED: u64 = 20_261_121;

/// A stream, and the final members of each region.
#[derive(Clone)]
struct Stream {
    messages: Vec<SubscribeResponse>,
    members: Vec<BTreeSet<u64>>,
}

fn message(first_sequence: u64, epoch_done: bool, kind: Kind) -> SubscribeResponse {
    SubscribeResponse {
        first_sequence,
        last_sequence: first_sequence,
        resume_token: vec![first_sequence as u8],
        epoch_done,
        kind: Some(kind),
    }
}

/// Every region's snapshot in two pieces, then epochs of random enters, moves and leaves.
fn correct() -> Stream {
    let mut random = QueryRandom::new(SEED, 0);
    let mut messages = vec![message(0, false, Kind::Opened(SessionOpened::default()))];
    let members: Vec<BTreeSet<u64>> =
        (0..REGIONS).map(|_| (0..OBJECTS).filter(|_| random.below(3) == 0).collect()).collect();
    let mut sequence = 1;
    for part in 0..2 {
        let piece = |region: u64| {
            let all: Vec<u64> = members[region as usize].iter().copied().collect();
            let (head, tail) = all.split_at(all.len() / 2);
            RegionMembers {
                region_id: region,
                total: all.len() as u64,
                first: part == 0,
                last: part == 1,
                objects: if part == 0 { head.to_vec() } else { tail.to_vec() },
                ..RegionMembers::default()
            }
        };
        let regions = (0..REGIONS).map(piece).collect();
        let chunk = SnapshotChunk { epoch: 1, clock_ms: 1, regions };
        messages.push(message(sequence, part == 1, Kind::Snapshot(chunk)));
        sequence += 1;
    }
    let mut stream = Stream { messages, members };
    for epoch in 2..EPOCHS {
        stream.epoch(epoch, sequence, &mut random);
        sequence += 1;
        if epoch % 7 == 0 {
            let progress = Progress { epoch, clock_ms: epoch as i64, staleness: None };
            stream.messages.push(message(0, false, Kind::Progress(progress)));
        }
    }
    stream
}

impl Stream {
    fn epoch(&mut self, epoch: u64, sequence: u64, random: &mut QueryRandom) {
        let mut regions = Vec::new();
        for region in 0..REGIONS {
            let members = &mut self.members[region as usize];
            let mut events = RegionEvents { region_id: region, ..RegionEvents::default() };
            for object in 0..OBJECTS {
                if random.below(4) > 0 {
                    continue;
                }
                let kind = match (members.contains(&object), random.below(2)) {
                    (true, 0) => EventKind::Move,
                    (true, _) => EventKind::Left,
                    (false, _) => EventKind::Enter,
                };
                match kind {
                    EventKind::Left => members.remove(&object),
                    _ => members.insert(object),
                };
                events.objects.push(object);
                events.kinds.push(kind.into());
            }
            regions.push(events);
        }
        let batch = EventBatch { epoch, regions, ..EventBatch::default() };
        self.messages.push(message(sequence, true, Kind::Events(batch)));
    }

    /// The faults of the stream, after a comparison of the final members.
    fn counts(&self) -> Counts {
        let mut follower = Follower::default();
        (0..REGIONS).for_each(|region| follower.add(region));
        self.messages.iter().for_each(|message| follower.take(message.clone()));
        let found =
            |(region, members): (u64, &BTreeSet<u64>)| (region, members.iter().copied().collect());
        let regions = (0..).zip(&self.members).map(found).collect();
        assert_eq!(compare(&Found { epoch: EPOCHS, regions }, &mut follower), REGIONS);
        follower.counts
    }

    /// Indices of the event batches.
    fn batches(&self) -> Vec<usize> {
        let is_batch = |place: &usize| matches!(self.messages[*place].kind, Some(Kind::Events(_)));
        (0..self.messages.len()).filter(is_batch).collect()
    }

    fn batch(&mut self, place: usize) -> &mut EventBatch {
        match &mut self.messages[place].kind {
            Some(Kind::Events(batch)) => batch,
            other => panic!("{other:?}"),
        }
    }
}

/// Changes the correct stream at every batch and expects each change to be counted.
fn each_batch(corrupt: impl Fn(&mut Stream, usize), is_counted: impl Fn(&Counts) -> bool) {
    let correct = correct();
    assert!(correct.counts().is_clean(), "{:?}, seed {SEED}", correct.counts());
    for place in correct.batches() {
        let mut stream = correct.clone();
        corrupt(&mut stream, place);
        let counts = stream.counts();
        assert!(is_counted(&counts), "at {place}: {counts:?}, seed {SEED}");
        assert!(!counts.problems.is_empty());
    }
}

#[test]
fn an_omitted_message_is_counted_as_lost() {
    each_batch(|stream, place| drop(stream.messages.remove(place)), |counts| counts.lost > 0);
    let mut stream = correct();
    stream.messages.remove(2);
    assert!(stream.counts().lost > 0, "half of a snapshot");
}

#[test]
fn a_repeated_message_is_counted_as_repeated_only() {
    let repeat = |stream: &mut Stream, place: usize| {
        stream.messages.insert(place, stream.messages[place].clone());
    };
    each_batch(repeat, |counts| (counts.lost, counts.repeated, counts.misordered) == (0, 1, 0));
}

#[test]
fn swapped_messages_are_counted_as_misordered() {
    let correct = correct();
    for pair in correct.batches().windows(2) {
        let mut stream = correct.clone();
        stream.messages.swap(pair[0], pair[1]);
        let counts = stream.counts();
        assert!(counts.misordered > 0, "{pair:?}: {counts:?}");
    }
}

#[test]
fn an_omitted_event_is_counted() {
    let lose = |stream: &mut Stream, place: usize| {
        let events = &mut stream.batch(place).regions[1];
        // A missing move does not affect the members; a missing enter or leave does.
        let turns = |kind: &i32| *kind != i32::from(EventKind::Move);
        let event = events.kinds.iter().position(turns).unwrap();
        events.objects.remove(event);
        events.kinds.remove(event);
    };
    each_batch(lose, |counts| counts.lost + counts.repeated > 0);
}

#[test]
fn a_repeated_event_is_counted_as_repeated() {
    let repeat = |stream: &mut Stream, place: usize| {
        let events = &mut stream.batch(place).regions[1];
        events.objects.insert(0, events.objects[0]);
        events.kinds.insert(0, events.kinds[0]);
    };
    each_batch(repeat, |counts| counts.repeated > 0);
}

#[test]
fn swapped_events_and_regions_are_counted_as_misordered() {
    let swap_events = |stream: &mut Stream, place: usize| {
        let events = &mut stream.batch(place).regions[2];
        events.objects.swap(0, 1);
        events.kinds.swap(0, 1);
    };
    each_batch(swap_events, |counts| counts.misordered > 0 && counts.lost == 0);
    let swap_regions = |stream: &mut Stream, place: usize| stream.batch(place).regions.swap(0, 1);
    each_batch(swap_regions, |counts| counts.misordered > 0 && counts.lost == 0);
}

#[test]
fn a_wrong_object_region_kind_or_epoch_is_counted() {
    each_batch(
        |stream, place| stream.batch(place).regions[0].region_id = 77,
        |counts| counts.misordered > 0,
    );
    each_batch(
        |stream, place| stream.batch(place).regions[0].kinds[0] = 0,
        |counts| counts.misordered > 0,
    );
    each_batch(|stream, place| stream.batch(place).epoch -= 1, |counts| counts.misordered > 0);
    let shorten = |stream: &mut Stream, place: usize| {
        stream.batch(place).regions[0].kinds.truncate(1);
    };
    each_batch(shorten, |counts| counts.lost > 0);
}

#[test]
fn an_event_before_reported_progress_is_misordered() {
    let mut stream = correct();
    let place = *stream.batches().last().unwrap();
    let progress = Progress { epoch: EPOCHS + 5, ..Progress::default() };
    stream.messages.insert(place, message(0, false, Kind::Progress(progress)));
    assert!(stream.counts().misordered > 0);
}

#[test]
fn announced_drops_are_not_faults_after_a_new_snapshot() {
    let Stream { mut messages, members } = correct();
    // All messages between the snapshot and the last batch are dropped and announced.
    let last = messages.len() as u64;
    messages.truncate(3);
    let lagged = Kind::Lagged(Lagged { region_ids: Vec::new() });
    let announced = SubscribeResponse { last_sequence: last, ..message(3, false, lagged) };
    messages.push(announced);
    let piece = |(region_id, members): (u64, &BTreeSet<u64>)| RegionMembers {
        region_id,
        total: members.len() as u64,
        first: true,
        last: true,
        objects: members.iter().copied().collect(),
        ..RegionMembers::default()
    };
    let regions = (0..).zip(&members).map(piece).collect();
    let chunk = SnapshotChunk { epoch: EPOCHS, clock_ms: 1, regions };
    messages.push(message(last + 1, true, Kind::Snapshot(chunk)));
    let stream = Stream { messages, members };
    assert!(stream.counts().is_clean(), "{:?}", stream.counts());

    let mut with_gap = stream;
    let gap = Gap { reason: GapReason::Retention.into(), next_sequence: last + 1 };
    with_gap.messages[3] = message(0, false, Kind::Gap(gap));
    let counts = with_gap.counts();
    assert_eq!((counts.lost, counts.misordered), (last + 1 - 3, 0), "a gap is a loss: {counts:?}");
}

#[test]
fn events_of_a_removed_region_after_its_epoch_are_misordered() {
    let mut follower = Follower::default();
    follower.add(5);
    let members = RegionMembers { region_id: 5, first: true, last: true, ..Default::default() };
    let chunk = SnapshotChunk { epoch: 1, clock_ms: 0, regions: vec![members] };
    follower.take(message(1, true, Kind::Snapshot(chunk)));
    let events = |epoch: u64| {
        let events = RegionEvents {
            region_id: 5,
            objects: vec![9],
            kinds: vec![EventKind::Enter.into()],
            ..RegionEvents::default()
        };
        let batch = EventBatch { epoch, regions: vec![events], ..EventBatch::default() };
        message(epoch, true, Kind::Events(batch))
    };
    follower.remove(5);
    follower.take(events(2));
    follower.removed(5, 4);
    follower.take(events(3));
    assert!(follower.counts.is_clean(), "{:?}", follower.counts);
    follower.take(events(4));
    assert_eq!(follower.counts.misordered, 1, "{:?}", follower.counts);
}
