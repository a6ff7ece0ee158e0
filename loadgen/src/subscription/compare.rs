//! Compares memberships with the answers of range queries at the same epoch.
//!
//! The queries are one message, so that all answers are at one epoch. The subscriber applies
//! exactly the messages up to that epoch before it compares.

use shoal_proto::v1::batch_query::Kind;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::{BatchQuery, BatchRequest, Projection, QueryOptions, Region};
use tonic::transport::Channel;

use super::follower::Follower;
use crate::error::LoadError;
use crate::limits::ANSWER_BYTES_MAX;

/// Answers of the range queries of some regions.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The epoch of all answers.
    pub epoch: u64,
    /// Region and objects.
    pub regions: Vec<(u64, Vec<u64>)>,
}

/// Queries some regions, at most as many as a message may have queries.
///
/// # Errors
/// [`LoadError::Call`], [`LoadError::Protocol`] for answers that do not fit.
pub async fn query_regions(
    channel: Channel,
    fleet: String,
    regions: Vec<(u64, Region)>,
) -> Result<Found, LoadError> {
    let mut client = QueryServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let options = QueryOptions { fleet, projection: Projection::Ids.into(), ..Default::default() };
    let mut found = Found {
        epoch: 0,
        regions: regions.iter().map(|(region, _)| (*region, Vec::new())).collect(),
    };
    let query = |(_, region): (u64, Region)| BatchQuery { kind: Some(Kind::Range(region)) };
    let queries = regions.into_iter().map(query).collect();
    let request = BatchRequest { options: Some(options), queries };
    let failed = || LoadError::call("Batch of a comparison");
    let answers = client.batch(tokio_stream::once(request)).await.map_err(failed())?;
    let mut answers = answers.into_inner();
    while let Some(chunk) = answers.message().await.map_err(failed())? {
        found.epoch = chunk.header.map_or(found.epoch, |header| header.epoch);
        if let Some(failed) = chunk.error {
            return Err(LoadError::Protocol(format!("a comparison failed: {}", failed.message)));
        }
        for result in chunk.results {
            let place = found.regions.get_mut(result.query as usize);
            let Some((_, objects)) = place.filter(|_| result.error.is_none()) else {
                let detail = result.error.map_or_else(String::new, |failed| failed.message);
                let query = result.query;
                return Err(LoadError::Protocol(format!(
                    "query {query} of a comparison failed or was not sent: {detail}"
                )));
            };
            objects.extend(result.objects);
        }
    }
    Ok(found)
}

/// Compares answers with the members of a follower at the same epoch and counts each object that
/// one of them lacks as lost; returns the number of regions compared. Uncertain regions are left
/// out.
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
