//! Does the model keep the contract it is the measure of?
//!
//! The hand-made cases only: against itself the random part would show nothing.

use shoal_engine::{Backend, EngineOptions, Model};

fn model(options: EngineOptions) -> Box<dyn Backend> {
    Box::new(Model::new(options))
}

shoal_engine::conformance_cases!(model);
shoal_engine::conformance_subscriptions!(model);
