//! `shoal get ID...`: where are these objects?
//!
//! Ends with exit code 4 when one of them is not there, after showing the others.

use clap::Args;
use shoal_proto::v1;

use super::error::{CliError, Exit};
use super::question::QuestionArgs;
use super::values::object;
use crate::client::answer::AnswerReader;
use crate::client::ask;
use crate::client::connection::Connection;

/// Flags of `shoal get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// Object ids, at most 65,536
    #[arg(required = true, value_name = "ID", value_parser = object)]
    pub objects: Vec<u64>,
    #[command(flatten)]
    pub(crate) question: QuestionArgs,
}

/// Asks and writes; [`Exit::NotFound`] when an id is unknown or does not meet the conditions.
///
/// # Errors
/// Those of the connection, the server and of writing.
pub async fn run(connection: &Connection, args: &GetArgs) -> Result<Exit, CliError> {
    let mut wanted = args.objects.clone();
    wanted.sort_unstable();
    wanted.dedup();
    let message =
        v1::GetRequest { options: Some(args.question.options()), objects: wanted.clone() };
    let mut queries = connection.queries();
    let answer = AnswerReader::open(connection, queries.get(connection.request(message))).await?;
    let found = answer.header().total;
    ask::write(connection, &args.question, answer).await?;
    let missing = (wanted.len() as u64).saturating_sub(found);
    if missing > 0 {
        eprintln!("{missing} of {} objects not found", wanted.len());
        return Ok(Exit::NotFound);
    }
    Ok(Exit::Done)
}
