//! Copies a file by the best available path, and prints the path.
//!
//! ```text
//! cargo run --release -p levada-io --example copy_file -- FROM TO
//! ```

use std::error::Error;
use std::fs::File;

use levada_io::copy::{CopyOptions, copy};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: copy_file FROM TO".into());
    };
    let source = File::open(&from).map_err(|error| format!("{from}: {error}"))?;
    let destination = File::create_new(&to).map_err(|error| format!("{to}: {error}"))?;
    let copied = copy(&source, &destination, &CopyOptions::default(), |done, total| {
        eprint!("\r{done} of {total}");
    })?;
    eprintln!();
    for (path, bytes) in &copied.by_path {
        println!("{path} {bytes}");
    }
    println!("holes {}", copied.hole_bytes);
    Ok(())
}
