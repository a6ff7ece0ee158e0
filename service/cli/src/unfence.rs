//! `shoal unfence`: makes a fenced fleet a leader again.

use std::io::Write as _;

use clap::Args;
use shoal_client::Client;

use super::connection::ReplicationArgs;
use super::error::{CliError, Exit};
use super::output::stdout;

/// Flags of `shoal unfence`.
#[derive(Args, Debug)]
pub struct UnfenceArgs {
    /// Name of the fleet
    pub name: String,
    /// Confirm that no other server leads the fleet; one that does, and this one, would both
    /// acknowledge reports
    #[arg(long, required = true)]
    pub yes: bool,
    /// The secret.
    #[command(flatten)]
    pub replication: ReplicationArgs,
}

/// Removes the fence.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(client: &Client, args: &UnfenceArgs) -> Result<Exit, CliError> {
    client.unfence(&args.name).await?;
    let mut out = stdout();
    writeln!(out, "{}: takes changes again", args.name)?;
    out.flush()?;
    Ok(Exit::Done)
}
