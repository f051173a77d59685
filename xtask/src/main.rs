//! Development tasks, run as `cargo xtask TASK`: `tidy` checks the house rules, `deny` the
//! dependencies, `deps` installs the programs of the tests, `black-box` runs real clients against
//! the release binary, `test` runs everything, `dist` makes packages, `soak` runs randomised tests
//! for longer.

mod deny;
mod deps;
mod dist;
mod job;
mod markdown;
mod picture;
mod soak;
mod suite;
mod tidy;
mod vm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::vm::Extent;

const USAGE: &str = "\
Usage: cargo xtask TASK

  tidy                 check the house rules (see CONTRIBUTING.md)
  deny                 check licences, sources and duplicates of the dependencies (deny.toml)
  lints                build the tests with Clippy's compiler, and fail if it warns
  documentation        document all crates from the artifacts of `lints`, and fail if rustdoc warns
  picture              draw docs/pictures/beside-kafka.svg from the README's table of figures
  deps [NAME]...       install what the tests need: Debian packages, Python clients, Java tools; or some of it
  black-box [NAME]... [-- TEXT...]
                       run black-box suites (tests/tests), by name or folder; with TEXT, tests whose names contain it
  dist [--profile NAME | --binary FILE] [--target TARGET]... [--check [--previous FILE.deb]]
                       make the packages in target/dist-packages, for this machine or for the targets x86_64-unknown-linux-gnu
                       and aarch64-unknown-linux-gnu; --check also inspects them, installs, upgrades and removes them in a
                       Debian of its own, and builds them again elsewhere; --binary inspects packages of a built binary
  dist --binary FILE --starts N
                       make the image of a built binary, and start it N times as Testcontainers and compose files do
  vm [--full]          boot two of Debian's kernels under qemu and run there what needs TLS in the kernel, or an older kernel;
                       --full also fetches a gigabyte in each
  test                 the short tier, in about ten minutes; outputs stay in target/checks
  test --all [--part K/N]
                       everything: what .ci/run runs; or the K-th of N parts of it
  soak [--minutes N] [NAME]...  long runs of what is drawn at random, N minutes each (10): crashes, models, fuzz targets,
                       black-box suites under disturbances; or those whose names contain one of the words
  test --suites [NAME]...  the tests of foreign clients, against Levada and against a real Kafka (docs/suites.md)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let done = match arguments.first().map(String::as_str) {
        Some("tidy") if rest.is_empty() => tidy::run(&root()),
        Some("picture") if rest.is_empty() => picture::write(&root()),
        Some("deny") if rest.is_empty() => deny::run(&root()),
        Some("lints") if rest.is_empty() => suite::lints(&root()),
        Some("documentation") if rest.is_empty() => suite::documentation(&root()),
        Some("deps") => deps::run_command(&root(), rest),
        Some("dist") => dist::run(&root(), rest),
        Some("vm") if rest.is_empty() => vm::run(&root(), Extent::Usual),
        Some("vm") if *rest == ["--full"] => vm::run(&root(), Extent::Full),
        Some("black-box") => suite::black_box(&root(), rest),
        Some("test") if rest.first().is_some_and(|word| word == "--suites") => {
            suite::foreign(&root(), &rest[1..])
        }
        Some("soak") => soak::run(&root(), rest),
        Some("test") => suite::test(&root(), rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("error: {message}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The directory that holds the workspace's `Cargo.toml`.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies one level below the root").to_path_buf()
}
