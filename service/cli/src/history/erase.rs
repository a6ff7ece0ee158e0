//! `shoal history erase`: erases objects and their history, and waits until no file contains them.
//!
//! It cannot be undone, so it requires `--yes`.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use shoal_client::{Client, v1};
use tokio::time::sleep;

use crate::connection::FleetArgs;
use crate::error::{CliError, Exit};
use crate::object_ids::ObjectList;
use crate::output::stdout;

/// Interval between two requests for the progress.
const POLL: Duration = Duration::from_millis(200);

/// Flags of `shoal history erase`.
#[derive(Args, Debug)]
pub struct EraseArgs {
    /// Object ids, at most 65,536: numbers, or names in a named fleet
    #[arg(required = true, value_name = "ID")]
    pub objects: Vec<String>,
    /// Erase: nothing brings the objects back
    #[arg(long, required = true)]
    pub yes: bool,
    /// Return once no answer has the objects; the files are rewritten later
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Erases, and waits until it is done.
///
/// # Errors
/// Those of the server; a history that has stopped meanwhile.
pub(super) async fn run(client: &Client, args: &EraseArgs) -> Result<Exit, CliError> {
    let fleet = &args.fleet.fleet;
    let objects = ObjectList::of_fleet(client, fleet, &args.objects).await?;
    let unknown = objects.find_unknown(client, fleet).await?;
    let exit = if unknown.is_empty() { Exit::Done } else { Exit::NotFound };
    let (objects, mut names) = objects.into_fields();
    names.retain(|name| !unknown.contains(name));
    let count = objects.len() + names.len();
    if count == 0 {
        return Ok(exit);
    }
    let has_names = !names.is_empty();
    let request = v1::EraseRequest { fleet: fleet.clone(), objects, names };
    let removed = client.erase(request).await?.removed_count;
    let what = if has_names { "their fixes any more; the names stay" } else { "them any more" };
    let mut out = stdout();
    writeln!(out, "{count} objects are in no answer any more, {removed} were in the fleet")?;
    out.flush()?;
    if args.no_wait {
        return Ok(exit);
    }
    loop {
        let history = client.get_fleet(fleet).await?.history.unwrap_or_default();
        if !history.problem.is_empty() {
            let what = "the erasure continues after a restart".to_owned();
            let source = std::io::Error::other(history.problem);
            return Err(CliError::Local { what, source });
        }
        if history.erasing_count == 0 {
            writeln!(out, "no file of the server has {what}")?;
            out.flush()?;
            return Ok(exit);
        }
        sleep(POLL).await;
    }
}
