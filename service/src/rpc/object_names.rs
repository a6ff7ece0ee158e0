//! Names of objects in requests and answers.
//!
//! A request to a named fleet may give names of objects; an answer has the names in addition to the
//! numbers.

use std::collections::BinaryHeap;

use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1::{
    ListNamesRequest, ListNamesResponse, NamesRequest, NamesResponse, ResolveRequest,
    ResolveResponse,
};

use super::name_filter::{SCANS_OF_A_TURN, parsed};
use super::position_service::at_most;
use super::service_context::ServiceContext;
use crate::access::{Call, MeteredQuota};
use crate::error::ServiceError;
use crate::fleet::Fleet;
use crate::limits::{NAME_PAGE_DEFAULT, NAME_PAGE_MAX, NAMES_ASKED_MAX};
use crate::names::NamePattern;

/// Adds the numbers of names to objects; names that the fleet does not have are left out.
///
/// # Errors
/// [`ServiceError::Field`] for names in a numeric fleet, or if objects and names together
/// are too many.
pub(super) fn add_named(
    fleet: &Fleet,
    objects: &mut Vec<u64>,
    names: &[String],
) -> Result<(), ServiceError> {
    if names.is_empty() {
        return at_most("objects", objects.len(), "ids", GET_OBJECTS_MAX);
    }
    let table = fleet.names_for("names")?;
    at_most("names", objects.len() + names.len(), "objects", GET_OBJECTS_MAX)?;
    let from = objects.len();
    table.find_all(&texts(names), objects);
    let mut at = 0;
    objects.retain(|object| {
        at += 1;
        at <= from || *object != 0
    });
    Ok(())
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The names of objects in a named fleet, with an empty name for a number that has none. Returns an
/// empty list in a numeric fleet.
pub(crate) fn names_of(fleet: &Fleet, objects: &[u64]) -> Vec<String> {
    let Some(table) = fleet.names().filter(|_| !objects.is_empty()) else {
        return Vec::new();
    };
    let reader = table.reader();
    objects.iter().map(|object| reader.name(*object).unwrap_or_default().to_owned()).collect()
}

/// Answers `Resolve`: the numbers of names.
pub(super) fn resolve(
    context: &ServiceContext,
    call: &Call,
    request: &ResolveRequest,
) -> Result<ResolveResponse, ServiceError> {
    let fleet = context.fleet(call, "fleet", &request.fleet)?;
    let table = fleet.names_for("fleet")?;
    at_most("names", request.names.len(), "names", GET_OBJECTS_MAX)?;
    let mut objects = Vec::with_capacity(request.names.len());
    table.find_all(&texts(&request.names), &mut objects);
    Ok(ResolveResponse { objects })
}

/// Answers `Names`: the names of numbers.
pub(super) fn names(
    context: &ServiceContext,
    call: &Call,
    request: &NamesRequest,
) -> Result<NamesResponse, ServiceError> {
    let fleet = context.fleet(call, "fleet", &request.fleet)?;
    fleet.names_for("fleet")?;
    at_most("objects", request.objects.len(), "objects", NAMES_ASKED_MAX)?;
    Ok(NamesResponse { names: names_of(&fleet, &request.objects) })
}

/// A page of names while the names are searched.
struct NamePage {
    pattern: Option<NamePattern>,
    /// The page begins after this name.
    after: String,
    /// The number of names that are kept.
    count: usize,
    /// The least names after `after`, the greatest on top.
    names: BinaryHeap<(String, u64)>,
}

impl NamePage {
    fn add(&mut self, number: u64, name: &str) {
        if name <= self.after.as_str()
            || self.pattern.as_ref().is_some_and(|pattern| !pattern.matches(name))
        {
            return;
        }
        if self.names.len() == self.count {
            if self.names.peek().is_some_and(|(last, _)| name >= last.as_str()) {
                return;
            }
            self.names.pop();
        }
        self.names.push((name.to_owned(), number));
    }
}

/// Answers `ListNames`. Every page searches all names, in turns with the work of other clients: at
/// a hundredth of a microsecond for each, this is faster than keeping them sorted.
pub(super) async fn list(
    context: &ServiceContext,
    call: &Call,
    request: &ListNamesRequest,
) -> Result<ListNamesResponse, ServiceError> {
    let fleet = context.fleet(call, "fleet", &request.fleet)?;
    fleet.names_for("fleet")?;
    let size = match usize::try_from(request.page_size) {
        Ok(0) => NAME_PAGE_DEFAULT,
        Ok(size) => size.min(NAME_PAGE_MAX),
        Err(_) => {
            let problem = format!("{} must be 0 or greater", request.page_size);
            return Err(ServiceError::field("page_size", problem));
        }
    };
    call.take(MeteredQuota::Queries, 1)?;
    let mut page = NamePage {
        pattern: parsed(&request.name_pattern)?,
        after: request.page_token.clone(),
        // One more shows that there is another page.
        count: size + 1,
        names: BinaryHeap::new(),
    };
    let (mut first, mut is_done) = (1, false);
    while !is_done {
        let fleet = fleet.clone();
        let turn = move || {
            let Some(names) = fleet.names() else { return (page, first, true) };
            for _ in 0..SCANS_OF_A_TURN {
                let next = names.scan(first, |number, name| page.add(number, name));
                if next == first {
                    return (page, first, true);
                }
                first = next;
            }
            (page, first, false)
        };
        (page, first, is_done) = context.workers.run(call.client(), turn).await?;
    }
    let mut listed = page.names.into_sorted_vec();
    let has_more = listed.len() > size;
    listed.truncate(size);
    let next_page_token = listed.last().filter(|_| has_more).map(|(name, _)| name.clone());
    let (names, objects) = listed.into_iter().unzip();
    Ok(ListNamesResponse { names, objects, next_page_token: next_page_token.unwrap_or_default() })
}
