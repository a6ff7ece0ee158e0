//! Writes a leader's log into the folder of a copy, without an engine. Once the copy is complete,
//! the fleet is recovered from it.

use bytes::Bytes;
use shoal_position_log::{
    Group, LogError, LogWriter, LoggedCycle, PastTerm, ReadMode, Terms, open_newest,
};

use super::data_folder::{FleetFolder, random};
use crate::error::ServiceError;
use crate::limits::ServerLimits;

/// See the file's head.
pub(crate) struct LogCopy {
    writer: LogWriter,
    group: Group,
    terms: Terms,
}

impl LogCopy {
    /// Opens the log, which continues after the newest checkpoint in the folder, if there is one.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn open(folder: &FleetFolder, limits: &ServerLimits) -> Result<Self, ServiceError> {
        let storage = folder.storage.clone();
        let newest = open_newest(&storage, &folder.checkpoint(), Some(&folder.identity))?.newest;
        let (epoch, before) = newest.map_or((0, None), |reader| {
            let (term, epoch) = (reader.header().term, reader.header().epoch);
            (epoch, Some(Terms::new(term, reader.past_terms().to_vec())))
        });
        let term = match &before {
            Some(terms) => terms.current(),
            None => random()?,
        };
        let recovered = folder.read_log(0, ReadMode::Recover)?.finish()?;
        let options = folder.log_options(limits)?;
        let writer = LogWriter::open(storage, &folder.log(), options, recovered, epoch, term)?;
        let terms = before.unwrap_or_else(|| Terms::new(term, Vec::new()));
        Ok(Self { writer, group: Group::new(), terms })
    }

    /// The term and the epoch with which the log ends.
    pub(crate) fn end(&self) -> (u64, u64) {
        (self.writer.term(), self.writer.written().epoch)
    }

    /// Appends and syncs the records of cycles, which the caller has verified.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn append(&mut self, records: &[Bytes]) -> Result<(), ServiceError> {
        for record in records {
            // The term 0 is unused: the frame has the term.
            let cycle = LoggedCycle::parse(0, record).map_err(LogError::Input)?;
            self.group.append_logged(&cycle)?;
        }
        self.writer.write(&mut self.group)?;
        self.writer.sync()?;
        Ok(())
    }

    /// Begins a term, unless the log has it already.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn begin_term(&mut self, term: u64, last_epoch: u64) -> Result<(), ServiceError> {
        if self.terms.knows(term) {
            return Ok(());
        }
        self.terms.extend(&[PastTerm { term: self.terms.current(), last_epoch }], term);
        self.writer.begin_term(term)?;
        Ok(())
    }

    /// Closes the log in order, once the copy is complete.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn close(self) -> Result<(), ServiceError> {
        Ok(self.writer.close()?)
    }
}
