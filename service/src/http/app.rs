//! The path of an HTTP request: its origin is checked, it is counted, and its route answers it.
//!
//! Calls of gRPC-Web, whatever their path, go to the services as they are. Everything else is a
//! route of the router, or a problem.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use prometheus_client::metrics::gauge::Gauge;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, Service as _};

use super::activity::holding;
use super::api;
use super::coding;
use super::limits::{HTTP_DOCUMENT_BYTES_MAX, HTTP_DOCUMENTS_BYTES_MAX};
use super::origins::{Asked, Origins};
use super::pages;
use super::problem::Problem;
use super::tiles::Tiles;
use crate::access::{Access, Peer, requester};
use crate::limits::{BUSY_RETRY_MS, ServerLimits};
use crate::monitoring::Monitored;
use crate::rpc::{MessageBudget, Services};
use crate::shares::FairPlaces;

/// Route of a metric where no route answered.
const UNKNOWN_ROUTE: &str = "unknown";
const WEB_ROUTE: &str = "grpc-web";
const HEALTH_PATH: &str = "/healthz";
/// What the media types of gRPC-Web have in common.
const WEB_TYPE: &str = "application/grpc-web";

/// See the module documentation.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    services: Services,
    access: Access,
    origins: Origins,
    monitored: Monitored,
    calls: FairPlaces,
    calls_max: usize,
    tiles: Tiles,
    /// Bytes of documents.
    documents: MessageBudget,
}

impl App {
    /// Answers with these services.
    pub(crate) fn new(
        services: Services,
        access: Access,
        origins: Origins,
        tiles: Tiles,
        limits: &ServerLimits,
        monitored: Monitored,
    ) -> Self {
        let calls_max = limits.http_calls_max;
        let calls = FairPlaces::exact(calls_max);
        let documents = MessageBudget::with_whole(
            HTTP_DOCUMENTS_BYTES_MAX,
            HTTP_DOCUMENT_BYTES_MAX,
            Gauge::default(),
        );
        Self(Arc::new(Shared {
            services,
            access,
            origins,
            monitored,
            calls,
            calls_max,
            tiles,
            documents,
        }))
    }

    /// Confirms that the caller of a request, whose body is not read yet, has the rights that a
    /// method needs on a fleet.
    ///
    /// # Errors
    /// 401 without a valid token, 403, 404 for a fleet that the caller may not see.
    pub(super) fn permit(
        &self,
        method: &str,
        fleet: Option<&str>,
        request: &Parts,
    ) -> Result<(), Problem> {
        let peer = request.extensions.get::<Peer>().cloned().unwrap_or_default();
        let path = request.uri.path();
        let permitted = self.0.access.permit(path, method, fleet, &request.headers, &peer);
        permitted.map_err(|error| Problem::from(tonic::Status::from(error)))
    }

    /// All routes.
    pub(super) fn router(self) -> Router {
        let pages = Router::new()
            .route("/", get(pages::front))
            .route("/map/{file}", get(pages::file))
            .route(HEALTH_PATH, get(pages::healthz))
            .route("/openapi.json", get(api::document))
            .route("/reference", get(api::reference));
        api::add_routes(pages)
            .fallback(other)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(coding::encode())
            .layer(middleware::from_fn_with_state(self.clone(), admit))
            .with_state(self)
    }

    pub(super) fn tiles(&self) -> &Tiles {
        &self.0.tiles
    }

    /// The services, for calls in this process.
    pub(super) fn services(&self) -> Services {
        self.0.services.clone()
    }

    /// The budget of documents.
    pub(super) fn documents(&self) -> &MessageBudget {
        &self.0.documents
    }

    pub(super) fn is_serving(&self) -> bool {
        self.0.monitored.is_serving()
    }
}

/// Passes a request on if its origin may call and there is a place for it.
async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    let (route, path) =
        (request.extensions().get::<MatchedPath>().cloned(), request.uri().path().to_owned());
    let is_web = is_web(&request);
    let asked = app.0.origins.check(&request);
    let mut response = match asked {
        Ok(asked) => {
            let mut response = match asked.preflight(&request) {
                Some(response) => response,
                None => pass(&app, request, next).await,
            };
            asked.permit(response.headers_mut());
            response
        }
        Err(problem) => {
            let mut response = problem.into_response();
            Asked::Ours.permit(response.headers_mut());
            response
        }
    };
    Problem::write(&mut response, &path);
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let route = match &route {
        Some(route) => route.as_str(),
        None if is_web => WEB_ROUTE,
        None => UNKNOWN_ROUTE,
    };
    app.0.monitored.metrics.count_http(route, response.status().as_u16());
    response
}

async fn pass(app: &App, request: Request, next: Next) -> Response {
    if request.uri().path() == HEALTH_PATH {
        // A busy server is healthy.
        return next.run(request).await;
    }
    let client = requester(request.extensions());
    match app.0.calls.try_reserve(client, 1) {
        Ok(place) => holding(next.run(request).await, place),
        Err(_) => {
            let detail = format!("{} calls over HTTP are in progress", app.0.calls_max);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "BUSY", detail);
            problem.after(BUSY_RETRY_MS).into_response()
        }
    }
}

fn is_web(request: &Request) -> bool {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    media_type.is_some_and(|it| it.as_bytes().starts_with(WEB_TYPE.as_bytes()))
}

/// Answers a call of gRPC-Web, or a path without a route.
async fn other(State(app): State<App>, request: Request) -> Response {
    if is_web(&request) {
        let mut web = GrpcWebLayer::new().layer(app.0.services.clone());
        let called = web.call(request.map(tonic::body::Body::new));
        return match called.await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
    }
    let detail = format!("there is nothing at {}", request.uri().path());
    Problem::new(StatusCode::NOT_FOUND, "METHOD_UNKNOWN", detail).into_response()
}

/// Answers a request whose path has a route, but not for its method. The router adds the header
/// `Allow`.
async fn method_not_allowed(request: Request) -> Response {
    if request.method() == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!("{} does not take {}", request.uri().path(), request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail).into_response()
}
