//! A request to the API, and the calls of services that it makes on behalf of its client.
//!
//! The services see the connection of the HTTP client, its `authorization` and its deadline, as if
//! it had called them itself.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use shoal_proto::v1;
use shoal_proto::v1::fleet_service_client::FleetServiceClient;
use shoal_proto::v1::history_service_client::HistoryServiceClient;
use shoal_proto::v1::position_service_client::PositionServiceClient;
use shoal_proto::v1::query_service_client::QueryServiceClient;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use tokio::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataValue;

use super::answer::Form;
use super::incoming::Incoming;
use super::param::{Query, object_number};
use super::route::Route;
use crate::access::{InProcess, requester};
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::json::fleet::is_named;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::rpc::{Charge, Services};
use crate::shares::Requester;

/// Name of the header with the token of a change.
pub(super) const TOKEN: &str = "shoal-token";

/// See the module documentation.
pub(in crate::http) struct Call {
    pub(super) app: App,
    pub(super) route: &'static Route,
    pub(super) fleet: String,
    /// The object in the path; empty without one.
    pub(super) object: String,
    pub(super) query: Query,
    /// The query string as it was sent.
    pub(super) query_text: String,
    /// The form of an answer with rows.
    pub(super) form: Form,
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
    /// A mutex, because a body cannot be shared by threads, and a call is.
    pub(super) body: Mutex<Incoming>,
    /// Before the path of a member of the geometry of a document.
    pub(super) region_path: &'static str,
    /// The part of the budget of documents that the call holds.
    pub(super) charge: Option<Charge>,
    /// When the request began; its `timeout_ms` counts from here.
    pub(super) began: Instant,
}

/// Clients of the services in this process.
macro_rules! clients {
    ($($name:ident: $client:ident;)*) => {
        impl Call {$(
            pub(super) fn $name(&self) -> $client<Services> {
                $client::new(self.app.services()).max_decoding_message_size(MESSAGE_BYTES_MAX)
            }
        )*}
    };
}

clients! {
    fleets: FleetServiceClient;
    positions: PositionServiceClient;
    queries: QueryServiceClient;
    histories: HistoryServiceClient;
    subscriptions: SubscriptionServiceClient;
}

impl Call {
    /// The part of the body that is not read yet.
    pub(super) fn body(&mut self) -> &mut Incoming {
        self.body.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same call without its body, for what lasts longer than the answer.
    pub(super) fn without_body(&self) -> Self {
        Self {
            app: self.app.clone(),
            route: self.route,
            fleet: self.fleet.clone(),
            object: self.object.clone(),
            query: self.query.clone(),
            query_text: self.query_text.clone(),
            form: self.form,
            headers: self.headers.clone(),
            extensions: self.extensions.clone(),
            body: Mutex::default(),
            region_path: "",
            charge: None,
            began: self.began,
        }
    }

    /// Who calls.
    pub(super) fn client(&self) -> Requester {
        requester(&self.extensions)
    }

    /// Whether the objects of its fleet have names.
    ///
    /// # Errors
    /// The fleet does not exist, or the client may not see it.
    pub(super) async fn is_named(&self) -> Result<bool, Problem> {
        let request = self.request(v1::GetFleetRequest { name: self.fleet.clone() });
        let reply = self.fleets().get_fleet(request).await.map_err(|it| self.problem(it))?;
        Ok(reply.into_inner().fleet.as_ref().is_some_and(is_named))
    }

    /// The fields `objects` and `names` of a request for the objects of a parameter; one of them is
    /// empty.
    ///
    /// # Errors
    /// A text that is no number in a numeric fleet; those of [`Call::is_named`].
    pub(super) async fn identified(
        &self,
        parameter: &str,
        objects: &[String],
    ) -> Result<(Vec<u64>, Vec<String>), Problem> {
        if objects.is_empty() {
            return Ok(Default::default());
        }
        if self.is_named().await? {
            return Ok((Vec::new(), objects.to_vec()));
        }
        let numbers = objects.iter().map(|object| object_number(object)).collect::<Result<_, _>>();
        let numbers = numbers.map_err(|why| Problem::field(parameter, why))?;
        Ok((numbers, Vec::new()))
    }

    /// A message to a service.
    pub(super) fn request<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        *request.extensions_mut() = self.extensions.clone();
        request.extensions_mut().insert(InProcess);
        let authorization = self.headers.get(header::AUTHORIZATION);
        let authorization = authorization.map(|it| MetadataValue::try_from(it.as_bytes()));
        if let Some(Ok(authorization)) = authorization {
            request.metadata_mut().insert("authorization", authorization);
        }
        if let Some(end) = self.deadline() {
            request.set_timeout(end.saturating_duration_since(Instant::now()));
        }
        request
    }

    /// When the time limit of the call passes, if it has one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let millis = self.query.count("timeout_ms")?;
        Some(self.began + Duration::from_millis(millis))
    }

    /// Converts an error of a service; its field gets the name that the API uses.
    pub(super) fn problem(&self, status: Status) -> Problem {
        let problem = Problem::from(status).renamed(|field| self.api_name(field));
        match problem.reason() {
            "TOKEN" | "TOKEN_TERM" if self.query.has("min_token") => problem.of_field("min_token"),
            "TOKEN" | "TOKEN_TERM" if self.route.is_stream() => problem.of_field("last_event_id"),
            _ => problem,
        }
    }

    /// Converts an error that is part of an answer, as [`Call::problem`].
    pub(super) fn problem_in_answer(&self, status: &tonic_types::Status) -> Problem {
        let details = prost::Message::encode_to_vec(status).into();
        self.problem(Status::with_details(status.code.into(), status.message.clone(), details))
    }

    fn api_name(&self, field: &str) -> String {
        let field = field.strip_prefix("options.").unwrap_or(field);
        let field = field.strip_prefix("filter.").unwrap_or(field);
        let field = match field.strip_prefix("regions[0].") {
            Some(of_region) if self.route.body.is_empty() => of_region,
            _ => field,
        };
        let field = field.strip_prefix("window.").unwrap_or(field);
        let millis = if has_millis(field) { "_ms" } else { "" };
        match field {
            "name" if !self.fleet.is_empty() => "fleet".to_owned(),

            "names" if !self.object.is_empty() => "object".to_owned(),
            _ if field.starts_with("names") => field.replacen("names", "objects", 1),
            _ => self.of_region(field) + millis,
        }
    }

    /// Translates the path of a field in a region to the API: `rings[1]` of a polygon becomes
    /// `coordinates[1]`.
    fn of_region(&self, field: &str) -> String {
        let Some(at) = field.find("region.") else { return field.to_owned() };
        let (before, of_region) = field.split_at(at);
        for kind in ["circle", "rectangle"] {
            if of_region["region.".len()..].starts_with(kind) {
                return format!("{before}{kind}");
            }
        }
        let geometry = if before.is_empty() { self.region_path } else { "geometry." };
        let path = of_region
            .replace("region.polygon.rings", "coordinates")
            .replace("region.multi_polygon.polygons", "coordinates")
            .replace("].rings[", "][");
        format!("{before}{geometry}{path}")
    }
}

/// Whether a field is a span of time, which the API states in milliseconds.
fn has_millis(field: &str) -> bool {
    const SPANS: [&str; 8] = [
        "age_max",
        "every",
        "step",
        "retention",
        "ttl",
        "move_interval",
        "enter_dwell",
        "leave_dwell",
    ];
    SPANS.contains(&field.rsplit('.').next().unwrap_or(field))
}

/// A JSON document; its headers are optional.
pub(super) fn json<T: Serialize>(
    status: StatusCode,
    document: &T,
    headers: &[(&'static str, String)],
) -> Result<axum::response::Response, Problem> {
    Ok(json_text(status, text_of(document)?, headers))
}

/// The text of a document.
pub(super) fn text_of<T: Serialize>(document: &T) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(document).map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", error.to_string())
    })
}

/// As [`json`], for a document that is text.
pub(super) fn json_text(
    status: StatusCode,
    text: Vec<u8>,
    headers: &[(&'static str, String)],
) -> axum::response::Response {
    let mut response = axum::response::Response::new(Body::from(text));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    add(response.headers_mut(), headers);
    response
}

/// Adds headers.
pub(super) fn add(headers: &mut HeaderMap, added: &[(&'static str, String)]) {
    for (name, value) in added {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(*name, value);
        }
    }
}
