//! Rebuilds the members of each region of a session from its stream, and checks the stream.
//!
//! Messages are applied in order of arrival. Sequence numbers, epochs, the order of regions and
//! objects, and every membership are checked against earlier messages; each contradiction is
//! counted. The follower has no connection, so tests can pass in any stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::{EventBatch, EventKind, Gap, GapReason, SnapshotChunk, SubscribeResponse};

use super::counts::Counts;
use super::members::Members;
use super::sequence::Sequence;
use crate::names::Names;

/// The state of a session, rebuilt from its messages.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    regions: BTreeMap<u64, Members>,
    /// Removed regions, with the epoch of the removal once acknowledged.
    ended: BTreeMap<u64, Option<u64>>,
    sequence: Sequence,
    /// Epoch of the last message with an epoch.
    epoch: u64,
    /// The state after this epoch is complete.
    done: u64,
    /// Region and object of the last event of `epoch`, to check their order.
    place: Option<(u64, u64)>,
    token: Bytes,
    /// The names of a named fleet.
    names: Option<Arc<Names>>,
    /// Faults of the stream.
    pub counts: Counts,
    /// Events delivered.
    pub events: u64,
    /// Members delivered in snapshots.
    pub present: u64,
    /// Batches that merge several epochs.
    pub coalesced: u64,
    /// `Lagged` messages: the server dropped messages for a slow reader.
    pub lagged: u64,
    /// `Gap` messages: the server no longer keeps the messages.
    pub gaps: u64,
}

impl Follower {
    /// A follower of a session whose messages have these names, or none in a numeric fleet.
    #[must_use]
    pub fn new(names: Option<Arc<Names>>) -> Self {
        Self { names, ..Self::default() }
    }

    /// Expects a region from now on.
    pub fn add(&mut self, region: u64) {
        self.regions.entry(region).or_default();
    }

    /// Records that the removal of a region was requested.
    pub fn remove(&mut self, region: u64) {
        self.regions.remove(&region);
        self.ended.insert(region, None);
    }

    /// The removal of a region is applied in this epoch.
    pub fn removed(&mut self, region: u64, epoch: u64) {
        self.ended.insert(region, Some(epoch));
    }

    /// The members of a region, once all have arrived.
    #[must_use]
    pub fn members(&self, region: u64) -> Option<&BTreeSet<u64>> {
        self.regions.get(&region)?.complete()
    }

    /// Whether the server announced missing messages of a region, without a later snapshot.
    #[must_use]
    pub fn is_uncertain(&self, region: u64) -> bool {
        self.regions.get(&region).is_some_and(Members::is_uncertain)
    }

    /// The state after this epoch is complete.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Whether a message of a later epoch was applied.
    #[must_use]
    pub fn is_beyond(&self, epoch: u64) -> bool {
        self.epoch > epoch
    }

    /// Resume token of the last message; empty before the first.
    #[must_use]
    pub fn token(&self) -> Bytes {
        self.token.clone()
    }

    /// The epoch of a message's contents, if any.
    #[must_use]
    pub fn epoch_of(message: &SubscribeResponse) -> Option<u64> {
        match message.kind.as_ref()? {
            Kind::Snapshot(chunk) => Some(chunk.epoch),
            Kind::Events(batch) => Some(batch.epoch),
            Kind::Progress(progress) => Some(progress.epoch),
            Kind::Opened(_) | Kind::Gap(_) | Kind::Lagged(_) => None,
        }
    }

    /// Applies the next message.
    pub fn take(&mut self, message: SubscribeResponse) {
        let SubscribeResponse { first_sequence, last_sequence, kind, .. } = &message;
        let is_numbered =
            matches!(kind, Some(Kind::Snapshot(_) | Kind::Events(_) | Kind::Lagged(_)));
        if is_numbered && !self.sequence.take(*first_sequence, *last_sequence, &mut self.counts) {
            // Already applied.
            return;
        }
        if !is_numbered && (*first_sequence, *last_sequence) != (0, 0) {
            self.counts.misorder(1, || format!("number {first_sequence} without contents"));
        }
        let is_done = message.epoch_done;
        if !message.resume_token.is_empty() {
            self.token = message.resume_token.into();
        }
        match message.kind {
            None => self.counts.lose(1, || "a message without contents".to_owned()),
            Some(Kind::Opened(_)) => {}
            Some(Kind::Snapshot(chunk)) => self.snapshot(&chunk, is_done),
            Some(Kind::Events(batch)) => self.events(&batch, is_done),
            Some(Kind::Progress(progress)) => self.progress(progress.epoch),
            Some(Kind::Gap(gap)) => self.gap(gap),
            Some(Kind::Lagged(lagged)) => {
                self.lagged += 1;
                let is_of = |region: &u64| {
                    lagged.region_ids.is_empty() || lagged.region_ids.contains(region)
                };
                let of = self.regions.iter_mut().filter(|(region, _)| is_of(region));
                of.for_each(|(_, members)| members.forget());
            }
        }
    }

    /// Advances to the epoch of a message.
    fn advance(&mut self, epoch: u64, is_done: bool) {
        if epoch <= self.done {
            let done = self.done;
            self.counts.misorder(1, || format!("contents of epoch {epoch} after {done} was done"));
        } else if epoch > self.epoch {
            self.epoch = epoch;
            self.done = epoch - 1;
            self.place = None;
        }
        if is_done {
            self.done = self.done.max(epoch);
        }
        let done = self.done;
        self.ended.retain(|_, from| from.is_none_or(|from| from > done));
    }

    fn progress(&mut self, epoch: u64) {
        if epoch < self.done {
            let done = self.done;
            self.counts.misorder(1, || format!("progress to epoch {epoch} after {done}"));
        }
        self.epoch = self.epoch.max(epoch);
        self.done = self.done.max(epoch);
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps += 1;
        self.sequence.skip_to(gap.next_sequence, &mut self.counts);
        if gap.reason() == GapReason::Term {
            (self.epoch, self.done) = (0, 0);
        }
        self.regions.values_mut().for_each(Members::forget);
    }

    fn snapshot(&mut self, chunk: &SnapshotChunk, is_done: bool) {
        self.advance(chunk.epoch, is_done);
        for piece in &chunk.regions {
            self.check_names(&piece.objects, &piece.names);
            self.present += piece.objects.len() as u64;
            match self.regions.get_mut(&piece.region_id) {
                Some(members) => members.load(piece, &mut self.counts),
                None => self.unexpected(piece.region_id, chunk.epoch),
            }
        }
    }

    fn events(&mut self, batch: &EventBatch, is_done: bool) {
        self.advance(batch.epoch, is_done);
        self.coalesced += u64::from(batch.coalesced_from_epoch > 0);
        for of_region in &batch.regions {
            let region = of_region.region_id;
            let (objects, kinds) = (&of_region.objects, &of_region.kinds);
            self.events += objects.len() as u64;
            self.check_names(objects, &of_region.names);
            self.counts.lose(objects.len().abs_diff(kinds.len()) as u64, || {
                format!("{} objects and {} kinds of region {region}", objects.len(), kinds.len())
            });
            if batch.coalesced_from_epoch > 0 {
                // Its regions are in order of first occurrence in the merged messages.
                self.place = None;
            }
            if !self.regions.contains_key(&region) {
                self.unexpected(region, batch.epoch);
                continue;
            }
            for (object, kind) in objects.iter().zip(kinds) {
                self.order((region, *object), batch.epoch);
                let kind = EventKind::try_from(*kind).unwrap_or_default();
                if let Some(members) = self.regions.get_mut(&region) {
                    members.event(region, *object, kind, &mut self.counts);
                }
            }
        }
    }

    /// Counts names that contradict what is known of them as lost.
    fn check_names(&mut self, objects: &[u64], names: &[String]) {
        let problem = match &self.names {
            Some(known) => known.learn(objects, names),
            None => (!names.is_empty()).then(|| "names in a numeric fleet".to_owned()),
        };
        problem.into_iter().for_each(|text| self.counts.lose(1, || text));
    }

    /// Checks that (region, object) ascends within an epoch: two equal places count as repeated, a
    /// lower one as misordered.
    fn order(&mut self, place: (u64, u64), epoch: u64) {
        let (region, object) = place;
        match self.place {
            Some(last) if place == last => self.counts.repeat(1, || {
                format!("two events of object {object} in region {region} at epoch {epoch}")
            }),
            Some(last) if place < last => self.counts.misorder(1, || {
                format!("(region, object) {place:?} after {last:?} at epoch {epoch}")
            }),
            _ => {}
        }
        self.place = Some(place);
    }

    /// Counts contents of a region that is not in this session as misordered, unless they precede
    /// the epoch of its removal.
    fn unexpected(&mut self, region: u64, epoch: u64) {
        let is_ending = match self.ended.get(&region) {
            None => false,
            Some(None) => true,
            Some(Some(from)) => epoch < *from,
        };
        if !is_ending {
            self.counts.misorder(1, || format!("unexpected region {region} at epoch {epoch}"));
        }
    }
}
