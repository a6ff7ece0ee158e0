//! What a route is: a row of the table from which the router, the checks of parameters and the
//! OpenAPI document are made.

use std::pin::Pin;

use axum::response::Response;
use schemars::{Schema, SchemaGenerator};

use super::call::Call;
use super::param::Param;
use crate::http::problem::Problem;

/// Media type of Server-Sent Events.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The future answer of a handler.
pub(super) type Answering<'a> =
    Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send + 'a>>;

/// Returns the schema of a type. The generator collects the definitions to which it refers.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One call of the API.
#[derive(Clone, Copy)]
pub(in crate::http) struct Route {
    /// `GET`, `POST` or `DELETE`.
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Name of the call, in camel case.
    pub(super) id: &'static str,
    /// The method whose rights it needs: `/PACKAGE.SERVICE/METHOD`.
    pub(super) rpc: &'static str,
    /// Whether programs of phones call it: their tokens are where they can put them, and what they
    /// send beyond the parameters is ignored.
    pub(super) is_of_trackers: bool,
    /// One line that says what it does.
    pub(super) about: &'static str,
    /// Parameters of the query string.
    pub(super) query: &'static [&'static [Param]],
    /// What the body may be; empty without one.
    pub(super) body: &'static [Media],
    /// The status of success.
    pub(super) status: u16,
    /// What success answers.
    pub(super) answer: &'static [Media],
    /// Headers of this answer.
    pub(super) headers: &'static [Header],
    /// Statuses of its errors with what they mean; any call may have others.
    pub(super) refusals: &'static [(u16, &'static str)],
    pub(super) handler: for<'a> fn(&'a mut Call) -> Answering<'a>,
}

impl Route {
    /// Whether the client chooses the form of the answer.
    pub(super) fn has_forms(&self) -> bool {
        self.answer.len() > 1
    }

    /// Whether the answer has no end.
    pub(super) fn is_stream(&self) -> bool {
        self.answer.iter().any(|media| media.name == EVENT_STREAM)
    }
}

/// A header of an answer.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether each answer has it.
    pub(super) is_required: bool,
}

impl Header {
    /// A header that each answer has.
    pub(super) const fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, is_required: true }
    }

    /// The same header, which some answers lack.
    pub(super) const fn optional(mut self) -> Self {
        self.is_required = false;
        self
    }
}

/// A media type and what it holds.
#[derive(Clone, Copy)]
pub(super) struct Media {
    pub(super) name: &'static str,
    /// Schema of the document, or of one line or event; `None` for text.
    pub(super) schema: Option<SchemaOf>,
}

impl Media {
    /// A document of a type.
    pub(super) const fn new(name: &'static str, schema: SchemaOf) -> Self {
        Self { name, schema: Some(schema) }
    }

    /// Text, whose form the description gives.
    pub(super) const fn text(name: &'static str) -> Self {
        Self { name, schema: None }
    }
}
