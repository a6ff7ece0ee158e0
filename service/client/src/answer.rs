//! Answers of Get, Range and Nearest: chunks of a stream, assembled in one place.
//!
//! The first chunk has the header. Lists of unequal length are an error of the server.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use shoal_proto::v1;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Response, Status, Streaming};

use crate::client::Client;
use crate::error::{Error, ServerError};

/// One object of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerRow {
    /// The object.
    pub object: u64,
    /// Its name, in a named fleet that still knows it.
    pub name: Option<String>,
    /// Its record, with `PROJECTION_FIXES`.
    pub fix: Option<v1::FixRecord>,
    /// Its distance in metres, for Nearest.
    pub distance_m: Option<f64>,
}

impl AnswerRow {
    /// Returns the name of the object, or its number if it has no name.
    #[must_use]
    pub fn label(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(self.object.to_string()),
        }
    }
}

/// A whole answer, or a part of one. Lists that are not empty are equally long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryAnswer {
    /// The number of objects that match.
    pub total: u64,
    /// Whether `limit` left objects out.
    pub truncated: bool,
    /// The objects.
    pub objects: Vec<u64>,
    /// The names of `objects`, in a named fleet; empty for a name that the server no longer knows.
    pub names: Vec<String>,
    /// The records of `objects`, with `PROJECTION_FIXES`.
    pub fixes: Vec<v1::FixRecord>,
    /// The distances of `objects` in metres, for Nearest.
    pub distance_m: Vec<f64>,
    /// Why a query of a batch failed; then it has no objects.
    pub error: Option<ServerError>,
}

impl QueryAnswer {
    /// Appends the next part; `total` and `truncated` are those of the first.
    pub(crate) fn append(&mut self, part: Self) {
        self.error = self.error.take().or(part.error);
        if self.objects.is_empty() {
            (self.objects, self.fixes) = (part.objects, part.fixes);
            (self.names, self.distance_m) = (part.names, part.distance_m);
        } else {
            self.objects.extend(part.objects);
            self.names.extend(part.names);
            self.fixes.extend(part.fixes);
            self.distance_m.extend(part.distance_m);
        }
    }

    /// Confirms that the lists are equally long.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn check(&self) -> Result<(), Error> {
        let count = self.objects.len();
        let (names, fixes, distances) = (&self.names, &self.fixes, &self.distance_m);
        for (name, length) in
            [("names", names.len()), ("fixes", fixes.len()), ("distances", distances.len())]
        {
            if length != 0 && length != count {
                return Err(Error::Protocol(format!("{length} {name} for {count} objects")));
            }
        }
        Ok(())
    }

    /// The objects one by one.
    pub fn into_rows(self) -> impl Iterator<Item = AnswerRow> {
        let mut names = self.names.into_iter();
        let mut fixes = self.fixes.into_iter();
        let mut distances = self.distance_m.into_iter();
        self.objects.into_iter().map(move |object| AnswerRow {
            object,
            name: names.next().filter(|name| !name.is_empty()),
            fix: fixes.next(),
            distance_m: distances.next(),
        })
    }
}

/// A message of an answer: the header, if it is the first, and rows.
pub(crate) type Chunk<H> = (Option<H>, QueryAnswer);

/// Responses that are chunks of an answer.
pub(crate) trait IntoChunk {
    type Header;
    fn into_chunk(self) -> Chunk<Self::Header>;
}

macro_rules! chunks {
    ($($message:ident: $header:ident $(, $list:ident)*;)+) => {$(
        impl IntoChunk for v1::$message {
            type Header = v1::$header;

            fn into_chunk(self) -> Chunk<Self::Header> {
                let Self { header, objects, fixes, $($list,)* .. } = self;
                (header, QueryAnswer { objects, fixes, $($list,)* ..QueryAnswer::default() })
            }
        }
    )+};
}

chunks! {
    GetResponse: AnswerHeader, names;
    RangeResponse: AnswerHeader, names;
    NearestResponse: AnswerHeader, names, distance_m;
    TrajectoryResponse: HistoryHeader, names;
    PassedResponse: HistoryHeader, names;
    AsOfResponse: HistoryHeader, names;
    ReplayResponse: HistoryHeader, names;
}

/// An answer whose header has arrived and whose rows are read as they come. The header of an answer
/// about the past is a [`v1::HistoryHeader`].
pub struct AnswerStream<H = v1::AnswerHeader> {
    header: H,
    /// Rows of the first message.
    first: Option<QueryAnswer>,
    chunks: Pin<Box<dyn Stream<Item = Result<Chunk<H>, Status>> + Send>>,
    client: Client,
}

impl<H: 'static> AnswerStream<H> {
    /// Waits for the first message of the answer to a query.
    pub(crate) async fn open<T: IntoChunk<Header = H> + 'static>(
        client: &Client,
        response: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Self, Error> {
        let mut stream = client.call(response).await?;
        let first = client.wait(stream.message()).await?.map(IntoChunk::into_chunk);
        let Some((Some(header), first)) = first else {
            return Err(Error::Protocol("the answer has no header".to_owned()));
        };
        first.check()?;
        let chunks = Box::pin(stream.map(|chunk| chunk.map(IntoChunk::into_chunk)));
        Ok(Self { header, first: Some(first), chunks, client: client.clone() })
    }

    /// Fleet, term, epoch and clock of the answer.
    #[must_use]
    pub fn header(&self) -> &H {
        &self.header
    }

    /// The rows of the next message; `None` at the end.
    ///
    /// # Errors
    /// Those of the call, [`Error::Timeout`], [`Error::Protocol`].
    pub async fn next(&mut self) -> Result<Option<QueryAnswer>, Error> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let chunk = self.client.wait(async { self.chunks.next().await.transpose() }).await?;
        let Some((_, rows)) = chunk else { return Ok(None) };
        rows.check()?;
        Ok(Some(rows))
    }
}

impl AnswerStream {
    /// The whole answer.
    ///
    /// # Errors
    /// As [`AnswerStream::next`].
    pub async fn collect(mut self) -> Result<(v1::AnswerHeader, QueryAnswer), Error> {
        let v1::AnswerHeader { total, truncated, .. } = self.header;
        let mut answer = QueryAnswer { total, truncated, ..QueryAnswer::default() };
        while let Some(part) = self.next().await? {
            answer.append(part);
        }
        Ok((self.header, answer))
    }
}

impl<H: fmt::Debug> fmt::Debug for AnswerStream<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream").field("header", &self.header).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_appended_and_unequal_lists_rejected() {
        let ids =
            |objects: &[u64]| QueryAnswer { objects: objects.to_vec(), ..QueryAnswer::default() };
        let mut answer = QueryAnswer { total: 3, ..QueryAnswer::default() };
        answer.append(QueryAnswer { distance_m: vec![0.5, 2.0], ..ids(&[3, 5]) });
        answer.append(QueryAnswer { distance_m: vec![7.0], ..ids(&[9]) });
        answer.check().unwrap();
        assert_eq!((answer.total, answer.objects.as_slice()), (3, &[3, 5, 9][..]));
        let last = answer.into_rows().last().unwrap();
        assert_eq!(last, AnswerRow { object: 9, distance_m: Some(7.0), ..AnswerRow::default() });
        let torn = QueryAnswer { fixes: vec![v1::FixRecord::default()], ..ids(&[3, 5]) };
        assert!(torn.check().unwrap_err().to_string().contains("1 fixes for 2 objects"));
    }
}
