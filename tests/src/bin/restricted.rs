//! Runs a command with less than this machine allows: system calls that fail, little memory to
//! lock, no privileges.
//!
//! `restricted [--deny NAME,…=EPERM|ENOSYS] [--locked-memory BYTES] [--namespace]
//! [--copying-splice] -- COMMAND`. The command is a child of this process.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut program = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--deny" => deny(&arguments.next().ok_or("--deny what?")?)?,
            "--locked-memory" => {
                let bytes = Some(arguments.next().ok_or("--locked-memory how much?")?.parse()?);
                setrlimit(Resource::Memlock, Rlimit { current: bytes, maximum: bytes })?;
            }
            // An unprivileged user, also outside of the namespace, with no capability.
            "--namespace" => program.extend(["unshare", "-U"].map(str::to_owned)),
            // A kernel whose splice copies pages, as Levada assumes by this variable.
            "--copying-splice" => {
                program.extend(["env", "LEVADA_ASSUME_COPYING_SPLICE=1"].map(str::to_owned))
            }
            "--" => break,
            other => return Err(format!("{other}?").into()),
        }
    }
    program.extend(arguments);
    let (name, rest) = program.split_first().ok_or("no command")?;
    let status = Command::new(name).args(rest).status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Makes system calls fail from now on, for all children too.
fn deny(what: &str) -> Result<(), Box<dyn Error>> {
    let (names, error) = what.split_once('=').ok_or("--deny NAMES=ERROR")?;
    let error = match error {
        "EPERM" => libc::EPERM,
        "ENOSYS" => libc::ENOSYS,
        other => return Err(format!("error {other}?").into()),
    };
    let numbers = names.split(',').map(|name| Ok((number(name)?, Vec::new())));
    let rules = numbers.collect::<Result<BTreeMap<_, _>, Box<dyn Error>>>()?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    apply_filter(&BpfProgram::try_from(filter)?)?;
    Ok(())
}

fn number(name: &str) -> Result<i64, String> {
    /// The same on every architecture, as all numbers from 424 on are; libc has no name for it
    /// everywhere.
    const CACHESTAT: i64 = 451;
    Ok(match name {
        "cachestat" => CACHESTAT,
        "copy_file_range" => libc::SYS_copy_file_range,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        "io_uring_enter" => libc::SYS_io_uring_enter,
        "io_uring_register" => libc::SYS_io_uring_register,
        "preadv2" => libc::SYS_preadv2,
        "sendfile" => libc::SYS_sendfile,
        "splice" => libc::SYS_splice,
        other => return Err(format!("system call {other}?")),
    })
}
