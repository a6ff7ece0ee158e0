//! The layers that every call passes before its handler.

use tonic::service::Routes;
use tower::Layer;
use tower::layer::util::{Identity, Stack};

use super::call_budget::CallBudget;
use super::error_details::ErrorDetails;
use super::message_budget::MessageBudget;
use crate::access::{Access, AccessLayer};
use crate::limits::ServerLimits;
use crate::metrics::Metrics;

/// Layers of every call, the outermost last.
pub(crate) type Layers =
    Stack<CallBudget, Stack<MessageBudget, Stack<AccessLayer, Stack<ErrorDetails, Identity>>>>;

/// All services with their layers.
pub(crate) type Services = <Layers as Layer<Routes>>::Service;

/// The layers that every call passes before its handler, on any listener. Clones share their
/// limits.
pub(crate) fn call_layers(limits: &ServerLimits, metrics: &Metrics, access: Access) -> Layers {
    let budget =
        MessageBudget::new(limits.message_bytes_in_flight_max, metrics.message_bytes.clone());
    let calls = CallBudget::new(limits.calls_max, metrics.busy.clone());
    let outer = Stack::new(AccessLayer::new(access), Stack::new(ErrorDetails, Identity::new()));
    Stack::new(calls, Stack::new(budget, outer))
}
