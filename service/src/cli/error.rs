//! Why did a command fail, what can its user do next, and with which exit code does it end?
//!
//! One enum for everything the binary does outside the server itself. Its messages name the thing
//! that was wrong; `hint` adds the next step. Errors of a server arrive as [`Status`] and keep
//! their code.

use std::io;

use tonic::Status;

use crate::ServiceError;
use crate::client::status;

/// How a command ended; the numbers are the documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// The server, the connection or this machine failed.
    Failed = 1,
    /// The command line, a file or a value is wrong.
    Usage = 2,
    /// Some rows or messages of a report were refused.
    PartlyRefused = 3,
    /// An object or a fleet does not exist.
    NotFound = 4,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A flag, a variable or a value that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The content of a file that cannot be used.
    #[error("{file}: {reason}")]
    Input {
        /// The file as it was named.
        file: String,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// No server answers.
    #[error("cannot reach a server at {target}: {reason}")]
    Connect {
        /// The URL asked for.
        target: String,
        /// What the system said.
        reason: String,
    },
    /// Nothing came from the server for the whole timeout.
    #[error("no answer from {target} within {timeout_s} s")]
    Silent {
        /// The URL asked for.
        target: String,
        /// Seconds waited.
        timeout_s: f64,
    },
    /// The server refused the request.
    #[error("{}", status::sentence(.0))]
    Refused(Box<Status>),
    /// The answer could not be written to standard output.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
    /// The server could not start or ended early.
    #[error(transparent)]
    Serve(#[from] ServiceError),
    /// This machine refused a thread, a socket or a signal handler.
    #[error("{what}: {source}")]
    Local {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server sent something that this client cannot read.
    #[error("the server's answer cannot be understood: {0}")]
    Answer(String),
}

impl CliError {
    /// Turns what the system said while `what` was tried into an error.
    pub(crate) fn local(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Local { what: what.into(), source }
    }

    /// The exit code that this failure ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Input { .. } => Exit::Usage,
            Self::Refused(refusal) => status::exit(refusal),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            _ => Exit::Failed,
        }
    }

    /// What to do next, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Connect { target, .. } => Some(format!(
                "is `shoal serve` running at {target}? Name another with --target URL or \
                 SHOAL_TARGET"
            )),
            Self::Silent { .. } => {
                Some("ask for less (--limit, --count) or wait longer (--timeout 2m)".to_owned())
            }
            Self::Refused(refusal) => status::hint(refusal),
            Self::Answer(_) => Some("is this a Shoal server of the same version?".to_owned()),
            _ => None,
        }
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}
