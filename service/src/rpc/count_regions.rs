//! `QueryService.CountRegions`: the number of objects in each of several regions, at one epoch.

use shoal_proto::v1;

use super::asking::Asking;
use super::deadline::Deadline;
use super::door::Door;
use super::held_answer::ask;
use super::query_answer::header;
use super::remove::at_most;
use crate::error::ServiceError;
use crate::limits::BATCH_QUERIES_MAX;

pub(super) async fn count_regions(
    door: &Door,
    request: v1::CountRegionsRequest,
    deadline: Deadline,
) -> Result<v1::CountRegionsResponse, ServiceError> {
    let v1::CountRegionsRequest { fleet, min_token, filter, regions } = request;
    at_most("regions", regions.len(), "regions", BATCH_QUERIES_MAX)?;
    let projection = v1::Projection::Count.into();
    let options = v1::QueryOptions { fleet, min_token, filter, projection, ..Default::default() };
    // The filter is a field of the request here.
    let asking = Asking::with_options_at(door, &options, "")?;
    let query = |(index, sent)| {
        let path = format!("regions[{index}]");
        asking.range_at(&path, Some(sent))
    };
    let queries = regions.iter().enumerate().map(query).collect::<Result<_, _>>()?;
    let held = ask(door, &asking, queries, deadline, false).await?;
    let header = Some(header(&asking.fleet, &held.answered, None));
    let counts = held.answered.iter().map(|answer| answer.total).collect();
    Ok(v1::CountRegionsResponse { header, counts })
}
