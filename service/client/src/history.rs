//! The calls of the history service. Requests are the messages of `shoal.v1`, whose comments are
//! the manual.

use shoal_proto::v1;

use crate::answer::AnswerStream;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// The fixes of given objects in a window of time.
    ///
    /// # Errors
    /// Those of `HistoryService.Trajectory`.
    pub async fn trajectory(
        &self,
        request: v1::TrajectoryRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        let mut service = self.history_service();
        AnswerStream::open(self, service.trajectory(self.request(request))).await
    }

    /// The objects, or their fixes, in a region in a window of time.
    ///
    /// # Errors
    /// Those of `HistoryService.Passed`.
    pub async fn passed(
        &self,
        request: v1::PassedRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        AnswerStream::open(self, self.history_service().passed(self.request(request))).await
    }

    /// The newest fix of each object at a moment.
    ///
    /// # Errors
    /// Those of `HistoryService.AsOf`.
    pub async fn as_of(
        &self,
        request: v1::AsOfRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        AnswerStream::open(self, self.history_service().as_of(self.request(request))).await
    }
}
