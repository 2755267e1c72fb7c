//! Plugins from outside the tree, by way of the library and by way of the program.

// A test is a program too: it has to name the crates whose plugins it wants.
use custom as _;
use scantling_cli as _;

mod kernel;
mod model;
mod plugins;
mod program;
