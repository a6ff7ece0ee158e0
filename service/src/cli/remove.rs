//! `shoal remove ID...`: take objects out of a fleet.
//!
//! More ids than one request may have go in several, which are several epochs. Ends with exit code
//! 4 when one of them was not there.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use shoal_proto::v1;

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::values::object;
use crate::client::connection::Connection;
use crate::client::output::stdout;

/// Ids of one request, the wire's limit.
const REQUEST_OBJECTS: usize = 65_536;

/// Flags of `shoal remove`.
#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// Object ids
    #[arg(required = true, value_name = "ID", value_parser = object)]
    pub objects: Vec<u64>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Removes; [`Exit::NotFound`] when an id did not exist.
///
/// # Errors
/// Those of the connection and the server.
pub async fn run(connection: &Connection, args: &RemoveArgs) -> Result<Exit, CliError> {
    let mut sum = v1::RemoveResponse::default();
    for objects in args.objects.chunks(REQUEST_OBJECTS) {
        let message = v1::RemoveRequest {
            fleet: args.fleet.fleet.clone(),
            objects: objects.to_vec(),
            ..Default::default()
        };
        let mut positions = connection.positions();
        let answer = connection.wait(positions.remove(connection.request(message))).await?;
        let answer = answer.into_inner();
        sum.removed_count += answer.removed_count;
        sum.missing_count += answer.missing_count;
        sum.epoch = answer.epoch;
    }
    let mut out = stdout();
    if args.json {
        let (removed, missing, epoch) = (sum.removed_count, sum.missing_count, sum.epoch);
        let line = json!({ "removed": removed, "missing": missing, "epoch": epoch });
        writeln!(out, "{line}")?;
    } else {
        let v1::RemoveResponse { removed_count, missing_count, epoch, .. } = sum;
        writeln!(out, "{removed_count} removed, {missing_count} not found, epoch {epoch}")?;
    }
    out.flush()?;
    Ok(if sum.missing_count > 0 { Exit::NotFound } else { Exit::Done })
}
