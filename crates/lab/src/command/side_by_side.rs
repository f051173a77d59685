//! Programs that are measured side by side: separate processes that share one network namespace and
//! its loopback device.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environment::CONGESTION;
use crate::record::{Line, Note, Recorder};
use crate::{LabError, Offer};

use super::{Session, check_verdicts};
use levada_terminal::failure::Failure;
use levada_terminal::lab::{Network, SideArgs};
use levada_terminal::tell;

/// Activates the loopback device of a new network namespace, sets cubic for all its connections,
/// and executes another program.
const PREPARE: &str = r#"ip link set lo up || exit 125
for range in 127.0.0.0/8 127.0.0.1; do
    ip route change table local local $range dev lo proto kernel scope host src 127.0.0.1 congctl cubic || exit 125
done
exec "$@""#;

/// Variable that is set in a process with its own network namespace. An argument would not serve:
/// the record contains the arguments, and a user who repeats them with `--network host` would then
/// get another network.
const NETWORK: &str = "LEVADA_LAB_NETWORK";

const UNSHARE: [&str; 5] = ["--map-root-user", "--net", "sh", "-c", PREPARE];

/// Runs the named `offers`, or all of them. `systems` creates the systems from the path of Levada.
pub(super) fn run<S>(
    args: &SideArgs,
    (offers, names): (&[Offer<S>], &[String]),
    systems: impl FnOnce(PathBuf) -> S,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let this = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the path of this program: {error}")))?;
    if args.network == Network::Own && std::env::var_os(NETWORK).is_none() {
        if network_can_be_ours() {
            return Err(again_in_own_network(&this));
        }
        tell!(
            "the programs use the system's network and congestion control: a separate network needs unshare, ip and the permission to use them"
        );
    }
    let levada = match &args.levada {
        // Each broker starts in its own directory, where a relative path would name another file.
        Some(other) => std::fs::canonicalize(other).map_err(|error| {
            Failure::with_next(
                format!("cannot find the other build {}: {error}", other.display()),
                "name the program's file with --levada",
            )
        })?,
        None => this.with_file_name("levada"),
    };
    let systems = systems(levada);
    let wanted = |offer: &&Offer<S>| names.is_empty() || names.iter().any(|name| name == offer.name);
    let mut session = Session::begin(&args.run)?;
    if std::env::var_os(NETWORK).is_none() {
        note_congestion(&mut session.recorder)?;
    }
    let mut ended = Ok(());
    for offer in offers.iter().filter(wanted) {
        session.limit(&args.run, offer.limits);
        ended = session.run(|bench| (offer.begin)(bench, &systems));
        if ended.is_err() {
            break;
        }
    }
    if ended.is_ok() {
        session.check_only(&args.run)?;
    }
    session.end(&args.run, out)?;
    ended?;
    check_verdicts(session.recorder.lines())
}

/// Adds a note to the record if the measured programs use another congestion control than the
/// laboratory: the line about the machine names only that of the laboratory's connections.
fn note_congestion(recorder: &mut Recorder) -> Result<(), LabError> {
    let system = recorder.lines().iter().find_map(|line| match line {
        Line::Run(run) => Some(run.environment.congestion_default.clone()),
        _ => None,
    });
    let Some(system) = system.filter(|system| system != CONGESTION) else { return Ok(()) };
    let text = format!(
        "connections of the measured programs have congestion control {system} instead of {CONGESTION}; next: leave out --network host, with \
         unshare and ip permitted"
    );
    recorder.add(Line::Note(Note { experiment: None, group: None, case: None, text, caveat: false }))
}

/// Replaces this process by itself in a new network namespace. Returns only if that fails.
fn again_in_own_network(this: &Path) -> Failure {
    let error = in_own_network(this, std::env::args_os().skip(1)).exec();
    Failure::new(format!("cannot run unshare: {error}"))
}

/// Returns the command that runs the program with these arguments in a new network namespace.
fn in_own_network(this: &Path, args: impl Iterator<Item = OsString>) -> Command {
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg("sh").arg(this).args(args).env(NETWORK, "own");
    command
}

/// True if this process can run a program in a new network namespace. Starts a program that does
/// nothing.
fn network_can_be_ours() -> bool {
    let mut command = Command::new("unshare");
    command
        .args(UNSHARE)
        .args(["sh", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use crate::{Bench, Limits, Scale};

    use super::*;

    #[test]
    fn record_notes_unsettable_congestion_control() {
        let dir = tempfile::tempdir().unwrap();
        let bench = Bench::new(dir.path(), Scale::Tiny).unwrap();
        let mut first = Recorder::in_memory();
        first.run(&bench, Limits::of(Scale::Tiny), 1).unwrap();
        let [Line::Run(run), ..] = first.lines() else { panic!("{:?}", first.lines()) };
        let noted = |system: &str| {
            let mut run = run.clone();
            system.clone_into(&mut run.environment.congestion_default);
            let mut recorder = Recorder::in_memory();
            recorder.add(Line::Run(run)).unwrap();
            note_congestion(&mut recorder).unwrap();
            super::super::table::doubts(recorder.lines())
        };
        assert_eq!(noted(CONGESTION), [""; 0]);
        let doubts = noted("bbr");
        assert!(matches!(&doubts[..], [one] if one.contains("control bbr instead of cubic")), "{doubts:?}");
    }

    #[test]
    fn own_network_run_records_repeatable_arguments() {
        let given = ["broker", "fetch"].map(OsString::from);
        let command = in_own_network(Path::new("/bin/levada"), given.iter().cloned());
        let args: Vec<_> = command.get_args().map(OsString::from).collect();
        let after = args.iter().position(|word| word == "/bin/levada").expect("the program");
        assert_eq!(args[after + 1..], given);
        assert!(command.get_envs().any(|(name, value)| name == NETWORK && value.is_some()));
    }
}
