//! Answers of Batch streams: parts of many answers, assembled message by message.
//!
//! Messages and queries come in order; anything else is an error of the server.

use shoal_proto::v1;

use crate::answer::QueryAnswer;
use crate::error::{Error, ServerError};

/// The answers to one `BatchRequest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchAnswer {
    /// Fleet, term, epoch and clock of all answers; absent if the message failed.
    pub header: Option<v1::AnswerHeader>,
    /// One answer per query, in order. A query that failed has [`QueryAnswer::error`].
    pub answers: Vec<QueryAnswer>,
    /// Why the whole message failed; then it has no answers.
    pub error: Option<ServerError>,
}

/// Assembles the responses of one Batch stream.
#[derive(Debug)]
pub struct BatchReader {
    message: u64,
    current: BatchAnswer,
    keeps_rows: bool,
}

impl BatchReader {
    /// Creates a reader for a new stream. Without `keeps_rows` rows are discarded on arrival; only
    /// totals and errors remain.
    #[must_use]
    pub fn new(keeps_rows: bool) -> Self {
        Self { message: 1, current: BatchAnswer::default(), keeps_rows }
    }

    /// Whether the rows of the current message are kept.
    pub fn keep_rows(&mut self, keeps_rows: bool) {
        self.keeps_rows = keeps_rows;
    }

    /// True between the first and the last response for a message.
    #[must_use]
    pub fn is_within_message(&self) -> bool {
        self.current != BatchAnswer::default()
    }

    /// Reads the next response; returns the answers to a message with its last response.
    ///
    /// # Errors
    /// [`Error::Protocol`] for an answer out of order, one without header, or lists of unequal
    /// length.
    pub fn read(&mut self, response: v1::BatchResponse) -> Result<Option<BatchAnswer>, Error> {
        let v1::BatchResponse { message, header, results, last, error } = response;
        if message != self.message {
            let expected = self.message;
            let problem = format!("answers to message {message}; {expected} is next");
            return Err(Error::Protocol(problem));
        }
        self.current.header = self.current.header.take().or(header);
        for result in results {
            self.result(result)?;
        }
        self.current.error = error.as_ref().map(ServerError::from);
        if !last && error.is_none() {
            return Ok(None);
        }
        if self.current.header.is_none() && error.is_none() {
            return Err(Error::Protocol(format!(
                "the answers to message {message} have no header"
            )));
        }
        self.message += 1;
        Ok(Some(std::mem::take(&mut self.current)))
    }

    fn result(&mut self, result: v1::BatchResult) -> Result<(), Error> {
        let v1::BatchResult { query, total, truncated, objects, names, fixes, distance_m, error } =
            result;
        let error = error.as_ref().map(ServerError::from);
        let part = QueryAnswer { total, truncated, objects, names, fixes, distance_m, error };
        part.check()?;
        let part = match self.keeps_rows {
            true => part,
            false => QueryAnswer {
                objects: vec![],
                names: vec![],
                fixes: vec![],
                distance_m: vec![],
                ..part
            },
        };
        let answers = &mut self.current.answers;
        let begun = answers.len();
        match answers.last_mut() {
            _ if query as usize == begun => answers.push(part),
            Some(current) if query as usize + 1 == begun => current.append(part),
            _ => {
                let message = self.message;
                let problem = format!("answer {query} of message {message}; {begun} is next");
                return Err(Error::Protocol(problem));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(message: u64, queries: &[(u32, &[u64])], last: bool) -> v1::BatchResponse {
        let result = |(query, objects): &(u32, &[u64])| v1::BatchResult {
            query: *query,
            objects: objects.to_vec(),
            ..Default::default()
        };
        v1::BatchResponse {
            message,
            header: Some(v1::AnswerHeader { epoch: 7, ..Default::default() }),
            results: queries.iter().map(result).collect(),
            last,
            error: None,
        }
    }

    #[test]
    fn answers_span_responses() {
        let mut reader = BatchReader::new(true);
        assert_eq!(reader.read(response(1, &[(0, &[1]), (1, &[2])], false)).unwrap(), None);
        assert!(reader.is_within_message());
        let answer = reader.read(response(1, &[(1, &[3]), (2, &[])], true)).unwrap().unwrap();
        let objects: Vec<_> = answer.answers.iter().map(|of| of.objects.clone()).collect();
        assert_eq!(objects, [vec![1], vec![2, 3], vec![]]);
        assert!(!reader.is_within_message());
        reader.keep_rows(false);
        let answer = reader.read(response(2, &[(0, &[1])], true)).unwrap().unwrap();
        assert!(answer.answers[0].objects.is_empty() && answer.header.unwrap().epoch == 7);
    }

    #[test]
    fn answers_out_of_order_are_rejected() {
        for (message, query) in [(2, 0), (1, 1)] {
            let read = BatchReader::new(true).read(response(message, &[(query, &[])], true));
            assert!(matches!(read, Err(Error::Protocol(_))), "{read:?}");
        }
    }
}
