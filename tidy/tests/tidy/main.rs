//! The rules of the workspace.

mod dependencies;
mod rules;
