//! `shoal promote`: makes a follower the leader.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use shoal_client::{Client, v1};

use super::connection::ReplicationArgs;
use super::error::{CliError, Exit};
use super::output::stdout;

/// Flags of `shoal promote`.
#[derive(Args, Debug)]
pub struct PromoteArgs {
    /// Promote although the leader answers; what it has acknowledged and not sent is lost
    #[arg(long)]
    pub force: bool,
    /// Write JSON, one object for each fleet
    #[arg(long)]
    pub json: bool,
    /// The secret.
    #[command(flatten)]
    pub replication: ReplicationArgs,
}

/// Promotes the server and writes the new terms.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(client: &Client, args: &PromoteArgs) -> Result<Exit, CliError> {
    let mut out = stdout();
    for v1::FleetTerm { fleet, term, epoch, .. } in client.promote(args.force).await? {
        if args.json {
            // As in the description of a fleet, the term is a string.
            let line = json!({ "fleet": fleet, "term": term.to_string(), "epoch": epoch });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{fleet}: leader from epoch {epoch} on, term {term}")?;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}
