//! Compares memberships with the answers of range queries at the same epoch.
//!
//! The queries are one message, so that all answers are at one epoch. The subscriber applies
//! exactly the messages up to that epoch before it compares.

use shoal_client::Client;
use shoal_client::v1::batch_query::Kind;
use shoal_client::v1::{BatchQuery, BatchRequest, Projection, QueryOptions, Region};

use super::follower::Follower;
use crate::error::LoadError;

/// Answers of the range queries of some regions.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The epoch of all answers.
    pub epoch: u64,
    /// Each region with the ids of its objects.
    pub regions: Vec<(u64, Vec<u64>)>,
}

/// Queries regions in one message; there may be at most as many as a message may have queries.
///
/// # Errors
/// [`LoadError::Call`]; [`LoadError::Protocol`] if a query fails or the number of answers is wrong.
pub async fn query_regions(
    client: Client,
    fleet: String,
    regions: Vec<(u64, Region)>,
) -> Result<Found, LoadError> {
    let options = QueryOptions { fleet, projection: Projection::Ids.into(), ..Default::default() };
    let (ids, regions): (Vec<u64>, Vec<Region>) = regions.into_iter().unzip();
    let query = |region: Region| BatchQuery { kind: Some(Kind::Range(region)) };
    let queries = regions.into_iter().map(query).collect();
    let request = BatchRequest { options: Some(options), queries };
    let answer = client.batch(request).await.map_err(LoadError::call("Batch of a comparison"))?;
    if let Some(error) = answer.answers.iter().find_map(|answer| answer.error.as_ref()) {
        return Err(LoadError::Protocol(format!("a query of a comparison failed: {error}")));
    }
    if answer.answers.len() != ids.len() {
        let (answers, queries) = (answer.answers.len(), ids.len());
        let problem = format!("{answers} answers to the {queries} queries of a comparison");
        return Err(LoadError::Protocol(problem));
    }
    let objects = answer.answers.into_iter().map(|answer| answer.objects);
    let epoch = answer.header.map_or(0, |header| header.epoch);
    Ok(Found { epoch, regions: ids.into_iter().zip(objects).collect() })
}

/// Compares answers with the members of a follower at the same epoch. An object that only one of
/// the two contains counts as lost. Skips uncertain regions; returns the number of regions
/// compared.
pub fn compare(found: &Found, follower: &mut Follower) -> u64 {
    let mut compared = 0;
    for (region, objects) in &found.regions {
        if follower.is_uncertain(*region) {
            continue;
        }
        compared += 1;
        let epoch = found.epoch;
        let Some(members) = follower.members(*region) else {
            let text = || format!("region {region} has no whole snapshot at epoch {epoch}");
            follower.counts.lose(1, text);
            continue;
        };
        let missing: Vec<u64> =
            objects.iter().filter(|object| !members.contains(object)).copied().collect();
        let too_many = members.len() - (objects.len() - missing.len());
        let wrong = missing.len() + too_many;
        let held = members.len();
        follower.counts.lose(wrong as u64, || {
            let some: Vec<u64> = missing.iter().take(3).copied().collect();
            format!(
                "region {region} at epoch {epoch} holds {held} members, a range query finds {}; \
                 missing {} ({some:?}), {too_many} too many",
                objects.len(),
                missing.len()
            )
        });
    }
    compared
}
