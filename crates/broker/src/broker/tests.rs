//! A broker without connections.

mod coordinators;
mod crash;
mod directories;
mod idle;
mod moving;
mod recovering;
mod reindexing;
mod shared_images;
mod upkeep;
