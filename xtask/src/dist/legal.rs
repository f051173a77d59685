//! Licence and changelog in the forms of the package families. The text of the licence belongs to a
//! package, except for Debian's: each Debian has the text, and its packages refer to it.

use std::path::Path;

use super::contents::{self, Entry, Family};
use super::release::Release;

/// Path of the copyright statement in the Debian package.
pub(super) const COPYRIGHT: &str = "usr/share/doc/levada/copyright";

/// Path of the licence in other packages.
pub(super) const LICENCE: &str = "usr/share/licenses/levada/LICENSE";

/// Licence of a package, with the changelog in Debian's form for Debian.
pub(super) fn entries(root: &Path, release: &Release, family: Family) -> Result<Vec<Entry>, String> {
    Ok(match family {
        Family::Debian => vec![
            Entry::file(COPYRIGHT, 0o644, copyright()),
            Entry::file(
                "usr/share/doc/levada/changelog.gz",
                0o644,
                contents::gzip(changelog(&release.version, &release.mail_date()?).as_bytes()),
            ),
        ],
        Family::RedHat => vec![licence(root, LICENCE)?],
    })
}

/// The entries of Debian's package with the text of the licence, for systems without that text.
pub(super) fn with_text(root: &Path, entries: &[Entry]) -> Result<Vec<Entry>, String> {
    let licence = licence(root, COPYRIGHT)?;
    let all = entries.iter().map(|entry| if entry.path == COPYRIGHT { &licence } else { entry });
    Ok(all.cloned().collect())
}

/// The text of the licence at a path.
pub(super) fn licence(root: &Path, path: &str) -> Result<Entry, String> {
    Ok(Entry::file(path, 0o644, contents::read(&root.join("LICENSE"))?))
}

/// The statement about copyright in Debian's form for programs (DEP-5).
pub(super) fn copyright() -> String {
    "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: levada

Files: *
Copyright: the authors of Levada
License: Apache-2.0

License: Apache-2.0
 Licensed under the Apache License, Version 2.0 (the \"License\"); you may not
 use this program except in compliance with the License.
 .
 On Debian systems, the text of the License is in
 /usr/share/common-licenses/Apache-2.0.
"
    .to_owned()
}

/// The changelog of the package in Debian's form (deb-changelog(5)), with one entry: the changes
/// themselves are in a file for all systems.
pub(super) fn changelog(version: &str, date: &str) -> String {
    format!(
        "levada ({version}) unstable; urgency=medium\n\n  \
         * Release {version}. /usr/share/doc/levada/CHANGELOG.md lists the changes.\n\n \
         -- {}  {date}\n",
        super::MAINTAINER
    )
}
