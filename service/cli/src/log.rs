//! `shoal log`: shows, checks and repairs the logs in the data folder of a stopped server.
//!
//! Reading a log while a server writes it would report damage that does not exist, because frames
//! are appended and segments recycled. So the commands lock the folder; read-only commands take a
//! shared lock.

mod args;
mod check;
mod content_json;
mod content_text;

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde_json::json;
use shoal_position_log::LogError;
use shoal_service::persistence::{ReadDepth, RepairPlan, StoredFleet, StoredFolder};

pub use args::{LogArgs, LogCommand, LogInspectArgs, RepairArgs, StoredArgs, VerifyArgs};
use check::{FleetCheck, damage_text, lost_text, repair_command};
use content_text::counted;

use super::error::{CliError, Exit};
use crate::output::stdout;

/// Runs the command.
///
/// # Errors
/// Those of folders and logs that cannot be used, and of standard output.
pub fn run(args: &LogArgs) -> Result<Exit, CliError> {
    match &args.command {
        LogCommand::Inspect(args) => inspect(args),
        LogCommand::Verify(args) => verify(args),
        LogCommand::Repair(args) => repair(args),
    }?;
    Ok(Exit::Done)
}

fn open(dir: &Path, is_repair: bool) -> Result<StoredFolder, CliError> {
    let wrong = |reason: &str| {
        let reason = format!("it is not the data folder of a server: {reason}");
        CliError::Input { file: dir.display().to_string(), reason }
    };
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(wrong("it is not a folder")),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(wrong("it does not exist"));
        }
        Err(error) => return Err(CliError::local(format!("reading {}", dir.display()))(error)),
    }
    let opened = if is_repair { StoredFolder::open_to_repair } else { StoredFolder::open };
    opened(dir)?.ok_or_else(|| wrong("fleets.manifest is missing"))
}

fn inspect(args: &LogInspectArgs) -> Result<(), CliError> {
    let stored = open(&args.stored.dir, false)?;
    let fleets = stored.select(args.stored.fleet.as_deref())?;
    let mut out = stdout();
    let mut damaged = Vec::new();
    for (index, fleet) in fleets.iter().enumerate() {
        let name = fleet.name();
        if args.frames && !args.json {
            content_text::frames_header(&mut out, name)?;
        }
        let mut content = fleet.content(ReadDepth::Headers, &mut |frame| match args {
            LogInspectArgs { frames: false, .. } => Ok(()),
            LogInspectArgs { json: true, .. } => {
                writeln!(out, "{}", content_json::frame(name, frame))
            }
            _ => content_text::frame(&mut out, frame),
        })?;
        let checkpoints = fleet.checkpoints();
        if let (None, Ok(checkpoints)) = (&content.fault, &checkpoints) {
            content.fault = fleet.gap(&content, checkpoints);
        }
        if args.json {
            writeln!(out, "{}", content_json::fleet(fleet, &content, &checkpoints))?;
        } else {
            if index > 0 || args.frames {
                writeln!(out)?;
            }
            content_text::fleet(&mut out, fleet, &content, &checkpoints)?;
        }
        let is_whole = checkpoints.is_ok_and(|all| all.iter().all(|it| it.content.is_ok()));
        if content.fault.is_some() || !is_whole {
            damaged.push(name);
        }
    }
    if args.stored.fleet.is_none() {
        for folder in &stored.unlisted {
            if args.json {
                writeln!(out, "{}", json!({ "unlisted_folder": folder }))?;
            } else {
                writeln!(out, "\n{folder}: not in the list of fleets; no server uses it")?;
            }
        }
    }
    out.flush()?;
    damage(&damaged, "`shoal log verify` shows what is lost and what to do")
}

fn verify(args: &VerifyArgs) -> Result<(), CliError> {
    let stored = open(&args.stored.dir, false)?;
    let mut out = stdout();
    let mut damaged = Vec::new();
    for fleet in stored.select(args.stored.fleet.as_deref())? {
        let check = FleetCheck::new(&args.stored.dir, fleet)?;
        if args.json {
            writeln!(out, "{}", check.json())?;
        } else {
            check.write(&mut out)?;
        }
        // A check may take minutes.
        out.flush()?;
        if !check.findings.is_empty() {
            damaged.push(fleet.name());
        }
    }
    damage(&damaged, "standard output has the details")
}

fn damage(fleets: &[&str], hint: &str) -> Result<(), CliError> {
    if fleets.is_empty() {
        return Ok(());
    }
    Err(CliError::Damaged(format!("fleets with damage: {}; {hint}", fleets.join(", "))))
}

fn repair(args: &RepairArgs) -> Result<(), CliError> {
    let stored = open(&args.dir, args.yes)?;
    let selected = stored.select(Some(&args.fleet))?;
    let Some(fleet) = selected.first() else { return Ok(()) };
    let checkpoints = fleet.checkpoints().map_err(|error| {
        CliError::Damaged(format!("the checkpoints of fleet {} are absent: {error}", args.fleet))
    })?;
    let whole = checkpoints.iter().find(|checkpoint| checkpoint.content.is_ok());
    let checkpoint_epoch = whole.map_or(0, |checkpoint| checkpoint.epoch);
    let Err(fault) = fleet.recover(checkpoint_epoch) else {
        return no_repair(args, checkpoint_epoch);
    };
    let plan = fleet.repair_plan(checkpoint_epoch).map_err(|error| {
        CliError::Damaged(format!(
            "a truncation does not repair this log: {}; restore what is damaged from a copy",
            damage_text(&error)
        ))
    })?;
    if args.yes {
        return truncate(args, fleet, checkpoint_epoch, &fault);
    }
    show_plan(args, &plan, checkpoint_epoch, &fault)?;
    let command = repair_command(&args.dir, &args.fleet);
    Err(CliError::Damaged(format!(
        "the log of fleet {} is damaged and was not changed; copy the folder, then run `{command}`",
        args.fleet
    )))
}

fn no_repair(args: &RepairArgs, checkpoint_epoch: u64) -> Result<(), CliError> {
    let mut out = stdout();
    let RepairArgs { fleet, json, .. } = args;
    if *json {
        let text = json!({
            "fleet": fleet,
            "is_repaired": false,
            "is_repair_needed": false,
            "checkpoint_epoch": checkpoint_epoch,
        });
        writeln!(out, "{text}")?;
    } else {
        writeln!(out, "fleet {fleet}: the log needs no truncation; nothing was changed")?;
    }
    Ok(out.flush()?)
}

fn show_plan(
    args: &RepairArgs,
    plan: &RepairPlan,
    checkpoint_epoch: u64,
    fault: &LogError,
) -> Result<(), CliError> {
    let (reason, lost) = (damage_text(fault), lost_text(fault));
    let (fleet, end) = (&args.fleet, plan.kept.end());
    let frames = plan.kept.torn_tail().map_or(0, |torn| torn.frames);
    let mut out = stdout();
    if args.json {
        let text = json!({
            "fleet": fleet,
            "is_repaired": false,
            "is_repair_needed": true,
            "checkpoint_epoch": checkpoint_epoch,
            "reason": reason,
            "lost": lost,
            "end": content_json::position(end),
            "frames_erased": frames,
            "set_aside": plan.set_aside,
        });
        writeln!(out, "{text}")?;
        return Ok(out.flush()?);
    }
    writeln!(out, "fleet {fleet}: {reason}\n\nA repair would")?;
    let (segment, offset) = (end.segment, end.offset);
    writeln!(out, "  end the log at segment {segment}, byte {offset}, epoch {}", end.epoch)?;
    let frames = counted(frames as u64, "frame");
    writeln!(out, "  erase {frames} behind this place in the same segment")?;
    for file in &plan.set_aside {
        writeln!(out, "  set aside {file}")?;
    }
    if checkpoint_epoch > end.epoch {
        writeln!(out, "  continue from the checkpoint of epoch {checkpoint_epoch}")?;
    }
    writeln!(out, "  lose {lost}")?;
    Ok(out.flush()?)
}

fn truncate(
    args: &RepairArgs,
    fleet: &StoredFleet,
    checkpoint_epoch: u64,
    fault: &LogError,
) -> Result<(), CliError> {
    let lost = lost_text(fault);
    let report = fleet.repair(checkpoint_epoch)?;
    let (name, end) = (&args.fleet, report.end);
    let epoch = end.epoch.max(checkpoint_epoch);
    let mut out = stdout();
    if args.json {
        let text = json!({
            "fleet": name,
            "is_repaired": true,
            "is_repair_needed": true,
            "checkpoint_epoch": checkpoint_epoch,
            "end": content_json::position(end),
            "epoch": epoch,
            "lost": lost,
            "frames_erased": report.frames_erased,
            "set_aside": report.set_aside,
        });
        writeln!(out, "{text}")?;
        return Ok(out.flush()?);
    }
    let (segment, offset) = (end.segment, end.offset);
    writeln!(out, "fleet {name}: the log ends at segment {segment}, byte {offset}")?;
    writeln!(out, "  epoch {epoch} is the last one; a new term begins")?;
    writeln!(out, "  lost: {lost}")?;
    writeln!(out, "  erased behind it: {}", counted(report.frames_erased as u64, "frame"))?;
    for file in &report.set_aside {
        writeln!(out, "  set aside as {file}")?;
    }
    Ok(out.flush()?)
}
