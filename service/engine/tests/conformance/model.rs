//! The hand-made cases on the model; random operations would compare it with itself.

use shoal_engine::{Backend, EngineOptions, Model};

fn model(options: EngineOptions) -> Box<dyn Backend> {
    Box::new(Model::new(options))
}

shoal_engine::conformance_cases!(model);
