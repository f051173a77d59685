//! `levada lab calibrate`: measures the thresholds of this machine and writes the file that the
//! broker loads.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::calibrate::{self, Finding};
use crate::summary;
use levada_io::thresholds::default_files;
use serde::Serialize;

use super::{Session, table};
use levada_terminal::failure::Failure;
use levada_terminal::lab::CalibrateArgs;
use levada_terminal::output::{self, Format};

/// Outcome of a calibration: the written file, the thresholds, and the doubts about them.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: Option<&'a Path>,
    thresholds: &'a [Finding],
    doubts: &'a [String],
}

pub(super) fn run(args: &CalibrateArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut session = Session::begin(&args.run)?;
    session.limit(&args.run, calibrate::limits);
    let ended = calibrate::EXPERIMENTS.iter().try_for_each(|maker| session.run(maker));
    if ended.is_ok() {
        session.check_only(&args.run)?;
    }
    session.finish();
    ended?;
    let lines = session.recorder.lines();
    let (thresholds, findings) = calibrate::decide(&summary::of(lines));
    let doubts = table::doubts(lines);
    let file = match (&args.file, args.dry_run) {
        (_, true) => None,
        (Some(file), _) => Some(file.clone()),
        (None, _) => default_files().into_iter().next(),
    };
    if let Some(file) = &file {
        write(file, &thresholds.to_text(&head(&findings, &doubts)))?;
    }
    let report = Report { file: file.as_deref(), thresholds: &findings, doubts: &doubts };
    print(&report, args.run.format.format, out)?;
    session.tell();
    Ok(())
}

/// Comment at the head of the file: the time, the machine, and the reason for each value.
fn head(findings: &[Finding], doubts: &[String]) -> String {
    let (system, now) = (rustix::system::uname(), jiff::Zoned::now().strftime("%Y-%m-%d %H:%M"));
    let host = system.nodename().to_string_lossy();
    let release = system.release().to_string_lossy();
    let mut head = format!("Thresholds of {host}, Linux {release}, by `levada lab calibrate`, {now}.\n");
    for finding in findings {
        head.push_str(&format!("{}: {}\n", finding.key, finding.why));
    }
    for doubt in doubts {
        head.push_str(&format!("Not reliable: {doubt}\n"));
    }
    head
}

/// Replaces the file by a rename, so that a reader never finds a part of it.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let what = format!("cannot write {}: {error}", file.display());
        Failure::with_next(
            what,
            "name another file with --file, and set levada.thresholds.file of the broker to its path",
        )
    };
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    if let Some(dir) = dir {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = file.with_file_name(name);
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, file)).map_err(|error| {
        let _ = fs::remove_file(&draft);
        failed(error)
    })
}

fn print(report: &Report<'_>, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(out, report);
    }
    let row = |finding: &Finding| {
        let (bytes, default) = (finding.bytes.to_string(), finding.default_bytes.to_string());
        vec![finding.key.to_owned(), bytes, default, finding.why.clone()]
    };
    output::table(
        out,
        &["THRESHOLD", "BYTES", "DEFAULT", "WHY"],
        report.thresholds.iter().map(row).collect(),
    )?;
    match report.file {
        Some(file) => writeln!(out, "\nwritten to {}", file.display())?,
        None => writeln!(out, "\nno file written")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use levada_io::Thresholds;

    #[test]
    fn written_thresholds_load_and_state_their_reasons() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/thresholds");
        let (thresholds, findings) = calibrate::decide(&[]);
        let text = thresholds.to_text(&head(&findings, &["it was\nloud".to_owned()]));
        write(&file, &text).unwrap();
        write(&file, &text).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
        assert_eq!(Thresholds::load(&file).unwrap(), thresholds);
        assert!(
            text.contains("# small_extent_bytes: no extents were measured") && text.contains("# loud"),
            "{text}"
        );

        let mut out = Vec::new();
        let report = Report { file: Some(&file), thresholds: &findings, doubts: &[] };
        print(&report, Format::Table, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.starts_with("THRESHOLD") && out.contains("16384") && out.contains("written to /"),
            "{out}"
        );
    }
}
