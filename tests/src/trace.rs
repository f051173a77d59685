//! Reads what strace recorded: which system calls moved how many bytes between what.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The calls to record, for [`crate::Node::wrap`] with `strace -f -y -o FILE`.
pub const CALLS: &str = "trace=read,readv,pread64,preadv,preadv2,recvfrom,recvmsg,recvmmsg,write,writev,pwrite64,\
pwritev,pwritev2,sendto,sendmsg,sendmmsg,splice,sendfile,tee,vmsplice,copy_file_range,mmap,io_uring_enter,io_uring_setup";

/// True if strace is installed and may trace.
pub fn is_allowed() -> bool {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    traced.is_ok_and(|traced| traced.status.success())
}

/// A finished call that moved bytes.
#[derive(Debug, PartialEq)]
pub struct Call {
    /// Name of the system call.
    pub name: String,
    /// Arguments of the call, as strace shows them, with the paths of descriptors.
    pub arguments: String,
    /// Result of the system call.
    pub result: u64,
}

/// Every call that moved bytes, in order; calls that were interrupted in the record are put
/// together.
pub fn read(path: &Path) -> Vec<Call> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&String::from_utf8_lossy(&bytes))
}

fn parse(text: &str) -> Vec<Call> {
    let mut unfinished: Vec<(&str, &str)> = Vec::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(start) = rest.strip_suffix("<unfinished ...>") {
            unfinished.push((thread, start.trim_end()));
        } else if let Some((_, end)) =
            rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            if let Some(index) = unfinished.iter().position(|(other, _)| *other == thread) {
                let (_, start) = unfinished.swap_remove(index);
                calls.extend(call(&format!("{start}{end}")));
            }
        } else {
            calls.extend(call(rest));
        }
    }
    calls
}

/// `splice(5</a.log>, [0], 7<pipe:[1]>, NULL, 4096, 0) = 4096` → a call; `None` for errors and 0.
fn call(text: &str) -> Option<Call> {
    let (before, result) = text.rsplit_once(" = ")?;
    let (name, arguments) = before.split_once('(')?;
    let digits = result.split(' ').next()?;
    let result = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()?,
        None => digits.parse().ok()?,
    };
    let arguments = arguments.trim_end().trim_end_matches(')').to_string();
    (result > 0).then(|| Call { name: name.to_string(), arguments, result })
}

impl Call {
    /// True if one of its descriptors is a file of this ending.
    pub fn touches(&self, ending: &str) -> bool {
        self.arguments.contains(&format!("{ending}>"))
    }

    /// True if its n-th argument is a socket.
    pub fn is_socket(&self, argument: usize) -> bool {
        self.arguments
            .split(", ")
            .nth(argument)
            .is_some_and(|descriptor| descriptor.contains("<socket:[") || descriptor.contains("<TCP"))
    }
}

/// The bytes that `calls` moved.
pub fn bytes<'a>(calls: impl IntoIterator<Item = &'a Call>) -> u64 {
    calls.into_iter().map(|call| call.result).sum()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn puts_interrupted_calls_together_and_skips_failures() {
        let calls = parse(
            "71 splice(5</d/0.log>, [0], 7<pipe:[1]>, NULL, 4096, SPLICE_F_MOVE <unfinished ...>\n\
             72 splice(8<pipe:[2]>, NULL, 9<socket:[3]>, NULL, 10, 0) = -1 EAGAIN (Resource temporarily unavailable)\n\
             71 <... splice resumed>) = 4096\n\
             72 splice(8<pipe:[2]>, NULL, 9<socket:[3]>, NULL, 10, 0) = 10\n\
             72 read(4<eventfd>, \"\", 8) = 0\n\
             72 +++ exited with 0 +++\n",
        );
        let names: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.result)).collect();
        assert_eq!(names, [("splice", 4096), ("splice", 10)]);
        assert!(calls[0].touches(".log") && !calls[0].is_socket(2));
        assert!(calls[1].is_socket(2) && !calls[1].touches(".log"));
    }
}
