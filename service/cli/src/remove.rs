//! `shoal remove ID...`: removes objects from a fleet. Exit code 4 if one of them did not exist.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use shoal_client::{Client, v1};

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::object_ids::ObjectList;
use super::output::stdout;

/// Flags of `shoal remove`.
#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// Object ids: numbers, or names in a named fleet
    #[arg(required = true, value_name = "ID")]
    pub objects: Vec<String>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Removes; [`Exit::NotFound`] if an id did not exist.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(client: &Client, args: &RemoveArgs) -> Result<Exit, CliError> {
    let fleet = client.get_fleet(&args.fleet.fleet).await?;
    let removed = match ObjectList::of(&fleet, &args.objects)? {
        ObjectList::Numbers(objects) => client.remove(&fleet.name, &objects).await?,
        ObjectList::Names(names) => client.remove_named(&fleet.name, &names).await?,
    };
    let v1::RemoveResponse { removed_count, missing_count, epoch, .. } = removed;
    let mut out = stdout();
    if args.json {
        let line = json!({ "removed": removed_count, "missing": missing_count, "epoch": epoch });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{removed_count} removed, {missing_count} not found, epoch {epoch}")?;
    }
    out.flush()?;
    Ok(if missing_count > 0 { Exit::NotFound } else { Exit::Done })
}
