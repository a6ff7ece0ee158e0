//! Names of objects in requests and answers.
//!
//! A request to a named fleet may give names of objects; an answer has the names in addition to the
//! numbers.

use shoal_engine::limits::GET_OBJECTS_MAX;
use shoal_proto::v1::{
    ListNamesRequest, ListNamesResponse, NamesRequest, NamesResponse, ResolveRequest,
    ResolveResponse,
};

use super::name_filter::{FoundNames, NameFilter, parsed};
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
    call.take(MeteredQuota::Queries, 1)?;
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
    call.take(MeteredQuota::Queries, 1)?;
    Ok(NamesResponse { names: names_of(&fleet, &request.objects) })
}

/// Answers `ListNames`. Searches the names in turns with the work of other clients.
pub(super) async fn list(
    context: &ServiceContext,
    call: &Call,
    request: &ListNamesRequest,
) -> Result<ListNamesResponse, ServiceError> {
    let fleet = context.fleet(call, "fleet", &request.fleet)?;
    let names = fleet.names_for("fleet")?;
    let pattern = parsed(&request.name_pattern)?.unwrap_or_else(NamePattern::any);
    let size = match request.page_size as usize {
        0 => NAME_PAGE_DEFAULT,
        size => size.min(NAME_PAGE_MAX),
    };
    call.take(MeteredQuota::Queries, 1)?;
    let filter = NameFilter::of(fleet.clone(), pattern);
    let next = request.after_object.saturating_add(1);
    let begun = FoundNames { next, ..FoundNames::default() };
    let FoundNames { mut objects, .. } = filter.search(context, call.client(), begun, size).await?;
    let has_more = objects.len() > size;
    objects.truncate(size);
    let reader = names.reader();
    let named =
        objects.iter().filter_map(|object| Some((reader.name(*object)?.to_owned(), *object)));
    let (names, objects) = named.unzip();
    Ok(ListNamesResponse { names, objects, has_more })
}
