//! A measured server: a process with one worker on the sender's processor.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::error::LabError;
use crate::experiments::files::FileServers;
use crate::experiments::files::site::Site;
use crate::harness::bench::Bench;
use crate::harness::process::Spent;
use crate::harness::program::{bare, free_addresses};
use crate::machine::interrupt::{Interrupt, ProcessGroup};

/// Implementation of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileServer {
    /// Levada, as `levada files` of the measured program.
    Levada,
    /// nginx, with the configuration of Debian's package and an open-file cache.
    Nginx,
}

impl FileServer {
    /// Name of the server in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Levada => "levada",
            Self::Nginx => "nginx",
        }
    }
}

/// A running server. Drop kills its processes.
#[derive(Debug)]
pub(super) struct Server {
    system: FileServer,
    child: Child,
    _group: ProcessGroup,
    worker: u32,
    plain: SocketAddr,
    sealed: SocketAddr,
    home: TempDir,
}

/// Limit for the time in which a server starts.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval between two attempts to connect to a server that starts.
const KNOCK: Duration = Duration::from_millis(1);

impl Server {
    /// Starts a server for the site and waits until it accepts connections.
    pub(super) fn start(
        bench: &Bench,
        systems: &FileServers,
        system: FileServer,
        site: &Site,
    ) -> Result<Self, LabError> {
        let home = tempfile::Builder::new().prefix(system.label()).tempdir_in(site.beside());
        let home = home.map_err(LabError::file("cannot make a directory in", site.beside()))?;
        let [plain, sealed] = free_addresses()?;
        let mut command = match system {
            FileServer::Levada => levada(&systems.levada, site, (plain, sealed)),
            FileServer::Nginx => nginx(systems.nginx.as_deref(), site, (home.path(), plain, sealed))?,
        };
        let said = home.path().join("stderr");
        let file = File::create(&said).map_err(LabError::file("cannot write", &said))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        // A child process inherits the processor of the thread that starts it.
        let pinned = bench.places().pin_sender();
        let child = command.spawn().map_err(LabError::step(format!("cannot start {command:?}")))?;
        drop(pinned);
        let (worker, group) = (child.id(), ProcessGroup::of(&child));
        let mut server = Self { system, worker, child, _group: group, plain, sealed, home };
        server.await_answer()?;
        if system == FileServer::Nginx {
            server.worker = server.only_child()?;
        }
        Ok(server)
    }

    fn await_answer(&mut self) -> Result<(), LabError> {
        let start = Instant::now();
        while TcpStream::connect(self.sealed).is_err() {
            if self.child.try_wait().ok().flatten().is_some() || start.elapsed() > LIMIT {
                return Err(self.failed("does not start"));
            }
            if Interrupt::asked() {
                return Err(LabError::Interrupted);
            }
            std::thread::sleep(KNOCK);
        }
        Ok(())
    }

    /// Process id of the worker, if the started process has a worker and does no work itself.
    fn only_child(&self) -> Result<u32, LabError> {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let children = fs::read_to_string(&path).map_err(LabError::file("cannot read", &path))?;
            if let Some(child) = children.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
                return Ok(child);
            }
            std::thread::sleep(KNOCK);
        }
        Err(self.failed("starts no worker"))
    }

    /// Error of this server, with the last lines of its output.
    fn failed(&self, what: &str) -> LabError {
        const LINES: usize = 5;
        let said = fs::read_to_string(self.home.path().join("stderr")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        LabError::Step { what: format!("{} {what}", self.system.label()), cause: std::io::Error::other(last) }
    }

    pub(super) fn system(&self) -> FileServer {
        self.system
    }

    /// Process id of the worker.
    pub(super) fn worker(&self) -> u32 {
        self.worker
    }

    /// Address without TLS.
    pub(super) fn plain(&self) -> SocketAddr {
        self.plain
    }

    /// Address with TLS.
    pub(super) fn sealed(&self) -> SocketAddr {
        self.sealed
    }

    /// Runs `work`. Returns its result, and the processor time of the server.
    pub(super) fn beside<T>(
        &self,
        work: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<(T, Duration), LabError> {
        let before = Spent::of(self.worker);
        let done = work()?;
        Ok((done, Spent::since(self.worker, &before)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            // The process group contains the worker and its master. The call fails only if the
            // group has already ended.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// `levada files` with its defaults and one shard.
fn levada(program: &Path, site: &Site, (plain, sealed): (SocketAddr, SocketAddr)) -> Command {
    let mut command = bare(program);
    command.arg("files").arg(site.root()).args(["--shards", "1"]).env("LEVADA_LOG", "warn");
    command.args(["--listen", &plain.to_string(), "--listen-tls", &sealed.to_string()]);
    command.arg("--tls-cert").arg(&site.identity.path);
    command
}

/// nginx with its own configuration in `home`.
fn nginx(
    program: Option<&Path>,
    site: &Site,
    (home, plain, sealed): (&Path, SocketAddr, SocketAddr),
) -> Result<Command, LabError> {
    let program = program.ok_or_else(|| {
        LabError::step("cannot start nginx")(std::io::Error::other("name its program with --nginx"))
    })?;
    let path = home.join("nginx.conf");
    let text = configuration(&found(program), site, (home, plain, sealed));
    fs::write(&path, text).map_err(LabError::file("cannot write", &path))?;
    let mut command = bare(program);
    command.arg("-p").arg(home).arg("-e").arg("stderr").arg("-c").arg(path);
    Ok(command)
}

/// Returns the path of a program that the command line may name without a directory.
fn found(program: &Path) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| path.exists()).unwrap_or_else(|| program.to_owned())
}

/// Returns the settings of `nginx.conf` in Debian's package with one worker, and with settings for
/// fast file service: no access log, a cache of open files, and no limit on the requests of a
/// connection.
fn configuration(
    program: &Path,
    site: &Site,
    (home, plain, sealed): (&Path, SocketAddr, SocketAddr),
) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root root;" } else { "" };
    // Relative to the program, in the directory of the unpacked package.
    let types = program.ancestors().nth(3).map(|top| top.join("etc/nginx/mime.types"));
    let types = types.filter(|types| types.exists());
    let types = types.map(|types| format!("include {};", types.display())).unwrap_or_default();
    let (home, root, identity) = (home.display(), site.root(), site.identity.path.display());
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {home}/{name};")).join(" ");
    format!(
        "daemon off; {user} worker_processes 1; pid {home}/nginx.pid;
        events {{ worker_connections 10000; }}
        http {{
            sendfile on; tcp_nopush on; types_hash_max_size 2048; {types} default_type application/octet-stream;
            ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on; gzip on;
            access_log off; open_file_cache max=4096 inactive=60s; keepalive_requests 1000000000; {temporary}
            server {{
                listen {plain}; listen {sealed} ssl; ssl_certificate {identity}; ssl_certificate_key {identity};
                root {root};
            }}
        }}
        ",
        root = root.display()
    )
}
