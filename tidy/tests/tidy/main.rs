//! Tests of the house rules of the workspace.

mod dependencies;
mod modules;
mod rules;
