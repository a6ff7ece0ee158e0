//! `shoal names`: lists the names of a named fleet, one a line, in the order of their numbers.

use std::io::Write as _;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use shoal_client::{Client, v1};

use super::connection::FleetArgs;
use super::error::{CliError, Exit};
use super::output::stdout;

/// Flags of `shoal names`.
#[derive(Args, Debug)]
pub struct NamesArgs {
    /// Only names that match: * stands for any characters, ? for one, and \ before a character for
    /// that character
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub pattern: Option<String>,
    /// Only names of objects with a greater number, which --json shows: continues a list
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub after: u64,
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
    let (mut left, mut after_object) = (args.limit.unwrap_or(usize::MAX), args.after);
    while left > 0 {
        let page = client
            .list_names(v1::ListNamesRequest {
                fleet: args.fleet.fleet.clone(),
                name_pattern: args.pattern.clone().unwrap_or_default(),
                page_size: u32::try_from(left).unwrap_or(u32::MAX),
                after_object,
            })
            .await?;
        left -= page.names.len().min(left);
        for (name, object) in page.names.iter().zip(page.objects) {
            after_object = object;
            if args.json {
                writeln!(out, "{}", json!({ "object": name, "number": object.to_string() }))?;
            } else {
                writeln!(out, "{name}")?;
            }
        }
        if !page.has_more {
            break;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}
