//! `levada completions`: scripts that let a shell complete the command line, with names of topics,
//! groups and brokers; and `levada names`, which prints the names for the scripts.

use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};
use levada_client::Cluster;
use levada_terminal::failure::Failure;
use levada_wire::messages::ListGroupsRequest;

use crate::Cli;
use crate::cluster::BrokerArgs;

/// Print a completion script for a shell
///
/// In bash and fish, names of topics, groups and brokers are completed as well, if a broker
/// responds within half a second. The broker is that of LEVADA_BROKERS or of the current profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada completions bash > /etc/bash_completion.d/levada
  levada completions zsh > \"${fpath[1]}/_levada\"
  levada completions fish > ~/.config/fish/completions/levada.fish")]
pub(crate) struct Args {
    /// Shell to generate completions for
    shell: Shell,
}

/// Print names of a cluster, one a line, for completion scripts
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada names topics")]
pub(crate) struct NamesArgs {
    /// Kind of the names
    kind: Kind,
    #[command(flatten)]
    brokers: BrokerArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Topics,
    Groups,
    Brokers,
}

/// Longest wait for a response, since a user waits for the completion.
const LIMIT: Duration = Duration::from_millis(500);

/// Commands whose arguments are names of a kind: a noun and its verbs. A command without verbs has
/// an empty list.
const NAMED: [(Kind, &str, &[&str]); 9] = [
    (Kind::Topics, "topic", &["list", "describe", "alter", "trim", "delete"]),
    (Kind::Topics, "partition", &["list", "move", "elect", "balance"]),
    (Kind::Topics, "produce", &[]),
    (Kind::Topics, "consume", &[]),
    (Kind::Topics, "offsets", &[]),
    (Kind::Topics, "bench", &["produce", "consume", "latency"]),
    (Kind::Groups, "group", &["describe", "reset", "export", "kick", "delete"]),
    (Kind::Brokers, "broker", &["describe", "drain", "remove"]),
    (Kind::Brokers, "logdirs", &[]),
];

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // `generate` panics where a pipe is closed, so it writes to memory.
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "levada", &mut script);
    out.write_all(&script)?;
    match args.shell {
        Shell::Bash => out.write_all(bash().as_bytes())?,
        Shell::Fish => out.write_all(fish().as_bytes())?,
        _ => {}
    }
    Ok(())
}

/// Prints names, or nothing if no broker responds in time.
pub(crate) fn names(args: NamesArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the process, which does not wait for a broker that hangs.
    thread::spawn(move || {
        sender.send(args.brokers.connect().and_then(|mut cluster| ask(&mut cluster, args.kind)))
    });
    for name in receiver.recv_timeout(LIMIT).ok().and_then(Result::ok).unwrap_or_default() {
        writeln!(out, "{name}")?;
    }
    Ok(())
}

fn ask(cluster: &mut Cluster, kind: Kind) -> Result<Vec<String>, Failure> {
    let mut names = match kind {
        Kind::Topics => cluster.topics(None)?.into_keys().collect(),
        Kind::Brokers => cluster.brokers()?.into_iter().map(|id| id.to_string()).collect(),
        Kind::Groups => {
            let mut names = Vec::new();
            for node in cluster.brokers()? {
                let response = cluster.broker(node)?.request(&ListGroupsRequest::default())?;
                names.extend(response.groups.iter().map(|group| group.group_id.as_str().to_owned()));
            }
            names
        }
    };
    // A shell would take such a name for several words, or for a command.
    names.retain(|name| name.chars().all(|one| one.is_ascii_alphanumeric() || "._-/+=@".contains(one)));
    Ok(names)
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Groups => "groups",
            Self::Brokers => "brokers",
        }
    }
}

/// The part of bash's script that adds names to those of commands and options.
fn bash() -> String {
    let case = |(kind, noun, verbs): &(Kind, &str, &[&str])| {
        let patterns = match verbs {
            [] => format!("\"{noun} \"*"),
            _ => verbs.iter().map(|verb| format!("\"{noun} {verb}\"")).collect::<Vec<_>>().join("|"),
        };
        let least = if verbs.is_empty() { 2 } else { 3 };
        format!("        {patterns}) kind={} least={least} ;;\n", kind.word())
    };
    let cases: String = NAMED.iter().map(case).collect();
    format!(
        "
_levada_with_names() {{
    _levada \"$@\"
    local word=\"${{COMP_WORDS[COMP_CWORD]}}\" kind= least=
    [[ $word == -* ]] && return
    case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}\" in
{cases}        *) return ;;
    esac
    (( COMP_CWORD >= least )) || return
    COMPREPLY+=( $(compgen -W \"$(levada names $kind 2>/dev/null)\" -- \"$word\") )
}}
complete -F _levada_with_names -o bashdefault -o default levada
"
    )
}

/// The part of fish's script that adds names to those of commands and options.
fn fish() -> String {
    let line = |(kind, noun, verbs): &(Kind, &str, &[&str])| {
        let verbs = match verbs {
            [] => String::new(),
            _ => format!("; and __fish_seen_subcommand_from {}", verbs.join(" ")),
        };
        let kind = kind.word();
        format!(
            "complete -c levada -n \"__fish_seen_subcommand_from {noun}{verbs}\" -f -a \"(levada names {kind} 2>/dev/null)\"\n"
        )
    };
    NAMED.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
