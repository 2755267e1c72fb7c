//! Nothing is built here: the script only lets the manifest carry `links`, which makes a second core impossible.
fn main() {}
