//! `shoal nearest X,Y`: who is closest?
//!
//! Order and distances are the server's; nothing is computed here.

use clap::Args;
use shoal_proto::v1;

use super::error::{CliError, Exit};
use super::question::QuestionArgs;
use super::values::{PointValue, metres};
use crate::client::answer::AnswerReader;
use crate::client::ask;
use crate::client::connection::Connection;

/// Flags of `shoal nearest`.
#[derive(Args, Debug)]
pub struct NearestArgs {
    /// Where: longitude and latitude in degrees, or metres
    #[arg(value_name = "X,Y", allow_hyphen_values = true)]
    pub centre: PointValue,
    /// How many, at most 4,096
    #[arg(short, value_name = "N", default_value_t = 10)]
    pub k: u32,
    /// Only objects at this distance or nearer, in metres
    #[arg(long, value_name = "METRES", value_parser = metres)]
    pub within: Option<f64>,
    #[command(flatten)]
    pub(crate) question: QuestionArgs,
}

/// Asks and writes.
///
/// # Errors
/// Those of the connection, the server and of writing.
pub async fn run(connection: &Connection, args: &NearestArgs) -> Result<Exit, CliError> {
    let message = v1::NearestRequest {
        options: Some(args.question.options()),
        x: args.centre.x,
        y: args.centre.y,
        k: args.k,
        distance_max_m: args.within,
    };
    let mut queries = connection.queries();
    let answer =
        AnswerReader::open(connection, queries.nearest(connection.request(message))).await?;
    ask::write(connection, &args.question, answer).await?;
    Ok(Exit::Done)
}
