//! Tests of the dump on files made here.

use std::fs;

use levada_base::batch::{Builder, EndMarker, Marker};
use levada_base::compress::Compression;
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Writes `content` under `name`, dumps it, and returns text and verdict.
fn dump(dir: &TempDir, name: &str, content: &[u8], records: bool) -> (String, Verdict) {
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    let mut out = Vec::new();
    let verdict = dump_file(&path, records, &mut Report::new(&mut out, false, false)).unwrap();
    (String::from_utf8(out).unwrap(), verdict)
}

fn batch(base_offset: i64, codec: Compression, values: &[&str]) -> Vec<u8> {
    let mut builder = Builder::new().base_offset(base_offset).leader_epoch(3).compression(codec);
    for value in values {
        builder.push_with_headers(1_000, Some(b"k"), Some(value.as_bytes()), &[(b"h", None)]);
    }
    builder.build().unwrap().to_vec()
}

fn segment() -> Vec<u8> {
    let mut content = batch(0, Compression::None, &["a", "b"]);
    content.extend(batch(2, Compression::Zstd, &["c d"]));
    let marker = EndMarker {
        marker: Marker::Commit,
        producer_id: 9,
        producer_epoch: 1,
        coordinator_epoch: 4,
        timestamp_ms: 2_000,
    };
    let mut control = marker.build().unwrap().to_vec();
    control[..8].copy_from_slice(&3_i64.to_be_bytes());
    content.extend(control);
    content
}

const LOG: &str = "00000000000000000000.log";

#[test]
fn a_sound_segment_shows_batches_and_records() {
    let dir = tempfile::tempdir().unwrap();
    let content = segment();
    let (text, verdict) = dump(&dir, LOG, &content, true);
    assert_eq!(verdict, Verdict::Sound("3 batches, 4 records, offsets 0 to 3".to_owned()));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert!(lines[0].starts_with("batch position=0 base_offset=0 last_offset=1 records=2 bytes="), "{text}");
    assert!(lines[0].ends_with(" check=ok compression=none leader_epoch=3 max_timestamp=1000"), "{text}");
    assert_eq!(lines[1], "record offset=0 timestamp=1000 key=k value=a headers=[[\"h\",null]]");
    assert!(lines[4].contains("value=\"c d\""), "{text}");
    assert!(
        lines[5].ends_with("transactional=true control=true marker=commit coordinator_epoch=4"),
        "{text}"
    );
}

#[test]
fn preallocated_zeros_are_not_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut content = segment();
    let used = content.len();
    content.resize(used + 100_000, 0);
    let (text, verdict) = dump(&dir, LOG, &content, false);
    assert_eq!(verdict, Verdict::Sound("3 batches, 4 records, offsets 0 to 3".to_owned()));
    assert!(text.ends_with(&format!("unused position={used} bytes=100000\n")), "{text}");
    assert_eq!(dump(&dir, LOG, b"", false).1, Verdict::Sound("empty".to_owned()));
    assert_eq!(dump(&dir, LOG, &[0; 40], false).1, Verdict::Sound("empty".to_owned()));
}

#[test]
fn dump_reports_damage_with_its_position() {
    fn check(content: &[u8], at: usize, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        match dump(&dir, LOG, content, false).1 {
            Verdict::Damaged { at: found, what } => {
                assert_eq!(found, at as u64, "{what}");
                assert!(what.contains(expected), "{what}");
            }
            Verdict::Sound(what) => panic!("sound: {what}"),
        }
    }
    let first = batch(0, Compression::None, &["a", "b"]).len();
    let whole = segment();

    let mut flipped = whole.clone();
    flipped[first - 1] ^= 1;
    check(&flipped, 0, "checksum");
    check(&whole[..first + 30], first, "cut short: 30 of at least 61 bytes");
    check(&whole[..first + 65], first, "cut short: 65 of");
    let mut format = whole.clone();
    format[first + 16] = 1;
    check(&format, first, "format 1");
    let mut length = whole.clone();
    length[first + 8..first + 12].copy_from_slice(&i32::MAX.to_be_bytes());
    check(&length, first, "cut short");
    let mut backwards = whole.clone();
    backwards[first..first + 8].copy_from_slice(&0_i64.to_be_bytes());
    check(&backwards, first, "is below 2");
    let mut hole = whole[..first].to_vec();
    hole.extend([0; 200]);
    hole.extend(&whole[..first]);
    check(&hole, first, "zeros where a batch should be");
}

fn pair(offset: i32, position: i32) -> Vec<u8> {
    [offset.to_be_bytes(), position.to_be_bytes()].concat()
}

#[test]
fn an_offset_index_is_checked_against_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let second = batch(0, Compression::None, &["a", "b"]).len();
    dump(&dir, LOG, &segment(), false);
    let check = |content: Vec<u8>| dump(&dir, "00000000000000000000.index", &content, false).1;
    let good = pair(2, second as i32);
    assert_eq!(check(good.clone()), Verdict::Sound("1 entry".to_owned()));
    assert_eq!(check([good.clone(), vec![0; 80]].concat()), Verdict::Sound("1 entry".to_owned()));
    assert_eq!(check(Vec::new()), Verdict::Sound("0 entries".to_owned()));
    assert_eq!(check(pair(2, 5)), Verdict::damaged(0, "no batch begins at 5 of the segment"));
    let wrong = format!("offset 1 is not in the batch at {second}, which has 2 to 2");
    assert_eq!(check(pair(1, second as i32)), Verdict::damaged(0, wrong));
    let twice = [good.clone(), good.clone()].concat();
    assert!(matches!(check(twice), Verdict::Damaged { at: 8, what } if what.contains("is not above")));
    assert_eq!(check(good[..7].to_vec()), Verdict::damaged(0, "7 bytes after the last whole entry of 8"));
}

#[test]
fn dump_checks_time_index_order_and_range() {
    let dir = tempfile::tempdir().unwrap();
    dump(&dir, LOG, &segment(), false);
    let entry = |timestamp: i64, offset: i32| [&timestamp.to_be_bytes()[..], &offset.to_be_bytes()].concat();
    let check = |content: Vec<u8>| dump(&dir, "00000000000000000000.timeindex", &content, false).1;
    assert_eq!(check([entry(1_000, 1), entry(2_000, 3)].concat()), Verdict::Sound("2 entries".to_owned()));
    assert_eq!(
        check(entry(1_000, 4)),
        Verdict::damaged(0, "offset 4 is above the last offset of the segment, 3")
    );
    let falls = check([entry(2_000, 1), entry(1_000, 2)].concat());
    assert!(matches!(falls, Verdict::Damaged { at: 12, .. }), "{falls:?}");
}

#[test]
fn an_index_of_aborted_transactions_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |version: i16, first: i64, last: i64| {
        let longs = [7, first, last, 5].map(i64::to_be_bytes).concat();
        [&version.to_be_bytes()[..], &longs].concat()
    };
    let (text, verdict) = dump(&dir, "00000000000000000000.txnindex", &entry(0, 1, 2), false);
    assert_eq!(verdict, Verdict::Sound("1 entry".to_owned()));
    assert_eq!(text, "entry producer_id=7 first_offset=1 last_offset=2 last_stable_offset=5\n");
    let (_, verdict) = dump(&dir, "00000000000000000000.txnindex", &entry(0, 2, 1), false);
    assert_eq!(verdict, Verdict::damaged(0, "a transaction from 2 to 1"));
}

#[test]
fn a_producer_snapshot_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mut body = 1_u32.to_be_bytes().to_vec();
    body.extend(77_i64.to_be_bytes());
    body.extend(2_i16.to_be_bytes());
    body.extend(9_i32.to_be_bytes());
    body.extend(41_i64.to_be_bytes());
    body.extend(4_i32.to_be_bytes());
    body.extend(1_000_i64.to_be_bytes());
    body.extend((-1_i32).to_be_bytes());
    body.extend((-1_i64).to_be_bytes());
    let file =
        |body: &[u8]| [&1_i16.to_be_bytes()[..], &crc_fast::crc32_iscsi(body).to_be_bytes(), body].concat();
    let (text, verdict) = dump(&dir, "00000000000000000042.snapshot", &file(&body), false);
    assert_eq!(verdict, Verdict::Sound("1 producer".to_owned()));
    assert!(
        text.starts_with("producer producer_id=77 producer_epoch=2 last_sequence=9 last_offset=41 "),
        "{text}"
    );
    let (_, verdict) = dump(&dir, "00000000000000000042.snapshot", &file(&body[..30]), false);
    assert_eq!(verdict, Verdict::damaged(6, "1 entries need 46 bytes, there are 26"));
    let mut flipped = file(&body);
    flipped[20] ^= 1;
    let (_, verdict) = dump(&dir, "00000000000000000042.snapshot", &flipped, false);
    assert!(matches!(verdict, Verdict::Damaged { at: 2, .. }), "{verdict:?}");
    assert!(matches!(dump(&dir, "1.snapshot", b"\0\x01", false).1, Verdict::Damaged { at: 0, .. }));
}

#[test]
fn text_files_are_checked() {
    fn check(name: &str, content: &str, expected: Result<&str, (u64, &str)>) {
        let dir = tempfile::tempdir().unwrap();
        match (dump(&dir, name, content.as_bytes(), false).1, expected) {
            (Verdict::Sound(what), Ok(expected)) => assert_eq!(what, expected, "{name}"),
            (Verdict::Damaged { at, what }, Err((line, part))) => {
                assert_eq!(at, line, "{name}: {what}");
                assert!(what.contains(part), "{name}: {what}");
            }
            (verdict, _) => panic!("{name}: {verdict:?}"),
        }
    }
    let offsets = "recovery-point-offset-checkpoint";
    check(offsets, "0\n2\nmy topic 0 5\nt 1 6\n", Ok("2 entries"));
    check(offsets, "0\n0\n", Ok("0 entries"));
    check(offsets, "1\n0\n", Err((1, "version \"1\" is unknown")));
    check(offsets, "", Ok("0 entries"));
    check(offsets, "0\nx\n", Err((2, "no count")));
    check(offsets, "0\n2\nt 0 5\n", Err((2, "2 entries announced, 1 found")));
    check(offsets, "0\n1\nt 0\n", Err((3, "is not an entry")));
    check("leader-epoch-checkpoint", "0\n2\n0 0\n3 10\n", Ok("2 entries"));
    check("leader-epoch-checkpoint", "0\n2\n3 0\n1 10\n", Err((4, "out of order")));
    check("partition.metadata", "version: 0\ntopic_id: abc\n", Ok("2 settings"));
    check("partition.metadata", "version: 0\n", Err((1, "topic_id is missing")));
    check("quorum-state", "{\"leaderId\":1,\"data_version\":1}", Ok("2 settings"));
    check(".kafka_cleanshutdown", "{\n\"version\":", Err((2, "EOF")));
    check("meta.properties", "#\nversion=1\ncluster.id=x\n", Ok("2 settings"));
}

#[test]
fn dump_ignores_offset_in_snapshot_name() {
    let dir = tempfile::tempdir().unwrap();
    let name = "00000000000000000116-0000000005.checkpoint";
    let content = batch(0, Compression::None, &["a", "b"]);
    assert_eq!(
        dump(&dir, name, &content, false).1,
        Verdict::Sound("1 batch, 2 records, offsets 0 to 1".to_owned())
    );
    let segment = dump(&dir, "00000000000000000116.log", &content, false).1;
    assert!(matches!(segment, Verdict::Damaged { at: 0, .. }), "{segment:?}");
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let mut out = Vec::new();
        match dump_file(path, false, &mut Report::new(&mut out, false, false)) {
            Err(Failure::Usage(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    let path = dir.path().join("notes.txt");
    assert!(refused(&path).ends_with("notes.txt: no such file"));
    fs::write(&path, "").unwrap();
    assert!(refused(&path).contains("notes.txt: this kind of file cannot be dumped"));
}

#[test]
fn dump_survives_flipped_bytes_and_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let whole = segment();
    let names = ["0.log", "0.index", "0.timeindex", "0.txnindex", "0.snapshot", "leader-epoch-checkpoint"];
    let ends: Vec<usize> = {
        let first = batch(0, Compression::None, &["a", "b"]).len();
        vec![0, first, first + batch(2, Compression::Zstd, &["c d"]).len(), whole.len()]
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x80;
        names.iter().for_each(|name| drop(dump(&dir, name, &flipped, true)));
        let sound = matches!(dump(&dir, "0.log", &whole[..at], true).1, Verdict::Sound(_));
        // A cut that leaves only zeros of a base offset looks like room for later.
        let only_zeros = ends.iter().any(|end| at >= *end && whole[*end..at].iter().all(|byte| *byte == 0));
        assert_eq!(sound, only_zeros, "cut at {at}");
    }
}

#[test]
fn json_is_one_object_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG);
    fs::write(&path, segment()).unwrap();
    let mut out = Vec::new();
    let mut report = Report::new(&mut out, true, false);
    let verdict = dump_file(&path, false, &mut report).unwrap();
    report.verdict(&path, &verdict).unwrap();
    let text = String::from_utf8(out).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    assert_eq!(objects[0]["check"], "ok");
    assert_eq!((&objects[3]["kind"], &objects[3]["sound"]), (&"verdict".into(), &true.into()));
}

#[test]
fn dump_continues_after_missing_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(LOG), segment()).unwrap();
    let files = ["00000000000000000009.log", LOG].map(|name| dir.path().join(name)).to_vec();
    let format = FormatArgs { format: Format::Table };
    let verb = Verb::Dump(Dump { files, records: false, quiet: true, format });
    let mut out = Vec::new();
    let failure = run(Args { verb }, &mut out).unwrap_err();
    assert!(matches!(failure, Failure::Told), "exit code 1: {failure:?}");
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(&format!("{LOG}: sound")), "{text}");
}

#[test]
fn dump_of_unknown_file_keeps_earlier_failures() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, unknown) = (dir.path().join(LOG), dir.path().join("notes.txt"));
    let dump = Dump {
        files: vec![missing.clone(), unknown.clone(), missing.clone()],
        records: false,
        quiet: false,
        format: FormatArgs { format: Format::Table },
    };
    let mut unreadable = Vec::new();
    let failure = dump.run(&mut Vec::new(), &mut unreadable).unwrap_err();
    assert!(matches!(&failure, Failure::Usage(what) if what.contains("notes.txt")), "{failure:?}");
    let lines: Vec<&str> = unreadable.iter().map(Failure::line).collect();
    assert!(matches!(lines[..], [line] if line.starts_with("cannot read ")), "{lines:?}");
    let args = Args { verb: Verb::Dump(dump) };
    assert!(matches!(run(args, &mut Vec::new()), Err(Failure::Usage(_))), "exit code 2");
}

#[test]
fn dump_escapes_terminal_controls() {
    let mut out = Vec::new();
    let hostile = "a\u{9b}31m\u{202e}b";
    let fields = [("text", json!("\u{202e}")), ("decoded", json!({ "group": hostile }))];
    Report::new(&mut out, false, false).row("record", &fields).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, "record text=\"\\u202e\" decoded={\"group\":\"a\\u009b31m\\u202eb\"}\n");
}
