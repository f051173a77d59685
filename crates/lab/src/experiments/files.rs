//! Servers of static files side by side: `levada files` and, if the command line names it, nginx.
//! Each is a process with one worker on one processor. A bare loop of the necessary system calls
//! shows the machine's limit.
//!
//! All servers have the same client (`client.rs`), on another processor. The processor time of a
//! server is that of its worker process alone. The servers serve the same directory, run during the
//! whole experiment and take turns; the other servers are idle.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::LabError;
use crate::experiments::files::server::Server;
use crate::experiments::files::site::Site;
use crate::experiments::offer::{Offer, few, fewest};
use crate::harness::bench::Bench;
use crate::harness::process::{self, Paused};
use crate::method::experiment::Case;
use crate::method::limits::Limits;

mod client;
mod fairness;
mod floor;
mod idle;
mod requests;
mod server;
mod site;
mod volume;

pub use fairness::FilesFairness;
pub use idle::FilesIdle;
pub use requests::Requests;
pub use server::FileServer;
pub use volume::Volume;

/// Programs that the laboratory can start.
#[derive(Debug, Clone)]
pub struct FileServers {
    /// Path of the program with the command `files`.
    pub levada: PathBuf,
    /// Path of nginx, if it takes part.
    pub nginx: Option<PathBuf>,
}

impl FileServers {
    /// File servers on this machine. nginx is first, because the tables compare each server with
    /// the first.
    pub fn all(&self) -> Vec<FileServer> {
        let nginx = self.nginx.is_some().then_some(FileServer::Nginx);
        nginx.into_iter().chain([FileServer::Levada]).collect()
    }
}

/// All experiments on file servers, in execution order.
pub const OFFERS: [Offer<FileServers>; 4] = [
    Offer {
        name: "requests",
        begin: |bench, systems| Ok(Box::new(Requests::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "volume",
        begin: |bench, systems| Ok(Box::new(Volume::new(bench, systems)?)),
        limits: Limits::of,
    },
    Offer {
        name: "idle",
        begin: |bench, systems| Ok(Box::new(FilesIdle::new(bench, systems))),
        limits: fewest,
    },
    Offer {
        name: "fairness",
        begin: |bench, systems| Ok(Box::new(FilesFairness::new(bench, systems)?)),
        limits: few,
    },
];

/// Name of the bare loop in tables.
const FLOOR: &str = "floor";

/// Starts a server of each system.
fn started(bench: &Bench, systems: &FileServers, site: &Site) -> Result<Vec<Server>, LabError> {
    systems.all().into_iter().map(|system| Server::start(bench, systems, system, site)).collect()
}

fn labels(servers: &[Server]) -> impl Iterator<Item = &'static str> + Clone {
    servers.iter().map(|server| server.system().label())
}

fn named<'s>(servers: &'s [Server], label: &str) -> Option<&'s Server> {
    servers.iter().find(|server| server.system().label() == label)
}

/// Process id of the worker that a case measures; none for the bare loop.
fn worker(servers: &[Server], case: &Case) -> Option<u32> {
    named(servers, &case.name).map(Server::worker)
}

/// Time for a resumed server to catch up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Pauses all servers but one until the caller drops the guards.
fn alone(servers: &[Server], label: &str) -> Vec<Paused> {
    let others = servers.iter().filter(|server| server.system().label() != label);
    let paused: Vec<Paused> = others.map(|server| process::pause(server.worker())).collect();
    std::thread::sleep(CATCH_UP);
    paused
}
