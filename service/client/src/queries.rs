//! The calls of the query service. Requests are the messages of `shoal.v1`, whose comments are the
//! manual.

use shoal_proto::v1;

use crate::answer::AnswerStream;
use crate::batch::{BatchAnswer, BatchReader};
use crate::client::Client;
use crate::error::Error;

/// Maximum number of names, or of object numbers, in one request: also the longest names fit the
/// limits of messages.
const NAMES_MAX: usize = 4_000;

impl Client {
    /// Returns the given objects that exist.
    ///
    /// # Errors
    /// Those of `QueryService.Get`.
    pub async fn get(&self, request: v1::GetRequest) -> Result<AnswerStream, Error> {
        AnswerStream::open(self, self.query_service().get(self.request(request))).await
    }

    /// Every object in a region.
    ///
    /// # Errors
    /// Those of `QueryService.Range`.
    pub async fn range(&self, request: v1::RangeRequest) -> Result<AnswerStream, Error> {
        AnswerStream::open(self, self.query_service().range(self.request(request))).await
    }

    /// The `k` objects nearest to a point.
    ///
    /// # Errors
    /// Those of `QueryService.Nearest`.
    pub async fn nearest(&self, request: v1::NearestRequest) -> Result<AnswerStream, Error> {
        AnswerStream::open(self, self.query_service().nearest(self.request(request))).await
    }

    /// The number of objects in each of several regions at one epoch.
    ///
    /// # Errors
    /// Those of `QueryService.CountRegions`.
    pub async fn count_regions(
        &self,
        request: v1::CountRegionsRequest,
    ) -> Result<v1::CountRegionsResponse, Error> {
        self.call(self.query_service().count_regions(self.request(request))).await
    }

    /// The numbers of names in a named fleet; 0 for a name that it does not have. More than 4,000
    /// names take several requests.
    ///
    /// # Errors
    /// Those of `QueryService.Resolve`.
    pub async fn resolve(&self, fleet: &str, names: &[String]) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::with_capacity(names.len());
        for names in names.chunks(NAMES_MAX) {
            let (fleet, names) = (fleet.to_owned(), names.to_vec());
            let request = self.request(v1::ResolveRequest { fleet, names });
            numbers.extend(self.call(self.query_service().resolve(request)).await?.objects);
        }
        Ok(numbers)
    }

    /// The names of numbers in a named fleet; empty for a number without one. More than 4,000
    /// numbers take several requests.
    ///
    /// # Errors
    /// Those of `QueryService.Names`.
    pub async fn names(&self, fleet: &str, objects: &[u64]) -> Result<Vec<String>, Error> {
        let mut names = Vec::with_capacity(objects.len());
        for objects in objects.chunks(NAMES_MAX) {
            let (fleet, objects) = (fleet.to_owned(), objects.to_vec());
            let request = self.request(v1::NamesRequest { fleet, objects });
            names.extend(self.call(self.query_service().names(request)).await?.names);
        }
        Ok(names)
    }

    /// A page of the names of a named fleet, ascending by number; `after_object` continues a list.
    ///
    /// # Errors
    /// Those of `QueryService.ListNames`.
    pub async fn list_names(
        &self,
        request: v1::ListNamesRequest,
    ) -> Result<v1::ListNamesResponse, Error> {
        self.call(self.query_service().list_names(self.request(request))).await
    }

    /// The answers to the queries of one message, all at one epoch. For a stream of messages use
    /// [`Client::query_service`] with a [`BatchReader`].
    ///
    /// # Errors
    /// Those of `QueryService.Batch`, also if the whole message failed. A query that fails alone
    /// has its error in its answer.
    pub async fn batch(&self, request: v1::BatchRequest) -> Result<BatchAnswer, Error> {
        let mut service = self.query_service();
        let request = self.request(tokio_stream::once(request));
        let mut stream = self.call(service.batch(request)).await?;
        let mut reader = BatchReader::new(true);
        while let Some(response) = self.wait(stream.message()).await? {
            if let Some(mut answer) = reader.read(response)? {
                return match answer.error.take() {
                    Some(error) => Err(Box::new(error).into()),
                    None => Ok(answer),
                };
            }
        }
        Err(Error::Protocol("the stream ended before the last answer".to_owned()))
    }
}
