//! Placeholder written while the workspace is laid out.
