//! The calls of the history service. Requests are the messages of `shoal.v1`, whose comments are
//! the manual.

use shoal_proto::v1;

use crate::answer::AnswerStream;
use crate::client::Client;
use crate::error::Error;

/// Numbers of fixes by squares of the map and steps of time.
#[derive(Clone, Debug, PartialEq)]
pub struct DensityCounts {
    /// Which version of the history was read.
    pub header: v1::HistoryHeader,
    /// Side of a square, in degrees or metres. Square (0, 0) begins at x = 0 and y = 0.
    pub cell: f64,
    /// The squares with fixes, by (time, row, column).
    pub squares: Vec<DensitySquare>,
}

/// A square during a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensitySquare {
    /// First time of the step, Unix milliseconds.
    pub time_ms: i64,
    /// Least x of the square divided by `cell`.
    pub column: i32,
    /// Least y of the square divided by `cell`.
    pub row: i32,
    /// Its fixes.
    pub fixes: u64,
}

impl Client {
    /// The fixes of given objects in a window of time. The timeout bounds the wait for each
    /// message, not the call.
    ///
    /// # Errors
    /// Those of `HistoryService.Trajectory`.
    pub async fn trajectory(
        &self,
        request: v1::TrajectoryRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        let mut service = self.history_service();
        AnswerStream::open(self, service.trajectory(request)).await
    }

    /// The objects, or their fixes, in a region in a window of time. The timeout bounds the wait
    /// for each message, not the call.
    ///
    /// # Errors
    /// Those of `HistoryService.Passed`.
    pub async fn passed(
        &self,
        request: v1::PassedRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        AnswerStream::open(self, self.history_service().passed(request)).await
    }

    /// The newest fix of each object at a moment. The timeout bounds the whole call.
    ///
    /// # Errors
    /// Those of `HistoryService.AsOf`.
    pub async fn as_of(
        &self,
        request: v1::AsOfRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        AnswerStream::open(self, self.history_service().as_of(self.request(request))).await
    }

    /// The fixes of a window in the order of time. With a speed, a message may have none. The
    /// timeout bounds the wait for each message, not the call.
    ///
    /// # Errors
    /// Those of `HistoryService.Replay`.
    pub async fn replay(
        &self,
        request: v1::ReplayRequest,
    ) -> Result<AnswerStream<v1::HistoryHeader>, Error> {
        AnswerStream::open(self, self.history_service().replay(request)).await
    }

    /// The fixes of a window, counted by squares and steps: the whole answer.
    ///
    /// # Errors
    /// Those of `HistoryService.Density`, [`Error::Protocol`].
    pub async fn density(&self, request: v1::DensityRequest) -> Result<DensityCounts, Error> {
        let mut service = self.history_service();
        let mut stream = self.call(service.density(self.request(request))).await?;
        let (mut header, mut cell, mut squares) = (None, 0.0, Vec::new());
        while let Some(part) = self.wait(stream.message()).await? {
            let counts = [part.columns.len(), part.rows.len(), part.fixes.len()];
            if counts.iter().any(|count| *count != part.time_ms.len()) {
                let problem = "the lists of a density have different lengths";
                return Err(Error::Protocol(problem.to_owned()));
            }
            if header.is_none() {
                (header, cell) = (part.header, part.cell);
            }
            let places = part.time_ms.into_iter().zip(part.columns).zip(part.rows);
            squares.extend(places.zip(part.fixes).map(|(((time_ms, column), row), fixes)| {
                DensitySquare { time_ms, column, row, fixes }
            }));
        }
        let header = header.ok_or_else(|| Error::Protocol("the answer has no header".into()))?;
        Ok(DensityCounts { header, cell, squares })
    }

    /// Erases objects, at most 65,536. After it returns, no answer contains them. The files are
    /// rewritten in the background; `history.erasing_count` of the fleet is 0 when that is done.
    ///
    /// # Errors
    /// Those of `HistoryService.Erase`.
    pub async fn erase(&self, request: v1::EraseRequest) -> Result<v1::EraseResponse, Error> {
        self.call(self.history_service().erase(self.request(request))).await
    }
}
