//! Computes the response to a request head, from the site, the cache of open files, and finished
//! disk work.
//!
//! This never waits for the disk. A look-up that would have to wait is returned as [`Work`]; its
//! result is passed in as [`Prepared`] when the same head is answered again.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use percent_encoding::percent_encode;

use crate::answer::{self, Body, Frame, Moment, Persistence, Reply, Sharing};
use crate::cache::{Cache, Known};
use crate::entry::{Resource, SMALL_BYTES};
use crate::listing::{self, ListingBudget, ListingFault, ListingTask};
use crate::range::Span;
use crate::request::{Head, Method, Refusal};
use crate::root::{DiskWait, Fault, Opened};
use crate::site::{Found, Site};
use crate::target::{self, Shape, Target};

/// Generates the responses of one shard.
#[derive(Debug)]
pub(crate) struct Responder {
    site: Arc<ArcSwap<Site>>,
    pub(crate) cache: Cache,
    listings: ListingBudget,
    /// The path and the key of the present request, so that each needs no separate memory.
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

/// Outcome of a request head.
#[derive(Debug)]
pub(crate) enum Decision {
    Reply(Reply),
    /// Work for a thread that may wait for the disk.
    Wait(Work),
}

/// Work that must wait for the disk.
#[derive(Debug)]
pub(crate) struct Work {
    key: Vec<u8>,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Find { host: Option<String>, path: Vec<u8>, directory: bool },
    List(ListingTask),
}

/// Result of the work for one path.
#[derive(Debug)]
pub(crate) struct Prepared {
    key: Vec<u8>,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Found(Result<Found, Fault>),
    Listed(Result<Bytes, ListingFault>, listing::Form),
}

impl Prepared {
    /// The result of work that did not finish, as after a panic.
    pub(crate) fn failed(key: Vec<u8>, error: std::io::Error) -> Self {
        Self { key, outcome: Outcome::Found(Err(Fault::Io(error))) }
    }
}

impl Work {
    /// The path that is looked up.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Does the work. Waits for the disk.
    pub(crate) fn run(self, site: &Site) -> Prepared {
        let outcome = match self.task {
            Task::Find { host, path, directory } => {
                Outcome::Found(site.find(host.as_deref(), (&path, directory), DiskWait::Unlimited))
            }
            Task::List(task) => {
                let form = task.form;
                Outcome::Listed(task.run(site), form)
            }
        };
        Prepared { key: self.key, outcome }
    }
}

/// The end of a lookup.
enum LookupEnd {
    File(Rc<Resource>),
    Redirect,
    Listing(Opened),
    Listed(Result<Bytes, ListingFault>, listing::Form),
    Missing,
    Forbidden,
    Failed(Fault),
    Wait(Work),
}

/// Object of the lookup.
struct Lookup<'a> {
    host: Option<&'a str>,
    path: &'a [u8],
    directory: bool,
    key: &'a [u8],
}

impl Responder {
    pub(crate) fn new(site: Arc<ArcSwap<Site>>, files_max: usize, listings: ListingBudget) -> Self {
        Self { site, cache: Cache::new(files_max), listings, scratch: RefCell::default() }
    }

    /// The site of this moment.
    pub(crate) fn site(&self) -> Arc<Site> {
        self.site.load_full()
    }

    /// Responds to a request, with the results that were prepared for it.
    ///
    /// # Errors
    /// The request is refused; the connection ends.
    pub(crate) fn decide(
        &self,
        head: &Head<'_, '_>,
        prepared: &mut Vec<Prepared>,
        (moment, now): (Moment<'_>, Instant),
    ) -> Result<Decision, Refusal> {
        let site = self.site.load();
        let frame = Frame {
            moment,
            persistence: Persistence::of(head),
            sharing: Sharing::of(&site.options().cors, head),
            head_only: head.method == Method::Head,
        };
        let answered = |reply| Ok(Decision::Reply(reply));
        if !head.host().is_none_or(target::is_authority) {
            return Err(Refusal::bad("the host is malformed"));
        }
        match head.method {
            Method::Get | Method::Head => {}
            Method::Options => {
                target::split(head.target)?;
                return answered(answer::options(&frame, head.is_preflight()));
            }
            Method::Other => {
                return answered(answer::plain(StatusCode::METHOD_NOT_ALLOWED, &frame, answer::ALLOW));
            }
            Method::Unknown => return answered(answer::plain(StatusCode::NOT_IMPLEMENTED, &frame, b"")),
        }
        let Target::Path { path, query, authority } = target::split(head.target)? else {
            return Err(Refusal::bad("only OPTIONS asks about the whole server"));
        };
        let host = match authority.or(head.host()) {
            Some(host) if site.options().hosts => target::host(host)?,
            Some(host) if !target::is_authority(host) => return Err(Refusal::bad("the host is malformed")),
            _ => None,
        };
        let (mut normal, mut key) = self.scratch.take();
        normal.clear();
        let shape = target::normalise(path, &mut normal);
        let decision = shape.map(|shape| {
            let host = host.as_deref();
            let request = Request { site: &site, host, head, frame: &frame, query, now };
            self.answer(&request, prepared, (&normal, shape), &mut key)
        });
        self.scratch.replace((normal, key));
        decision
    }

    fn answer(
        &self,
        request: &Request<'_>,
        prepared: &mut Vec<Prepared>,
        (path, shape): (&[u8], Shape),
        key: &mut Vec<u8>,
    ) -> Decision {
        let Request { site, host, head, frame, .. } = *request;
        write_key(key, host, path, shape.directory);
        let asked = Lookup { host, path, directory: shape.directory, key };
        let landed = if shape.hidden && !site.options().hidden {
            LookupEnd::Missing
        } else {
            self.look(request, &asked, prepared)
        };
        match landed {
            LookupEnd::File(resource) => {
                let make = |resource: &Resource| answer::file(frame, head, resource);
                self.with_file(request, (&asked, prepared), resource, make)
            }
            LookupEnd::Redirect => Decision::Reply(redirect(frame, path, request.query)),
            LookupEnd::Listing(opened) => Decision::Wait(list(&asked, request, (opened, &self.listings))),
            LookupEnd::Listed(Ok(page), form) => {
                let page = (form.media(), page);
                Decision::Reply(answer::page(StatusCode::OK, frame, b"Vary: Accept\r\n", page))
            }
            LookupEnd::Listed(Err(ListingFault::Read(error)), _) => {
                self.failed(request, path, Fault::Io(error))
            }
            LookupEnd::Listed(Err(ListingFault::NoRoom), _) => {
                let fields = b"Retry-After: 5\r\nVary: Accept\r\n";
                Decision::Reply(answer::plain(StatusCode::SERVICE_UNAVAILABLE, frame, fields))
            }
            LookupEnd::Failed(fault) => self.failed(request, path, fault),
            LookupEnd::Forbidden => Decision::Reply(answer::status(StatusCode::FORBIDDEN, frame, head)),
            LookupEnd::Wait(work) => Decision::Wait(work),
            LookupEnd::Missing => self.substitute(request, prepared, host, key),
        }
    }

    /// Responds to a request for a missing file.
    fn substitute(
        &self,
        request: &Request<'_>,
        prepared: &mut Vec<Prepared>,
        host: Option<&str>,
        key: &mut Vec<u8>,
    ) -> Decision {
        let Request { site, head, frame, .. } = *request;
        let nothing = || Decision::Reply(answer::status(StatusCode::NOT_FOUND, frame, head));
        let Some((path, counts_as_found)) = site.substitute() else { return nothing() };
        write_key(key, host, path, false);
        let asked = Lookup { host, path, directory: false, key };
        match self.look(request, &asked, prepared) {
            LookupEnd::File(resource) => {
                let make = |resource: &Resource| {
                    if counts_as_found {
                        answer::file(frame, head, resource)
                    } else {
                        answer::not_found(frame, head, resource)
                    }
                };
                self.with_file(request, (&asked, prepared), resource, make)
            }
            LookupEnd::Wait(work) => Decision::Wait(work),
            LookupEnd::Failed(fault) => self.failed(request, path, fault),
            _ => nothing(),
        }
    }

    /// Responds with a file; a small file in memory is included with its bytes, which belong to the
    /// version that the head describes.
    fn with_file(
        &self,
        request: &Request<'_>,
        (asked, prepared): (&Lookup<'_>, &mut Vec<Prepared>),
        mut resource: Rc<Resource>,
        make: impl Fn(&Resource) -> Reply,
    ) -> Decision {
        // A file that changes at each check is sent in its present state, and the connection ends
        // in the middle of it.
        const LOOKS: u32 = 3;
        for _ in 1..LOOKS {
            let mut reply = make(&resource);
            if self.fill(&mut reply, request.frame.moment.now) {
                return Decision::Reply(reply);
            }
            self.cache.remove(asked.key);
            match self.look(request, asked, prepared) {
                LookupEnd::File(again) => resource = again,
                LookupEnd::Wait(work) => return Decision::Wait(work),
                LookupEnd::Failed(fault) => return self.failed(request, asked.path, fault),
                _ => {
                    return Decision::Reply(answer::status(
                        StatusCode::NOT_FOUND,
                        request.frame,
                        request.head,
                    ));
                }
            }
        }
        Decision::Reply(make(&resource))
    }

    /// Adds the bytes of a small file to a response, if they are in memory; true if they are the
    /// version that the head describes.
    fn fill(&self, reply: &mut Reply, now: SystemTime) -> bool {
        let Body::File(entry, span) = &reply.body else { return true };
        let len = entry.len();
        if len > SMALL_BYTES {
            return true;
        }
        let bytes = match entry.kept() {
            Some(bytes) => bytes,
            None => match entry.read(Span { start: 0, end: len }) {
                Ok(Some(bytes)) if entry.is_intact() => {
                    self.cache.keep_body(entry, &bytes, now);
                    bytes
                }
                Ok(None) => return true,
                Ok(Some(_)) | Err(_) => return false,
            },
        };
        let at = |offset: u64| usize::try_from(offset).expect("a small file");
        reply.body = Body::Bytes(bytes.slice(at(span.start)..at(span.end)));
        true
    }

    fn failed(&self, request: &Request<'_>, path: &[u8], fault: Fault) -> Decision {
        let path = String::from_utf8_lossy(path);
        let status = match fault {
            Fault::NoDescriptor => {
                // Files that are kept open for later can be opened again later.
                self.cache.clear();
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        tracing::warn!(%path, error = %fault, "cannot serve a file");
        Decision::Reply(answer::status(status, request.frame, request.head))
    }

    /// Looks up a path: in the prepared results, in the cache, and in the kernel's caches without
    /// waiting for the disk.
    fn look(&self, request: &Request<'_>, asked: &Lookup<'_>, prepared: &mut Vec<Prepared>) -> LookupEnd {
        let (now, date) = (request.now, request.frame.moment.now);
        let (known, stale) = match self.cache.look(asked.key, now) {
            Known::Current(resource) => return LookupEnd::File(resource),
            Known::Stale(resource) => (true, Some(resource)),
            Known::Nothing => (false, None),
        };
        let before = prepared.iter().position(|done| done.key == asked.key);
        let found = match before.map(|at| prepared.swap_remove(at).outcome) {
            Some(Outcome::Listed(page, form)) => return LookupEnd::Listed(page, form),
            Some(Outcome::Found(found)) => found,
            None => request.site.find(asked.host, (asked.path, asked.directory), DiskWait::None),
        };
        let landed = match found {
            Ok(Found::File(file)) => {
                let resource = Rc::new(Resource::new(request.site, *file, stale.as_deref(), (now, date)));
                self.cache.insert(asked.key, resource.clone());
                return LookupEnd::File(resource);
            }
            Ok(Found::Redirect) => LookupEnd::Redirect,
            Ok(Found::Listing(opened)) => LookupEnd::Listing(opened),
            Ok(Found::Missing) => LookupEnd::Missing,
            Ok(Found::Forbidden) => LookupEnd::Forbidden,
            Err(Fault::WouldWait) => {
                let (host, path) = (asked.host.map(str::to_owned), asked.path.to_vec());
                let task = Task::Find { host, path, directory: asked.directory };
                return LookupEnd::Wait(Work { key: asked.key.to_vec(), task });
            }
            Err(fault) => LookupEnd::Failed(fault),
        };
        if known {
            self.cache.remove(asked.key);
        }
        // If one response needs it twice, as a page for missing files that is itself missing, it
        // must be available again.
        if let Some(outcome) = landed.again() {
            prepared.push(Prepared { key: asked.key.to_vec(), outcome });
        }
        landed
    }
}

impl LookupEnd {
    /// Copies the outcome for another lookup of the same request.
    fn again(&self) -> Option<Outcome> {
        match self {
            Self::Missing => Some(Outcome::Found(Ok(Found::Missing))),
            _ => None,
        }
    }
}

/// A request and its circumstances.
#[derive(Clone, Copy)]
struct Request<'a> {
    site: &'a Site,
    host: Option<&'a str>,
    head: &'a Head<'a, 'a>,
    frame: &'a Frame<'a>,
    query: Option<&'a [u8]>,
    now: Instant,
}

/// The name of a path in the cache: no host has a slash, and no path a NUL.
fn write_key(key: &mut Vec<u8>, host: Option<&str>, path: &[u8], directory: bool) {
    key.clear();
    if let Some(host) = host {
        key.extend_from_slice(host.as_bytes());
        key.push(0);
    }
    key.extend_from_slice(path);
    if directory {
        key.push(b'/');
    }
}

fn redirect(frame: &Frame<'_>, path: &[u8], query: Option<&[u8]>) -> Reply {
    let mut location = format!("Location: /{}/", percent_encode(path, target::PATH));
    if let Some(query) = query {
        location.push('?');
        location.extend(query.iter().map(|byte| char::from(*byte)).filter(char::is_ascii_graphic));
    }
    location.push_str("\r\n");
    answer::plain(StatusCode::MOVED_PERMANENTLY, frame, location.as_bytes())
}

fn list(asked: &Lookup<'_>, request: &Request<'_>, (opened, budget): (Opened, &ListingBudget)) -> Work {
    let (form, order) = (listing::Form::wanted(request.head), listing::Order::wanted(request.query));
    let (host, path) = (asked.host.map(str::to_owned), asked.path.to_vec());
    let budget = budget.clone();
    let task = Task::List(ListingTask { opened, host, path, form, order, budget });
    Work { key: asked.key.to_vec(), task }
}

#[cfg(test)]
mod tests;
