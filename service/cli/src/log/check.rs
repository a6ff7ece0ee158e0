//! Checks a fleet's log and checkpoints: what is damaged, what is lost, and what to do.
//!
//! The next start is affected only by damage after the newest valid checkpoint. So the log is read
//! once from its beginning, and once as a starting server reads it.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};
use shoal_position_log::LogError;
use shoal_service::persistence::{LogContent, ReadDepth, StoredCheckpoint, StoredFleet};

use super::content_json;
use super::content_text::counted;

/// One finding.
#[derive(Debug)]
pub(super) struct Finding {
    /// File and byte, if it is in one place.
    place: Option<(String, u64)>,
    what: String,
    lost: String,
    /// Empty if `what` includes the remedy.
    remedy: String,
}

/// The result for one fleet.
pub(super) struct FleetCheck {
    name: String,
    content: LogContent,
    checkpoints: Vec<StoredCheckpoint>,
    pub(super) findings: Vec<Finding>,
}

/// The command line that repairs a log.
pub(super) fn repair_command(dir: &Path, fleet: &str) -> String {
    format!("shoal log repair {} {fleet} --yes", dir.display())
}

/// File, byte and reason of errors that have a place.
fn place(error: &LogError) -> Option<(&str, u64, &str)> {
    match error {
        LogError::Corrupt { file, offset, reason, .. }
        | LogError::Content { file, offset, reason }
        | LogError::Damaged { file, offset, reason } => Some((file, *offset, reason)),
        _ => None,
    }
}

/// Where damage is and what is wrong there, without a remedy; or the whole message.
pub(super) fn damage_text(error: &LogError) -> String {
    match place(error) {
        Some((file, offset, reason)) => format!("{file}, byte {offset}: {reason}"),
        None => error.to_string(),
    }
}

/// Describes what is lost by damage that prevents the server from starting.
pub(super) fn lost_text(error: &LogError) -> String {
    match error {
        LogError::Corrupt { lost, .. } => lost.trim_end_matches(" are lost").to_owned(),
        LogError::Behind { needed, .. } => {
            format!("cycles after epoch {needed}, if there were any")
        }
        LogError::Missing { .. } => "every cycle that no checkpoint has".to_owned(),
        LogError::Content { .. } => "everything from here on, for this version of Shoal".to_owned(),
        _ => "the server does not start with this log".to_owned(),
    }
}

/// Whether two readers stopped at the same place.
fn is_same(one: &LogError, other: &LogError) -> bool {
    match (place(one), place(other)) {
        (None, None) => one.to_string() == other.to_string(),
        (Some((file, offset, _)), Some((other_file, other_offset, _))) => {
            file == other_file && offset == other_offset
        }
        _ => false,
    }
}

impl Finding {
    fn new(error: &LogError, lost: String, remedy: String) -> Self {
        match place(error) {
            Some((file, offset, reason)) => {
                let place = Some((file.to_owned(), offset));
                Self { place, what: reason.to_owned(), lost, remedy }
            }
            // The message has place and remedy.
            None => Self { place: None, what: error.to_string(), lost, remedy: String::new() },
        }
    }

    /// Damage that keeps the server from starting; `repair` is the command line that truncates the
    /// log, if it can.
    fn of_log(error: &LogError, repair: Option<&str>) -> Self {
        let remedy = match error {
            LogError::Corrupt { file, .. } => {
                let restore = format!("restore {file} from a copy");
                repair.map_or(restore.clone(), |repair| {
                    format!("{restore}; or copy the folder and truncate the log with `{repair}`")
                })
            }
            LogError::Content { .. } => {
                "use the version of Shoal that wrote this log, or restore the file from a copy"
                    .to_owned()
            }
            _ => String::new(),
        };
        Self::new(error, lost_text(error), remedy)
    }

    /// Damage in cycles that a checkpoint contains.
    fn of_covered_log(error: &LogError, checkpoint_epoch: u64) -> Self {
        let lost = format!("nothing: the checkpoint of epoch {checkpoint_epoch} has these cycles");
        let remedy = "start the server; it does not read this part of the log";
        Self::new(error, lost, remedy.to_owned())
    }

    fn of_checkpoint(error: &LogError, is_startable: bool) -> Self {
        let (lost, remedy) = match error {
            LogError::Damaged { .. } | LogError::Content { .. } if is_startable => (
                "nothing: what else is there restores this state",
                "start the server; it uses another checkpoint, or the whole log",
            ),
            LogError::Damaged { .. } | LogError::Content { .. } => (
                "the state at this checkpoint: what remains of the log does not restore it",
                "restore the file from a copy",
            ),
            _ => ("nothing, but the server does not start", ""),
        };
        Self::new(error, lost.to_owned(), remedy.to_owned())
    }

    fn json(&self) -> Value {
        json!({
            "file": self.place.as_ref().map(|(file, _)| file),
            "offset": self.place.as_ref().map(|(_, offset)| offset),
            "reason": self.what,
            "lost": self.lost,
            "remedy": self.remedy,
        })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.place {
            Some((file, offset)) => writeln!(out, "  {file}, byte {offset}: {}", self.what)?,
            None => writeln!(out, "  {}", self.what)?,
        }
        writeln!(out, "    lost: {}", self.lost)?;
        if !self.remedy.is_empty() {
            writeln!(out, "    what to do: {}", self.remedy)?;
        }
        Ok(())
    }
}

impl FleetCheck {
    /// Reads everything of a fleet.
    ///
    /// # Errors
    /// None, because the visitor does not fail and unreadable data becomes a finding.
    pub(super) fn new(dir: &Path, fleet: &StoredFleet) -> io::Result<Self> {
        let name = fleet.name().to_owned();
        let content = fleet.content(ReadDepth::Rows, &mut |_| Ok(()))?;
        let mut findings = Vec::new();
        if let Err(error) = fleet.spec() {
            let lost = "the options of the fleet".to_owned();
            let (place, what, remedy) = (None, error.to_string(), String::new());
            findings.push(Finding { place, what, lost, remedy });
        }
        let checkpoints = fleet.checkpoints().unwrap_or_else(|error| {
            findings.push(Finding::of_checkpoint(&error, false));
            Vec::new()
        });
        let whole = checkpoints.iter().find(|checkpoint| checkpoint.content.is_ok());
        let checkpoint_epoch = whole.map_or(0, |checkpoint| checkpoint.epoch);
        let started = fleet.recover(checkpoint_epoch).err();
        let is_repairable = started.is_some() && fleet.repair_plan(checkpoint_epoch).is_ok();
        let repair = is_repairable.then(|| repair_command(dir, &name));
        let repair = repair.as_deref();
        let is_startable = started.is_none();
        if let Some(fault) = &content.fault {
            // A starting server finds wrong content only when it applies the cycle.
            let is_content = matches!(fault, LogError::Content { .. });
            let is_needed = is_content && content.end.epoch > checkpoint_epoch;
            findings.push(match started.as_ref().filter(|error| is_same(error, fault)) {
                // The error that a starting server meets states what is lost.
                Some(error) => Finding::of_log(error, repair),
                None if is_needed => Finding::of_log(fault, repair),
                None => Finding::of_covered_log(fault, checkpoint_epoch),
            });
        }
        let is_reported =
            |error: &LogError| content.fault.as_ref().is_some_and(|fault| is_same(fault, error));
        if let Some(error) = started.filter(|error| !is_reported(error)) {
            findings.push(Finding::of_log(&error, repair));
        }
        let damaged = checkpoints.iter().filter_map(|checkpoint| checkpoint.content.as_ref().err());
        findings.extend(damaged.map(|error| Finding::of_checkpoint(error, is_startable)));
        Ok(Self { name, content, checkpoints, findings })
    }

    pub(super) fn json(&self) -> Value {
        let content = &self.content;
        json!({
            "fleet": self.name,
            "is_whole": self.findings.is_empty(),
            "segments": content.segments.len(),
            "checkpoints": self.checkpoints.len(),
            "frames": content.counts.frames,
            "cycles": content.counts.cycles,
            "rows": content.requests.fixes,
            "refused_blocks": content.requests.refused_blocks,
            "bytes": content.counts.bytes,
            "end": content_json::position(content.end),
            "torn_frames": content.torn.as_ref().map_or(0, |torn| torn.frames),
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let LogContent { segments, counts, requests, end, torn, .. } = &self.content;
        let verdict = if self.findings.is_empty() { "whole" } else { "DAMAGED" };
        writeln!(
            out,
            "fleet {}: {verdict}; read {}, {}, {}, {} and {}, up to segment {}, byte {}, epoch {}",
            self.name,
            counted(segments.len() as u64, "segment"),
            counted(counts.frames, "frame"),
            counted(counts.cycles, "cycle"),
            counted(requests.fixes, "row"),
            counted(self.checkpoints.len() as u64, "checkpoint"),
            end.segment,
            end.offset,
            end.epoch,
        )?;
        if let Some(torn) = torn {
            writeln!(
                out,
                "  an incomplete write of {} is behind the end: {}; the server removes it at its \
                 start, and nothing is lost that was acknowledged as logged",
                counted(torn.frames as u64, "frame"),
                torn.reason
            )?;
        }
        self.findings.iter().try_for_each(|finding| finding.write(out))
    }
}
