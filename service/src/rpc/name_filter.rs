//! The part of a filter that selects objects by name.

use std::sync::Arc;

use shoal_proto::v1;

use super::service_context::ServiceContext;
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::names::NamePattern;
use crate::shares::Requester;

/// Field of a filter with the pattern.
const FIELD: &str = "name_pattern";

/// A pattern and the fleet whose names it is for.
#[derive(Clone, Debug)]
pub(super) struct NameFilter {
    fleet: Arc<Fleet>,
    pattern: Arc<NamePattern>,
}

/// The pattern of a filter, if it has one.
///
/// # Errors
/// [`ServiceError::Field`] for a wrong pattern, and for one in a numeric fleet. The path is relative
/// to the filter.
pub(super) fn pattern(
    fleet: &Fleet,
    sent: Option<&v1::Filter>,
) -> Result<Option<Arc<NamePattern>>, ServiceError> {
    let Some(text) = sent.map(|sent| &sent.name_pattern).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    fleet.names_for(FIELD)?;
    Ok(parsed(text)?.map(Arc::new))
}

/// The pattern with this text; `None` for an empty one.
///
/// # Errors
/// [`ServiceError::Field`].
pub(super) fn parsed(text: &str) -> Result<Option<NamePattern>, ServiceError> {
    if text.is_empty() {
        return Ok(None);
    }
    NamePattern::parse(text).map(Some).map_err(|why| ServiceError::field(FIELD, why))
}

impl NameFilter {
    /// The part of a filter that selects by name, if it has one.
    ///
    /// # Errors
    /// As [`pattern`].
    pub(super) fn new(
        fleet: &Arc<Fleet>,
        sent: Option<&v1::Filter>,
    ) -> Result<Option<Self>, ServiceError> {
        let pattern = pattern(fleet, sent)?;
        Ok(pattern.map(|pattern| Self { fleet: fleet.clone(), pattern }))
    }

    /// A filter with this pattern alone.
    pub(super) fn of(fleet: Arc<Fleet>, pattern: NamePattern) -> Self {
        Self { fleet, pattern: Arc::new(pattern) }
    }

    fn test(&self, objects: impl IntoIterator<Item = u64>, each: impl FnMut(usize, bool)) {
        // Only named fleets have a filter.
        if let Some(names) = self.fleet.names() {
            names.test(&self.pattern, objects, each);
        }
    }

    /// The places of the objects whose names match.
    pub(super) fn matching(&self, objects: &[u64]) -> Vec<u32> {
        let mut places = Vec::new();
        self.test(objects.iter().copied(), |place, is_match| {
            if is_match {
                places.push(place as u32);
            }
        });
        places
    }

    /// Keeps the objects whose names match.
    pub(super) fn retain(&self, objects: &mut Vec<u64>) {
        let matching = self.matching(objects);
        *objects = matching.into_iter().map(|place| objects[place as usize]).collect();
    }

    /// Whether the name of an object matches.
    pub(super) fn matches(&self, object: u64) -> bool {
        !self.matching(&[object]).is_empty()
    }

    /// Clears the flags of objects whose names do not match.
    pub(super) fn select(&self, objects: &[u64], flags: &mut [bool]) {
        let set: Vec<usize> = (0..flags.len()).filter(|place| flags[*place]).collect();
        let selected = set.iter().map(|place| objects[*place]);
        self.test(selected, |at, is_match| flags[set[at]] = is_match);
    }

    /// Searches the names that were added since the last search. Returns whether any matches.
    pub(super) fn catch_up(&self, found: &mut FoundNames, count_max: usize) -> bool {
        let known = found.objects.len();
        while let Some(names) = self.fleet.names() {
            let next = names.find_matching(&self.pattern, found.next, &mut found.objects);
            if next == found.next || found.objects.len() > count_max {
                break;
            }
            found.next = next;
        }
        found.objects.len() > known
    }

    /// Searches the names of the numbers from `found.next` on, in turns with the work of other
    /// clients, until more than `count_max` match.
    ///
    /// # Errors
    /// [`ServiceError::ShuttingDown`].
    pub(super) async fn search(
        &self,
        context: &ServiceContext,
        client: Requester,
        mut found: FoundNames,
        count_max: usize,
    ) -> Result<FoundNames, ServiceError> {
        loop {
            let (filter, before) = (self.clone(), found.next);
            let turn = move || {
                for _ in 0..SCANS_OF_A_TURN {
                    let Some(names) = filter.fleet.names() else { break };
                    let (first, objects) = (found.next, &mut found.objects);
                    found.next = names.find_matching(&filter.pattern, first, objects);
                    if objects.len() > count_max {
                        break;
                    }
                }
                found
            };
            found = context.workers.run(client, turn).await?;
            if found.next == before || found.objects.len() > count_max {
                return Ok(found);
            }
        }
    }
}

/// Objects of the numbers below `next` whose names match, ascending.
#[derive(Clone, Debug)]
pub(super) struct FoundNames {
    pub(super) objects: Vec<u64>,
    /// The names of the numbers from this one on are not searched yet.
    pub(super) next: u64,
}

impl Default for FoundNames {
    fn default() -> Self {
        Self { objects: Vec::new(), next: 1 }
    }
}

/// Times that a turn takes the lock of the names; a turn lasts some milliseconds.
const SCANS_OF_A_TURN: usize = 16;
