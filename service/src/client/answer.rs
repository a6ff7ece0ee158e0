//! How does an answer that arrives in chunks become rows?
//!
//! The header is read at once, chunks as they are asked for: a client never holds more than one.
//! Lists of unequal length are an error of the server and never guessed around.

use shoal_proto::v1;
use tonic::{Response, Status, Streaming};

use super::connection::Connection;
use crate::cli::error::CliError;

/// One object of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerRow {
    /// The object's id.
    pub object: u64,
    /// Its record, when records were asked for.
    pub fix: Option<v1::FixRecord>,
    /// Metres from the centre, for `nearest`.
    pub distance_m: Option<f64>,
}

/// One message of an answer, whichever call it answers.
#[derive(Clone, Debug, Default)]
pub struct AnswerChunk {
    header: Option<v1::AnswerHeader>,
    objects: Vec<u64>,
    fixes: Vec<v1::FixRecord>,
    distance_m: Vec<f64>,
}

impl From<v1::GetResponse> for AnswerChunk {
    fn from(v1::GetResponse { header, objects, fixes }: v1::GetResponse) -> Self {
        Self { header, objects, fixes, distance_m: Vec::new() }
    }
}

impl From<v1::RangeResponse> for AnswerChunk {
    fn from(v1::RangeResponse { header, objects, fixes }: v1::RangeResponse) -> Self {
        Self { header, objects, fixes, distance_m: Vec::new() }
    }
}

impl From<v1::NearestResponse> for AnswerChunk {
    fn from(response: v1::NearestResponse) -> Self {
        let v1::NearestResponse { header, objects, fixes, distance_m } = response;
        Self { header, objects, fixes, distance_m }
    }
}

/// An answer whose header has arrived; `T` is the response of its call.
#[derive(Debug)]
pub struct AnswerReader<T> {
    header: v1::AnswerHeader,
    chunk: Option<AnswerChunk>,
    stream: Streaming<T>,
    connection: Connection,
}

impl<T: Into<AnswerChunk>> AnswerReader<T> {
    /// Waits for the first chunk of the answer to a query that was sent.
    ///
    /// # Errors
    /// The server's refusal, silence, or an answer without header.
    pub async fn open(
        connection: &Connection,
        response: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Self, CliError> {
        let mut stream = connection.wait(response).await?.into_inner();
        let first = connection.wait(stream.message()).await?;
        let mut chunk: Option<AnswerChunk> = first.map(Into::into);
        let header = chunk.as_mut().and_then(|first| first.header.take());
        let header = header.ok_or_else(|| CliError::Answer("no header came".to_owned()))?;
        Ok(Self { header, chunk, stream, connection: connection.clone() })
    }

    /// Where and when the answer holds.
    #[must_use]
    pub fn header(&self) -> &v1::AnswerHeader {
        &self.header
    }

    /// The next rows, `None` after the last.
    ///
    /// # Errors
    /// The server's refusal, silence, or a chunk that contradicts itself.
    pub async fn next(&mut self) -> Result<Option<Vec<AnswerRow>>, CliError> {
        let chunk = match self.chunk.take() {
            Some(first) => Some(first),
            None => self.connection.wait(self.stream.message()).await?.map(Into::into),
        };
        chunk.map(rows).transpose()
    }
}

/// The rows of one chunk.
fn rows(chunk: AnswerChunk) -> Result<Vec<AnswerRow>, CliError> {
    let count = chunk.objects.len();
    for (name, length) in [("fixes", chunk.fixes.len()), ("distance_m", chunk.distance_m.len())] {
        if length != 0 && length != count {
            let reason = format!("{length} {name} beside {count} objects");
            return Err(CliError::Answer(reason));
        }
    }
    let mut fixes = chunk.fixes.into_iter();
    let mut distances = chunk.distance_m.into_iter();
    let row = |object| AnswerRow { object, fix: fixes.next(), distance_m: distances.next() };
    Ok(chunk.objects.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_what_the_chunk_has_and_refuse_unequal_lists() {
        let ids = AnswerChunk { objects: vec![3, 5], ..Default::default() };
        let plain = rows(ids.clone()).unwrap();
        assert_eq!(plain[1], AnswerRow { object: 5, fix: None, distance_m: None });
        let near = AnswerChunk { distance_m: vec![0.5, 2.0], ..ids.clone() };
        assert_eq!(rows(near).unwrap()[1].distance_m, Some(2.0));
        let torn = AnswerChunk { fixes: vec![v1::FixRecord::default()], ..ids };
        assert!(rows(torn).unwrap_err().to_string().contains("1 fixes beside 2 objects"));
    }
}
