//! The rules of the workspace.

mod dependencies;
mod modules;
mod rules;
