//! Wall clocks of single processes, set while they run: a library that is loaded before the C
//! library shifts what they read.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Node;

const SOURCE: &str = include_str!("wall_clock/preload.c");

/// The wall clock of one node's process.
pub struct WallClock(PathBuf);

impl WallClock {
    /// Gives a node a wall clock, from its next start on. An error names the missing compiler.
    pub fn of(node: &mut Node) -> Result<Self, String> {
        let folder = node.scratch().to_owned();
        let library = compile(&folder)?;
        let clock = Self(folder.join("wall-clock-shift"));
        fs::write(&clock.0, 0_i64.to_ne_bytes()).map_err(|error| error.to_string())?;
        node.variable("LD_PRELOAD", &library.display().to_string());
        node.variable("WALL_CLOCK_SHIFT", &clock.0.display().to_string());
        Ok(clock)
    }

    /// Sets the clock this far ahead of the machine's.
    pub fn set_ahead(&self, time: Duration) {
        self.shift(i64::try_from(time.as_nanos()).expect("some hours"));
    }

    /// Sets the clock this far back.
    pub fn set_back(&self, time: Duration) {
        self.shift(-i64::try_from(time.as_nanos()).expect("some hours"));
    }

    /// Sets the clock to that of the machine.
    pub fn set_right(&self) {
        self.shift(0);
    }

    /// Changes the bytes of the file that the process has mapped.
    fn shift(&self, nanoseconds: i64) {
        let mut file = fs::OpenOptions::new().write(true).open(&self.0).expect("the file");
        file.write_all(&nanoseconds.to_ne_bytes()).expect("eight bytes");
    }
}

fn compile(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("wall_clock.c"), folder.join("wall_clock.so"));
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    let said = compiler.output().map_err(|error| format!("cc: {error}"))?;
    if said.status.success() { Ok(library) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
}
