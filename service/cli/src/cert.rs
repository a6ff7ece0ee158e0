//! `shoal cert dev`: a self-signed certificate and its key, for trials of TLS.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::error::{CliError, Exit};
use super::file_edit::replace;
use super::output::stdout;

/// `shoal cert`.
#[derive(Args, Debug)]
pub struct CertArgs {
    #[command(subcommand)]
    command: CertCommand,
}

#[derive(Debug, Subcommand)]
enum CertCommand {
    /// Write a self-signed certificate and its key for trials; clients trust it with --tls-ca
    Dev(DevArgs),
}

/// Flags of `shoal cert dev`.
#[derive(Args, Debug)]
pub struct DevArgs {
    /// Folder for cert.pem and key.pem
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Name or address of the server; may be repeated
    #[arg(long = "host", value_name = "HOST", default_values = ["localhost", "127.0.0.1", "::1"])]
    pub hosts: Vec<String>,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

/// Runs `shoal cert`.
///
/// # Errors
/// A host that is not a valid name or address; files that exist (without `--force`) or cannot be
/// written.
pub fn run(args: &CertArgs) -> Result<Exit, CliError> {
    let CertCommand::Dev(args) = &args.command;
    let made = generate_simple_self_signed(args.hosts.clone());
    let made = made.map_err(|error| CliError::Usage(format!("--host: {error}")))?;
    let CertifiedKey { cert, signing_key } = made;
    std::fs::create_dir_all(&args.out).map_err(CliError::local(args.out.display().to_string()))?;
    let files = [("cert.pem", cert.pem()), ("key.pem", signing_key.serialize_pem())];
    for (name, _) in &files {
        let path = args.out.join(name);
        if !args.force && path.exists() {
            let reason = "it exists; --force replaces it".to_owned();
            return Err(CliError::Input { file: path.display().to_string(), reason });
        }
    }
    let mut out = stdout();
    for (name, text) in files {
        let path = args.out.join(name);
        replace(&path, &text).map_err(CliError::local(path.display().to_string()))?;
        writeln!(out, "{}", path.display())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}
