//! The content of a log for people: a summary of each fleet, and a line for each frame.
//!
//! The JSON form uses the same names of states and kinds.

use std::io::{self, Write};

use comfy_table::Table;
use shoal_engine::Clock;
use shoal_position_log::{Frame, FrameKind, LogError};
use shoal_service::persistence::{
    LogContent, SegmentContent, SegmentState, StoredCheckpoint, StoredFleet,
};
use shoal_service::timestamp::{age, rfc3339};

use super::check::damage_text;
use crate::output::plain_table;

/// A number with its noun.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

pub(super) fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::System => "system",
        Clock::Event => "event",
    }
}

/// The name of a kind of frames. The reader accepts no other number.
pub(super) fn frame_kind(kind: u16) -> &'static str {
    const NAMES: [(FrameKind, &str); 4] = [
        (FrameKind::Cycles, "cycles"),
        (FrameKind::Start, "start"),
        (FrameKind::Seal, "seal"),
        (FrameKind::Clean, "clean"),
    ];
    let name = NAMES.iter().find(|(number, _)| *number as u16 == kind);
    name.map_or("unknown", |(_, name)| name)
}

pub(super) fn segment_state(content: &LogContent, segment: &SegmentContent) -> String {
    match (&segment.header, segment.state) {
        (Err(reason), _) => format!("damaged: {reason}"),
        (Ok(_), SegmentState::Sealed) => "sealed".to_owned(),
        (Ok(_), SegmentState::Last) if content.fault.is_some() => "read in part".to_owned(),
        (Ok(_), SegmentState::Last) => "the log ends here".to_owned(),
        (Ok(_), SegmentState::BehindEnd) => "behind the end".to_owned(),
        (Ok(_), SegmentState::Unread) => "not read".to_owned(),
    }
}

/// The line above all frames.
pub(super) fn frames_header(out: &mut impl Write, fleet: &str) -> io::Result<()> {
    writeln!(out, "frames of fleet {fleet}")?;
    writeln!(
        out,
        "{:>9} {:>11} {:>9} {:>6} {:>10} {:>20} {:>10} {:>10} {:>7}  system clock",
        "segment", "byte", "bytes", "kind", "sequence", "term", "epochs", "to", "cycles"
    )
}

/// One line.
pub(super) fn frame(out: &mut impl Write, frame: &Frame<'_>) -> io::Result<()> {
    let header = &frame.header;
    writeln!(
        out,
        "{:>9} {:>11} {:>9} {:>6} {:>10} {:>20} {:>10} {:>10} {:>7}  {}",
        header.segment,
        frame.offset,
        header.frame_bytes(),
        frame_kind(header.kind),
        header.sequence,
        header.term,
        header.epoch_first,
        header.epoch_last,
        header.cycles,
        rfc3339(header.system_ms),
    )
}

/// The summary of a fleet.
pub(super) fn fleet(
    out: &mut impl Write,
    fleet: &StoredFleet,
    content: &LogContent,
    checkpoints: &Result<Vec<StoredCheckpoint>, LogError>,
) -> io::Result<()> {
    let identity = fleet.identity();
    writeln!(out, "fleet {} ({:032x})", fleet.name(), identity.id)?;
    if identity.name != fleet.name() {
        writeln!(out, "  folder fleets/{}", identity.name)?;
    }
    match fleet.spec() {
        Ok(spec) => writeln!(
            out,
            "  space {}, clock {}, ttl {}, at most {} objects",
            spec.space,
            clock_name(spec.clock),
            spec.ttl_ms.map_or("none".to_owned(), age),
            spec.objects_max
        )?,
        Err(error) => writeln!(out, "  options: {error}")?,
    }
    write_counts(out, content)?;
    write_end(out, content)?;
    writeln!(out)?;
    write_table(out, &segments(content))?;
    if !content.terms.is_empty() {
        writeln!(out)?;
        write_table(out, &terms(content))?;
    }
    writeln!(out)?;
    match checkpoints {
        Ok(checkpoints) => write_checkpoints(out, checkpoints),
        Err(error) => writeln!(out, "  checkpoints: {error}"),
    }
}

fn write_checkpoints(out: &mut impl Write, checkpoints: &[StoredCheckpoint]) -> io::Result<()> {
    if checkpoints.is_empty() {
        return writeln!(out, "  no checkpoint");
    }
    if checkpoints.iter().any(|checkpoint| checkpoint.content.is_ok()) {
        write_table(out, &whole_checkpoints(checkpoints))?;
    }
    for checkpoint in checkpoints {
        if let Err(error) = &checkpoint.content {
            let text = damage_text(error);
            writeln!(out, "  the checkpoint of epoch {} is rejected: {text}", checkpoint.epoch)?;
        }
    }
    Ok(())
}

fn write_counts(out: &mut impl Write, content: &LogContent) -> io::Result<()> {
    let LogContent { segments, counts, requests, first_epoch, end, .. } = content;
    let file_bytes =
        segments.iter().filter_map(|segment| Some(segment.header.as_ref().ok()?.bytes));
    writeln!(
        out,
        "  log: {} of {} bytes; {} of {} bytes; {}, epochs {} to {}",
        counted(segments.len() as u64, "segment"),
        file_bytes.sum::<u64>(),
        counted(counts.frames, "frame"),
        counts.bytes,
        counted(counts.cycles, "cycle"),
        first_epoch,
        end.epoch,
    )?;
    writeln!(
        out,
        "  requests: {} and {} of plain rows, {}; {} of {}; {}; {} with a batch number",
        counted(requests.blocks, "block"),
        counted(requests.rows, "message"),
        counted(requests.fixes, "row"),
        counted(requests.removals, "removal"),
        counted(requests.removed, "id"),
        counted(requests.clears, "clear"),
        requests.numbered,
    )
}

fn write_end(out: &mut impl Write, content: &LogContent) -> io::Result<()> {
    let end = content.end;
    let place = format!("segment {}, byte {}, epoch {}", end.segment, end.offset, end.epoch);
    if let Some(fault) = &content.fault {
        writeln!(out, "  readable up to {place}")?;
        return writeln!(out, "  damage: {}", damage_text(fault));
    }
    if content.segments.is_empty() {
        return writeln!(out, "  end: the log is empty");
    }
    let how = if content.is_clean {
        "the server was closed in order"
    } else {
        "the server was not closed in order; a new term begins at its next start"
    };
    writeln!(out, "  end: {place}; {how}")?;
    if let Some(torn) = &content.torn {
        writeln!(
            out,
            "  incomplete write behind the end: {}; {}; the server removes it at its start",
            counted(torn.frames as u64, "frame"),
            torn.reason
        )?;
    }
    Ok(())
}

fn write_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "  {}", line.trim_end()))
}

fn segments(content: &LogContent) -> Table {
    let header = ["segment", "bytes", "first epoch", "last epoch", "frames", "cycles", "state"];
    let mut table = plain_table(&header, &["state"]);
    for segment in &content.segments {
        let file = segment.header.as_ref().ok();
        let text = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        // A segment without a cycle has no first epoch.
        let first = file
            .filter(|_| segment.last_epoch.is_some())
            .map(|it| it.epoch_before.saturating_add(1));
        table.add_row([
            segment.number.to_string(),
            text(file.map(|header| header.bytes)),
            text(first),
            text(segment.last_epoch),
            segment.counts.frames.to_string(),
            segment.counts.cycles.to_string(),
            segment_state(content, segment),
        ]);
    }
    table
}

fn terms(content: &LogContent) -> Table {
    let mut table = plain_table(&["term", "first epoch", "last epoch"], &[]);
    for term in &content.terms {
        let first = term.first_epoch.map_or_else(String::new, |epoch| epoch.to_string());
        table.add_row([term.term.to_string(), first, term.last_epoch.to_string()]);
    }
    table
}

fn whole_checkpoints(checkpoints: &[StoredCheckpoint]) -> Table {
    let header = ["checkpoint", "clock", "objects", "names", "producers", "sections", "bytes"];
    let mut table = plain_table(&header, &["clock"]);
    for checkpoint in checkpoints {
        let Ok(content) = &checkpoint.content else { continue };
        table.add_row([
            checkpoint.epoch.to_string(),
            rfc3339(content.header.clock_ms),
            content.rows.to_string(),
            content.names.to_string(),
            content.producers.to_string(),
            content.sections.to_string(),
            content.bytes.to_string(),
        ]);
    }
    table
}
