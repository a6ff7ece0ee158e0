//! Errors of commands, with their exit codes and hints for the user.
//!
//! Errors of calls have the types of the client library.

use std::io;

use shoal_client::Error;
use shoal_position_log::LogError;
use shoal_service::ServiceError;
use tonic::Code;

/// How a command ended; the numbers are the documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// The server, the connection or this machine failed.
    Failed = 1,
    /// The command line, a file or a value is wrong.
    Usage = 2,
    /// Some rows or messages of a report were refused.
    PartlyRefused = 3,
    /// An object or a fleet does not exist.
    NotFound = 4,
    /// A log, a checkpoint or the list of fleets is damaged, or a part of it is missing or cannot
    /// be read.
    Damaged = 5,
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
    /// A call to a server failed.
    #[error(transparent)]
    Client(#[from] Error),
    /// The answer could not be written to standard output.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
    /// The server could not start or ended early, or its data folder cannot be used.
    #[error(transparent)]
    Serve(#[from] ServiceError),
    /// The device failed.
    #[error("{0}")]
    Device(String),
    /// A log is damaged; the text says which.
    #[error("{0}")]
    Damaged(String),
    /// This machine refused a thread, a socket or a signal handler.
    #[error("{what}: {source}")]
    Local {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl From<LogError> for CliError {
    fn from(error: LogError) -> Self {
        Self::Serve(error.into())
    }
}

impl CliError {
    /// For `map_err`: wraps the system's error of the operation `what`.
    pub(crate) fn local(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Local { what: what.into(), source }
    }

    /// The exit code of this failure.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) | Self::Input { .. } => Exit::Usage,
            Self::Client(Error::Target { .. } | Error::Block(_)) => Exit::Usage,
            Self::Client(Error::Server(error)) => match error.code {
                Code::InvalidArgument | Code::OutOfRange => Exit::Usage,
                Code::NotFound => Exit::NotFound,
                _ => Exit::Failed,
            },
            Self::Damaged(_)
            | Self::Serve(ServiceError::Log(
                LogError::Corrupt { .. }
                | LogError::Damaged { .. }
                | LogError::Content { .. }
                | LogError::Version { .. }
                | LogError::Fleet { .. }
                | LogError::Gap { .. }
                | LogError::Missing { .. }
                | LogError::Behind { .. },
            )) => Exit::Damaged,
            // A file or folder that the list of fleets, or another file, references is missing.
            Self::Serve(ServiceError::Log(LogError::Storage { source, .. }))
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Exit::Damaged
            }
            Self::Serve(ServiceError::FleetUnknown(_)) => Exit::NotFound,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            _ => Exit::Failed,
        }
    }

    /// Returns a hint for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        const VERSION: &str = "is this a Shoal server of the same version?";
        if let Self::Serve(ServiceError::FleetUnknown(_)) = self {
            return Some("`shoal log inspect DIR` lists the fleets of a data folder".to_owned());
        }
        let Self::Client(error) = self else { return None };
        let hint = match error {
            Error::Connect { target, .. } => {
                return Some(format!(
                    "is `shoal serve` running at {target}? Name another with --target URL or \
                     SHOAL_TARGET"
                ));
            }
            Error::Timeout { .. } => {
                "ask for less (--limit, --count) or wait longer (--timeout 2m)"
            }
            Error::Protocol(_) => VERSION,
            Error::Server(error) => {
                if let Some(delay) = error.retry_after {
                    return Some(format!("try again in {} ms", delay.as_millis()));
                }
                match error.code {
                    Code::NotFound => "`shoal fleets list` lists the fleets",
                    // Without a problem of the token it is the replication secret.
                    Code::Unauthenticated if error.metadata.contains_key("problem") => {
                        "give a token with --token-file or SHOAL_TOKEN, or store one with \
                         `shoal login`"
                    }
                    Code::AlreadyExists => {
                        "choose another name, or `shoal fleets delete NAME` first"
                    }
                    Code::ResourceExhausted => {
                        "the server is busy or a limit is reached: try again later"
                    }
                    Code::Unavailable => "the server starts, stops or is out of reach: try again",
                    Code::DeadlineExceeded => "wait longer with --timeout, or ask for less",
                    Code::Unimplemented => VERSION,
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    #[test]
    fn errors_of_a_server_have_exit_codes_and_hints() {
        let error = |status: Status| CliError::from(Error::from(status));
        for (status, exit) in [
            (Status::invalid_argument("bad region"), Exit::Usage),
            (Status::not_found("no fleet"), Exit::NotFound),
            (Status::unavailable(""), Exit::Failed),
        ] {
            assert_eq!(error(status).exit(), exit);
        }
        let mut details = ErrorDetails::new();
        details.set_retry_info(Some(Duration::from_millis(250)));
        let busy = Status::with_error_details(Code::ResourceExhausted, "queue full", details);
        assert!(error(busy).hint().unwrap().contains("250 ms"));
    }
}
