//! Servers of static files side by side: `levada files` and, where its program is given, nginx,
//! each a process with one worker on one processor, and a bare loop of the system calls that the
//! work takes.
//!
//! The client is the same for all (`client.rs`), on another processor. The processor time of a
//! server is that of its worker process alone. The servers serve the same directory, run during the
//! whole of an experiment and take turns; the other servers are idle.

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

/// Programs that can be started.
#[derive(Debug, Clone)]
pub struct FileServers {
    /// The program that `files` is a command of.
    pub levada: PathBuf,
    /// nginx.
    pub nginx: Option<PathBuf>,
}

impl FileServers {
    /// File servers on this machine; nginx first, because Levada is compared with the first.
    pub fn all(&self) -> Vec<FileServer> {
        let nginx = self.nginx.is_some().then_some(FileServer::Nginx);
        nginx.into_iter().chain([FileServer::Levada]).collect()
    }
}

/// All experiments on servers of files, in the order in which they are run.
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

/// The name of the bare loop in tables.
const FLOOR: &str = "floor";

/// A server of each system, running.
fn started(bench: &Bench, systems: &FileServers, site: &Site) -> Result<Vec<Server>, LabError> {
    systems.all().into_iter().map(|system| Server::start(bench, systems, system, site)).collect()
}

fn labels(servers: &[Server]) -> impl Iterator<Item = &'static str> + Clone {
    servers.iter().map(|server| server.system().label())
}

fn named<'s>(servers: &'s [Server], label: &str) -> Option<&'s Server> {
    servers.iter().find(|server| server.system().label() == label)
}

/// The process that does the work of a case; none for the bare loop.
fn worker(servers: &[Server], case: &Case) -> Option<u32> {
    named(servers, &case.name).map(Server::worker)
}

/// Time that a server that was paused gets to catch up.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Pauses all servers but one, until the guards go.
fn alone(servers: &[Server], label: &str) -> Vec<Paused> {
    let others = servers.iter().filter(|server| server.system().label() != label);
    let paused: Vec<Paused> = others.map(|server| process::pause(server.worker())).collect();
    std::thread::sleep(CATCH_UP);
    paused
}
