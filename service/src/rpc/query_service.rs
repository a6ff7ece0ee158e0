//! `QueryService`: Get, Range, Nearest, CountRegions and Batch; Resolve, Names and
//! ListNames, which convert names of objects to numbers and back and list them.

use shoal_proto::v1::query_service_server::QueryService;
use shoal_proto::v1::{
    BatchRequest, CountRegionsRequest, CountRegionsResponse, GetRequest, GetResponse,
    ListNamesRequest, ListNamesResponse, NamesRequest, NamesResponse, NearestQuery, NearestRequest,
    NearestResponse, Projection, QueryOptions, RangeRequest, RangeResponse, ResolveRequest,
    ResolveResponse,
};
use tonic::{Request, Response, Status, Streaming};

use super::batch;
use super::batch_answer::BatchStream;
use super::budgeted_answer::{Questions, ask};
use super::chunk_stream::RowStream;
use super::deadline::Deadline;
use super::object_names;
use super::position_service::at_most;
use super::query_answer::{answer_one, header};
use super::query_context::QueryContext;
use super::region;
use super::service_context::ServiceContext;
use crate::access::Call;
use crate::error::ServiceError;
use crate::limits::BATCH_QUERIES_MAX;

#[tonic::async_trait]
impl QueryService for ServiceContext {
    type GetStream = RowStream<GetResponse>;
    type RangeStream = RowStream<RangeResponse>;
    type NearestStream = RowStream<NearestResponse>;
    type BatchStream = BatchStream;

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let deadline = Deadline::of(request.metadata());
        let call = Call::of(request.extensions())?;
        let (GetRequest { options, objects, names }, _charge) = self.message(request).await?;
        let context = QueryContext::new(self, call, &options.unwrap_or_default(), "options")?;
        context.reach_names(&names, deadline).await?;
        let query = context.get(objects, &names)?;
        Ok(answer_one(self, context, query, deadline).await?)
    }

    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStream>, Status> {
        let deadline = Deadline::of(request.metadata());
        let call = Call::of(request.extensions())?;
        let (RangeRequest { options, region }, _charge) = self.message(request).await?;
        let context = QueryContext::new(self, call, &options.unwrap_or_default(), "options")?;
        let query = context.range("region", region.as_ref())?;
        Ok(answer_one(self, context, query, deadline).await?)
    }

    async fn nearest(
        &self,
        request: Request<NearestRequest>,
    ) -> Result<Response<Self::NearestStream>, Status> {
        let deadline = Deadline::of(request.metadata());
        let call = Call::of(request.extensions())?;
        let (NearestRequest { options, x, y, k, distance_max_m }, _charge) =
            self.message(request).await?;
        let context = QueryContext::new(self, call, &options.unwrap_or_default(), "options")?;
        let query = context.nearest("", NearestQuery { x, y, k, distance_max_m })?;
        Ok(answer_one(self, context, query, deadline).await?)
    }

    async fn count_regions(
        &self,
        request: Request<CountRegionsRequest>,
    ) -> Result<Response<CountRegionsResponse>, Status> {
        let deadline = Deadline::of(request.metadata());
        let call = Call::of(request.extensions())?;
        let (request, _charge) = self.message(request).await?;
        Ok(Response::new(count_regions(self, call, request, deadline).await?))
    }

    async fn resolve(
        &self,
        request: Request<ResolveRequest>,
    ) -> Result<Response<ResolveResponse>, Status> {
        let call = Call::of(request.extensions())?;
        let (request, _charge) = self.message(request).await?;
        Ok(Response::new(object_names::resolve(self, &call, &request)?))
    }

    async fn names(
        &self,
        request: Request<NamesRequest>,
    ) -> Result<Response<NamesResponse>, Status> {
        let call = Call::of(request.extensions())?;
        let (request, _charge) = self.message(request).await?;
        Ok(Response::new(object_names::names(self, &call, &request)?))
    }

    async fn list_names(
        &self,
        request: Request<ListNamesRequest>,
    ) -> Result<Response<ListNamesResponse>, Status> {
        let (deadline, call) = (Deadline::of(request.metadata()), Call::of(request.extensions())?);
        let (request, _charge) = self.message(request).await?;
        let listing = object_names::list(self, &call, &request);
        let listed = deadline.bound(listing).await.map_err(|error| self.count(error))?;
        Ok(Response::new(listed))
    }

    async fn batch(
        &self,
        request: Request<Streaming<BatchRequest>>,
    ) -> Result<Response<BatchStream>, Status> {
        Ok(batch::batch(self, request)?)
    }
}

/// The number of objects in each region, all at one epoch.
async fn count_regions(
    context: &ServiceContext,
    call: Call,
    request: CountRegionsRequest,
    deadline: Deadline,
) -> Result<CountRegionsResponse, ServiceError> {
    let CountRegionsRequest { fleet, min_token, filter, regions } = request;
    at_most("regions", regions.len(), "regions", BATCH_QUERIES_MAX)?;
    let projection = Projection::Count.into();
    let options = QueryOptions { fleet, min_token, filter, projection, ..Default::default() };
    // The options are fields of the request itself.
    let query_context = QueryContext::new(context, call, &options, "")?;
    let all_work = regions.iter().map(region::work).sum();
    let reserving = context.reserve_work(query_context.client, all_work);
    let _in_work = deadline.bound(reserving).await?;
    let each = {
        let query_context = query_context.clone();
        move |index, region| query_context.range(&format!("regions[{index}]"), Some(&region))
    };
    let converting = context.convert(query_context.client, regions, region::work, each);
    let queries = deadline.bound(converting).await?.into_iter().collect::<Result<_, _>>()?;
    let questions = Questions::valid(queries);
    let answer = ask(context, &query_context, questions, deadline, false).await?;
    let header = Some(header(&query_context, &answer.answered, None));
    let counts = answer.answered.iter().map(|answer| answer.total).collect();
    Ok(CountRegionsResponse { header, counts })
}
