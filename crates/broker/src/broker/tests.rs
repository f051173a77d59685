//! A broker without connections.

mod clocks;
mod coordinators;
mod crash;
mod directories;
mod failing;
mod idle;
mod moving;
mod recovering;
mod recovering_images;
mod reindexing;
mod shared_images;
mod tokens;
mod upkeep;

pub(crate) use crash::directory;
