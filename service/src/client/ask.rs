//! How does an answer get from the stream to standard output?
//!
//! Picks the writer for the form asked for; asks for the fleet's space only where the form depends
//! on it.

use std::io::Write as _;

use shoal_proto::v1::Projection;

use super::answer::{AnswerChunk, AnswerReader};
use super::connection::Connection;
use super::fleet;
use super::output::{AnswerWriter, GeoJsonWriter, JsonWriter, LinesWriter, TableWriter, stdout};
use crate::cli::error::CliError;
use crate::cli::question::{Form, QuestionArgs};

/// Writes the whole answer to standard output.
///
/// # Errors
/// [`CliError::Usage`] for GeoJSON of a planar fleet; those of the server and of writing.
pub async fn write(
    connection: &Connection,
    args: &QuestionArgs,
    mut answer: AnswerReader<impl Into<AnswerChunk>>,
) -> Result<(), CliError> {
    let mut writer = writer(connection, args, &answer.header().fleet).await?;
    let mut out = stdout();
    writer.begin(answer.header(), &mut out)?;
    while let Some(rows) = answer.next().await? {
        writer.rows(rows, &mut out)?;
    }
    writer.end(&mut out)?;
    Ok(out.flush()?)
}

async fn writer(
    connection: &Connection,
    args: &QuestionArgs,
    fleet: &str,
) -> Result<Box<dyn AnswerWriter>, CliError> {
    let count_only = args.projection() == Projection::Count;
    Ok(match (args.form(), args.projection()) {
        (Form::Json, _) => Box::new(JsonWriter::new(count_only)),
        (Form::Table, Projection::Count | Projection::Ids) => {
            Box::new(LinesWriter::new(count_only))
        }
        (Form::Table, _) => {
            let fleet = fleet::describe(connection, fleet).await?;
            Box::new(TableWriter::new(fleet::is_geographic(&fleet)))
        }
        (Form::GeoJson, _) => {
            if !fleet::is_geographic(&fleet::describe(connection, fleet).await?) {
                let reason = format!(
                    "fleet {fleet} is planar: its metres are no GeoJSON coordinates; use --json"
                );
                return Err(CliError::Usage(reason));
            }
            Box::new(GeoJsonWriter::default())
        }
    })
}
