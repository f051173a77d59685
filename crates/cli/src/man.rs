//! `levada man`: manual pages, made from the same definitions as `--help`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::Cli;
use levada_terminal::failure::Failure;

/// Print the manual page, or write the pages of all commands to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada man | man -l -                      read the page of levada itself
  levada man --dir pages                     the pages of all commands and of the configuration")]
pub(crate) struct Args {
    /// Directory for the pages: levada.1, levada-topic.1 and so on, and levada.properties.5
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        out.write_all(&page(&command)?)?;
        return Ok(());
    };
    fs::create_dir_all(dir).map_err(|error| unwritable(dir, &error))?;
    let keys = dir.join("levada.properties.5");
    fs::write(&keys, levada_config::manual_page()).map_err(|error| unwritable(&keys, &error))?;
    write_all(dir, &command)
}

fn page(command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// Writes the page of a command and those of its subcommands. `Command::build` has set their full
/// names.
fn write_all(dir: &Path, command: &clap::Command) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, page(command)?).map_err(|error| unwritable(&path, &error))?;
    command.get_subcommands().try_for_each(|subcommand| write_all(dir, subcommand))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::with_next(
        format!("{}: {error}", path.display()),
        "name a directory that can be written with --dir",
    )
}
