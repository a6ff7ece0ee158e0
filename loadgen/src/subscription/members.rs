//! Who is in one region, by what was told of it?
//!
//! Pieces of a snapshot replace what was held; events change it. An event that does not fit what
//! was told before shows that another is missing or came twice.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use shoal_proto::v1::{EventKind, RegionMembers};

use super::counts::Counts;
use crate::verify::id_hash::IdHasher;

/// Object ids.
pub type IdSet = HashSet<u64, BuildHasherDefault<IdHasher>>;

/// What is known of a region's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing was told yet: a snapshot comes.
    Awaited,
    /// The server said that messages are missing: a snapshot may come.
    Uncertain,
    /// Some pieces of a snapshot are there.
    Loading,
    /// All.
    Known,
}

/// The members of one region.
#[derive(Clone, Debug)]
pub struct Members {
    ids: IdSet,
    knowledge: Knowledge,
    /// Of the piece of a snapshot before.
    last: Option<u64>,
}

impl Default for Members {
    fn default() -> Self {
        Self { ids: IdSet::default(), knowledge: Knowledge::Awaited, last: None }
    }
}

impl Members {
    /// The members, where they are known.
    #[must_use]
    pub fn known(&self) -> Option<&IdSet> {
        (self.knowledge == Knowledge::Known).then_some(&self.ids)
    }

    /// Whether the server said that messages are missing, and no snapshot came since.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.knowledge == Knowledge::Uncertain
    }

    /// What was held is not certain any more.
    pub fn forget(&mut self) {
        self.knowledge = Knowledge::Uncertain;
        self.ids.clear();
    }

    /// Takes a piece of a snapshot.
    pub fn load(&mut self, piece: &RegionMembers, counts: &mut Counts) {
        let region = piece.region_id;
        if piece.first {
            self.ids.clear();
            self.last = None;
            self.knowledge = Knowledge::Loading;
        } else if self.knowledge != Knowledge::Loading {
            counts.lose(1, || format!("the first piece of a snapshot of region {region}"));
            self.knowledge = Knowledge::Loading;
        }
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
            self.knowledge = Knowledge::Known;
        }
    }

    /// Takes an event.
    pub fn event(&mut self, region: u64, object: u64, kind: EventKind, counts: &mut Counts) {
        match self.knowledge {
            // A snapshot follows and holds what this is about.
            Knowledge::Uncertain => return,
            Knowledge::Awaited | Knowledge::Loading => {
                counts.misorder(1, || format!("an event of region {region} before its snapshot"));
                return;
            }
            Knowledge::Known => {}
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
