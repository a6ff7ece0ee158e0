//! `shoal names`: lists the names of a named fleet, ascending, one a line.

use std::io::Write as _;

use clap::Args;
use serde_json::json;
use shoal_client::{Client, v1};

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::output::stdout;

/// Flags of `shoal names`.
#[derive(Args, Debug)]
pub struct NamesArgs {
    /// Only names that match: * stands for any characters, ? for one, and \\ before a character for
    /// that character
    pub pattern: Option<String>,
    /// Only names after this one, to continue a list
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub after: String,
    /// Most names to list
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Write a JSON object a line, with name and number
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Lists the names page by page.
///
/// # Errors
/// Those of the server and of writing.
pub async fn run(client: &Client, args: &NamesArgs) -> Result<Exit, CliError> {
    let mut out = stdout();
    let (mut left, mut page_token) = (args.limit.unwrap_or(usize::MAX), args.after.clone());
    while left > 0 {
        let page = client
            .list_names(v1::ListNamesRequest {
                fleet: args.fleet.fleet.clone(),
                name_pattern: args.pattern.clone().unwrap_or_default(),
                page_size: i32::try_from(left).unwrap_or(i32::MAX),
                page_token,
            })
            .await?;
        left -= page.names.len().min(left);
        for (name, object) in page.names.iter().zip(page.objects) {
            if args.json {
                writeln!(out, "{}", json!({ "name": name, "object": object.to_string() }))?;
            } else {
                writeln!(out, "{name}")?;
            }
        }
        if page.next_page_token.is_empty() {
            break;
        }
        page_token = page.next_page_token;
    }
    out.flush()?;
    Ok(Exit::Done)
}
