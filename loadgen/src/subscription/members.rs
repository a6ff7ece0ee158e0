//! The members of one region, rebuilt from a stream.
//!
//! Pieces of a snapshot replace the members; events change them. An event that contradicts them
//! reveals a missing or repeated event.

use std::collections::BTreeSet;

use shoal_proto::v1::{EventKind, RegionMembers};

use super::counts::Counts;

/// Completeness of a region's members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// Nothing; a snapshot is expected.
    #[default]
    Awaited,
    /// The server announced missing messages; a snapshot may follow.
    Uncertain,
    /// Some pieces of a snapshot.
    Loading,
    /// All members.
    Complete,
}

/// The members of one region.
#[derive(Clone, Debug, Default)]
pub struct Members {
    ids: BTreeSet<u64>,
    progress: Progress,
    /// The last object of the snapshot so far.
    last: Option<u64>,
}

impl Members {
    /// The members, once all have arrived.
    #[must_use]
    pub fn complete(&self) -> Option<&BTreeSet<u64>> {
        (self.progress == Progress::Complete).then_some(&self.ids)
    }

    /// Whether the server announced missing messages, without a later snapshot.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.progress == Progress::Uncertain
    }

    /// Drops the members: messages are missing.
    pub fn forget(&mut self) {
        self.progress = Progress::Uncertain;
        self.ids.clear();
    }

    /// Applies a piece of a snapshot.
    pub fn load(&mut self, piece: &RegionMembers, counts: &mut Counts) {
        let region = piece.region_id;
        if piece.first {
            self.ids.clear();
            self.last = None;
        } else if self.progress != Progress::Loading {
            counts.lose(1, || format!("the first piece of a snapshot of region {region}"));
        }
        self.progress = Progress::Loading;
        for object in &piece.objects {
            match self.last {
                Some(last) if *object == last => {
                    counts.repeat(1, || format!("object {object} of a snapshot of {region}"));
                }
                Some(last) if *object < last => {
                    counts
                        .misorder(1, || format!("object {object} of region {region} after {last}"));
                }
                _ => {}
            }
            self.last = Some(*object);
            self.ids.insert(*object);
        }
        if piece.last {
            let (held, total) = (self.ids.len() as u64, piece.total);
            counts.lose(total.abs_diff(held), || {
                format!("a snapshot of region {region} has {held} members and says {total}")
            });
            self.progress = Progress::Complete;
        }
    }

    /// Applies an event.
    pub fn event(&mut self, region: u64, object: u64, kind: EventKind, counts: &mut Counts) {
        match self.progress {
            // The snapshot that follows includes this event.
            Progress::Uncertain => return,
            Progress::Awaited | Progress::Loading => {
                counts.misorder(1, || format!("an event of region {region} before its snapshot"));
                return;
            }
            Progress::Complete => {}
        }
        let about = || format!("{} of object {object} in region {region}", kind.as_str_name());
        match kind {
            EventKind::Unspecified => counts.misorder(1, about),
            EventKind::Cross => {
                let is_member = self.ids.contains(&object);
                counts.lose(u64::from(is_member), || format!("{}, a member", about()));
            }
            EventKind::Enter => {
                let is_new = self.ids.insert(object);
                counts.repeat(u64::from(!is_new), || format!("{}, a member", about()));
            }
            EventKind::Move => {
                let is_new = self.ids.insert(object);
                counts.lose(u64::from(is_new), || format!("{}, no member", about()));
            }
            EventKind::Left
            | EventKind::Removed
            | EventKind::Expired
            | EventKind::Filtered
            | EventKind::RegionChanged
            | EventKind::Cleared => {
                let was_member = self.ids.remove(&object);
                counts.lose(u64::from(!was_member), || format!("{}, no member", about()));
            }
        }
    }
}
