//! Did a cycle answer all its queries? A rate without answers is none.

use shoal_engine::{AnswerSet, CycleOutput};

use crate::error::BenchmarkError;

/// The answers of a cycle that asked so many queries.
///
/// # Errors
/// [`BenchmarkError::Unanswered`] when memory was lacking for them, and when their number is
/// another.
pub(crate) fn answers(output: &CycleOutput, queries: usize) -> Result<&AnswerSet, BenchmarkError> {
    let epoch = output.epoch;
    let failed = |why| Err(BenchmarkError::Unanswered { epoch, queries, why });
    match &output.unanswered {
        Some(fault) => failed(fault.to_string()),
        None if output.answers.len() == queries => Ok(&output.answers),
        None => failed(format!("there are {} answers", output.answers.len())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use shoal_engine::EngineError;

    use super::*;

    #[test]
    fn what_was_not_answered_is_an_error_that_says_why() {
        let unanswered = EngineError::Device("no room".into());
        let output =
            CycleOutput { epoch: 7, unanswered: Some(unanswered), ..CycleOutput::default() };
        for queries in [0, 3] {
            let error = answers(&output, queries).map(drop).unwrap_err().to_string();
            assert!(error.contains("cycle 7") && error.contains("no room"), "{error}");
        }
    }

    #[test]
    fn every_query_has_an_answer() {
        let output = CycleOutput::default();
        assert_eq!(answers(&output, 0).unwrap().len(), 0);
        let error = answers(&output, 2).map(drop).unwrap_err().to_string();
        assert!(error.contains("2 queries") && error.contains("0 answers"), "{error}");
    }
}
