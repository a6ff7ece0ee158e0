//! How do objects stand to the regions that remember it?
//!
//! Regions with a dwell, a hysteresis, an interval of moves or an age, and those that judge every
//! fix: their stands are kept by the host and moved on by the engine's one state machine. Where
//! time alone may change a stand it is queued for that time. Knows no device; whom the device has
//! to watch is listed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shoal_codec::FixRow;
use shoal_engine::stage::region_index::RegionIndex;
use shoal_engine::stage::subscription::{CycleTime, MembershipState, due_ms};
use shoal_engine::{EvaluationMode, EventKind, RegionId, Space, Subscription};

use super::told::HostMade;

/// One object's stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) stand: MembershipState,
    /// Its record.
    pub(super) row: FixRow,
    /// When it is queued for.
    due_ms: Option<i64>,
}

/// One region and its stands.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) id: RegionId,
    pub(super) subscription: Box<Subscription>,
    pub(super) stands: BTreeMap<u64, Held>,
}

impl Kept {
    /// Those of its events that are wanted, if there are any.
    pub(super) fn told(&self, events: Vec<(EventKind, FixRow)>) -> Option<HostMade> {
        let mut told = HostMade { region: self.id, ..HostMade::default() };
        for (kind, row) in events {
            if self.subscription.wanted.tells(kind) {
                told.push(kind as u8, row, self.subscription.with_fixes);
            }
        }
        (!told.objects.is_empty()).then_some(told)
    }
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Stands {
    numbers: BTreeMap<RegionId, u32>,
    /// By number; a number is given again.
    regions: Vec<Option<Kept>>,
    free: Vec<u32>,
    /// All regions, and those that tell what passes through between two fixes.
    pub(super) index: RegionIndex,
    pub(super) crossing: RegionIndex,
    of_object: HashMap<u64, Vec<u32>>,
    due: BTreeSet<(i64, u32, u64)>,
    /// Objects that are to be watched, or not any more, since somebody asked.
    watches: BTreeMap<u64, bool>,
    stepped: usize,
}

impl Stands {
    pub(super) fn new(space: &Space) -> Self {
        Self {
            numbers: BTreeMap::new(),
            regions: Vec::new(),
            free: Vec::new(),
            index: RegionIndex::new(space.bounds()),
            crossing: RegionIndex::wide(space.bounds()),
            of_object: HashMap::new(),
            due: BTreeSet::new(),
            watches: BTreeMap::new(),
            stepped: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether some region judges every fix.
    pub(super) fn has_steps(&self) -> bool {
        self.stepped > 0
    }

    pub(super) fn number(&self, region: RegionId) -> Option<u32> {
        self.numbers.get(&region).copied()
    }

    /// The region of a number in use.
    pub(super) fn region(&self, number: u32) -> Option<&Kept> {
        self.regions[number as usize].as_ref()
    }

    /// The regions that an object stands to.
    pub(super) fn of_object(&self, object: u64) -> &[u32] {
        self.of_object.get(&object).map_or(&[], |numbers| numbers)
    }

    /// Adds a region without stands.
    pub(super) fn add(&mut self, id: RegionId, subscription: Box<Subscription>) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.regions.push(None);
            self.regions.len() as u32 - 1
        });
        self.index.insert(number, &subscription.region);
        if subscription.judging == EvaluationMode::Crossing {
            self.crossing.insert(number, &subscription.region);
        }
        self.stepped += usize::from(subscription.judging != EvaluationMode::Cycle);
        self.numbers.insert(id, number);
        self.regions[number as usize] = Some(Kept { id, subscription, stands: BTreeMap::new() });
        number
    }

    /// Takes a region out, with its stands as they are.
    pub(super) fn remove(&mut self, region: RegionId) -> Option<Kept> {
        let number = self.numbers.remove(&region)?;
        let kept = self.regions[number as usize].take()?;
        self.index.remove(number, &kept.subscription.region);
        if kept.subscription.judging == EvaluationMode::Crossing {
            self.crossing.remove(number, &kept.subscription.region);
        }
        self.stepped -= usize::from(kept.subscription.judging != EvaluationMode::Cycle);
        self.free.push(number);
        for (object, held) in &kept.stands {
            self.forget(number, *object, held.due_ms);
        }
        Some(kept)
    }

    /// Takes an object's stand to a region out of the lists by object and by time.
    fn forget(&mut self, number: u32, object: u64, due_ms: Option<i64>) {
        if let Some(due_ms) = due_ms {
            self.due.remove(&(due_ms, number, object));
        }
        if let Some(numbers) = self.of_object.get_mut(&object) {
            numbers.retain(|held| *held != number);
            if numbers.is_empty() {
                self.of_object.remove(&object);
                self.watches.insert(object, false);
            }
        }
    }

    /// Files what the stand of an object, whose record is `row`, has become.
    pub(super) fn set(&mut self, number: u32, row: &FixRow, stand: Option<MembershipState>) {
        let Some(kept) = self.regions[number as usize].as_mut() else { return };
        let object = row.object;
        let Some(stand) = stand else {
            if let Some(held) = kept.stands.remove(&object) {
                self.forget(number, object, held.due_ms);
            }
            return;
        };
        let due_ms = due_ms(&kept.subscription, &stand, row);
        let before = kept.stands.insert(object, Held { stand, row: *row, due_ms });
        match before {
            Some(before) => {
                if let Some(due_ms) = before.due_ms {
                    self.due.remove(&(due_ms, number, object));
                }
            }
            None => {
                let numbers = self.of_object.entry(object).or_default();
                if numbers.is_empty() {
                    self.watches.insert(object, true);
                }
                numbers.push(number);
            }
        }
        if let Some(due_ms) = due_ms {
            self.due.insert((due_ms, number, object));
        }
    }

    /// Takes note that all members of a region have been told.
    pub(super) fn present(&mut self, number: u32, now: &CycleTime<'_>) {
        let Some(kept) = self.regions[number as usize].as_mut() else { return };
        for held in kept.stands.values_mut() {
            if let MembershipState::Member { reported_ms, .. } = &mut held.stand {
                *reported_ms = now.clock_ms;
            }
        }
    }

    /// Numbers and objects that are due at a clock.
    pub(super) fn due(&self, clock_ms: i64) -> Vec<(u32, u64)> {
        let due = self.due.iter().take_while(|(due_ms, ..)| *due_ms <= clock_ms);
        due.map(|(_, number, object)| (*number, *object)).collect()
    }

    /// The earliest time at which a stand may change by itself.
    pub(super) fn due_ms(&self) -> Option<i64> {
        self.due.first().map(|(due_ms, ..)| *due_ms)
    }

    /// Whom the device is to watch from now on, and whom no more, since the last call.
    pub(super) fn take_watches(&mut self) -> BTreeMap<u64, bool> {
        std::mem::take(&mut self.watches)
    }

    /// Everybody whom the device is to watch.
    pub(super) fn watched(&self) -> Vec<u64> {
        self.of_object.keys().copied().collect()
    }
}
