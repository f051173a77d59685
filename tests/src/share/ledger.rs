//! Records as their writer recorded them, compared with the deliveries and acknowledgements of a
//! share group's members: each committed record was accepted, none was delivered again after that,
//! no aborted record was delivered, and no delivery count is above the limit.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::ledger::Outcome;

/// Errors of an acknowledgement that say that it had no effect. After others the broker may have
/// written it.
const WITHOUT_EFFECT: [&str; 1] = ["InvalidRecordStateException"];

/// Number of complaints that a failure shows.
const SHOWN: usize = 5;
/// Time before the first line about a record from which on a failure shows the leaders, in
/// microseconds.
const HISTORY_US: u64 = 20_000_000;

/// Partition and offset.
type Place = (u32, u64);

/// Everything that happened, from the journals.
#[derive(Default, Debug)]
pub struct Journals {
    /// Written records by value.
    written: BTreeMap<String, Written>,
    deliveries: Vec<Delivered>,
    acknowledgements: Vec<Acknowledged>,
    /// Errors of polls and commits.
    pub errors: Vec<String>,
    /// Lines about each record.
    lines: HashMap<Place, Vec<String>>,
    /// Lines about leaders of the topic and of the states, with their times.
    leaders: Vec<(u64, String)>,
}

/// A fault, and the record that has it.
#[derive(Debug)]
struct Complaint {
    place: Option<Place>,
    text: String,
}

#[derive(Debug)]
struct Written {
    outcome: Outcome,
    partition: u32,
    /// None if the writer got no response.
    offset: Option<u64>,
}

#[derive(Debug)]
struct Delivered {
    member: String,
    /// Time before the client got the record, in microseconds.
    since: u64,
    place: Place,
    count: u16,
    value: String,
}

#[derive(Debug)]
struct Acknowledged {
    member: String,
    at: u64,
    place: Place,
    count: u16,
    /// False in the result of an acknowledgement whose kind is not known.
    is_accept: bool,
    /// None in the line that tells of the start.
    result: Option<String>,
}

impl Delivered {
    fn key(&self) -> (&str, Place, u16) {
        (&self.member, self.place, self.count)
    }
}

impl Acknowledged {
    fn is_confirmed(&self) -> bool {
        self.result.as_deref() == Some("ok")
    }
}

impl Journals {
    /// Adds the journal of a writer.
    pub fn add_writer(&mut self, path: &Path) {
        lines(path).iter().for_each(|line| self.add_written(line));
    }

    /// Adds the journal of members, which may have been killed.
    pub fn add_workers(&mut self, path: &Path) {
        lines(path).iter().for_each(|line| self.add_work(line));
    }

    fn add_written(&mut self, line: &str) {
        let mut words = line.split(' ');
        let outcome = match words.next() {
            Some("leader") => return self.leaders.push((number(line, words.next()), line.to_owned())),
            Some("committed") => Outcome::Committed,
            Some("aborted") => Outcome::Aborted,
            Some("unknown") => Outcome::Unknown,
            other => panic!("{line}: {other:?} is no outcome"),
        };
        let partition = number(line, words.next());
        for word in words {
            let (offset, value) = word.split_once(':').expect("an offset and a value");
            let written = Written { outcome, partition, offset: offset.parse().ok() };
            let before = self.written.insert(value.to_owned(), written);
            assert!(before.is_none(), "{value} was written twice");
        }
    }

    fn add_work(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let word = |at: usize| words.get(at).copied();
        let place = || (number(line, word(3)), number(line, word(4)));
        let at = || number(line, word(2));
        if words[0] != "e" {
            self.lines.entry(place()).or_default().push(line.to_owned());
        }
        match words[0] {
            "d" => self.deliveries.push(Delivered {
                member: words[1].to_owned(),
                since: at(),
                place: place(),
                count: number(line, word(5)),
                value: words[6].to_owned(),
            }),
            "s" | "a" => self.acknowledgements.push(Acknowledged {
                member: words[1].to_owned(),
                at: at(),
                place: place(),
                count: number(line, word(5)),
                is_accept: words[6] == "accept",
                result: word(7).map(str::to_owned),
            }),
            "e" => self.errors.push(line.to_owned()),
            other => panic!("{line}: {other} is no kind of line"),
        }
    }

    /// Number of the records that the writer knows to be committed.
    pub fn committed(&self) -> usize {
        self.written.values().filter(|written| written.outcome == Outcome::Committed).count()
    }

    /// A summary of what happened.
    pub fn summary(&self) -> String {
        let again = self.deliveries.iter().filter(|delivery| delivery.count > 1).count();
        let most = self.deliveries.iter().map(|delivery| delivery.count).max().unwrap_or_default();
        let mut results: BTreeMap<&str, usize> = BTreeMap::new();
        for result in self.acknowledgements.iter().filter_map(|one| one.result.as_deref()) {
            *results.entry(result).or_default() += 1;
        }
        format!(
            "{} records written, {} committed; {} deliveries, {again} of them again, at most {most} of one; \
             results {results:?}; {} errors",
            self.written.len(),
            self.committed(),
            self.deliveries.len(),
            self.errors.len()
        )
    }

    /// Prints a summary, and fails if the comparison finds a fault.
    pub fn assert_sound(&self, limit: u16, margin_us: u64) {
        println!("{}", self.summary());
        self.errors.iter().take(SHOWN).for_each(|error| println!("{error}"));
        let complaints = self.complaints(limit, margin_us);
        let first = complaints.iter().take(SHOWN).map(|complaint| {
            let lines = complaint.place.map_or_else(Vec::new, |place| self.history(place));
            format!("{}\n  {}", complaint.text, lines.join("\n  "))
        });
        let first: Vec<String> = first.collect();
        assert!(complaints.is_empty(), "{} complaints, first:\n{}", complaints.len(), first.join("\n"));
        assert!(self.committed() > 0, "too little happened");
    }

    /// Lines about a record, and about the leaders at that time.
    fn history(&self, place: Place) -> Vec<&str> {
        let lines = self.lines.get(&place).map_or(&[][..], Vec::as_slice);
        let times = || lines.iter().map(|line| number::<u64>(line, line.split(' ').nth(2)));
        let from = times().min().unwrap_or(0).saturating_sub(HISTORY_US);
        let until = times().max().unwrap_or(0);
        let leaders = self.leaders.iter().filter(|(at, _)| (from..=until).contains(at));
        let leaders = leaders.map(|(_, line)| line.as_str());
        lines.iter().map(String::as_str).chain(leaders).collect()
    }

    /// Compares the journals. `limit` is the group's delivery count limit. `margin_us` is the
    /// longest way of an acquired record to the client, in microseconds.
    fn complaints(&self, limit: u16, margin_us: u64) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let mut complain = |place, text| complaints.push(Complaint { place, text });
        let (accepted, confirmed) = (self.accepted(), self.confirmed());
        for delivery in &self.deliveries {
            let place = Some(delivery.place);
            if let Some(text) = self.stranger(delivery) {
                complain(place, text);
            }
            if delivery.count == 0 || delivery.count > limit {
                complain(place, format!("count out of range: {delivery:?}"));
            }
            if let Some(at) = accepted.get(&delivery.place)
                && delivery.since > at + margin_us
                && confirmed.get(&delivery.key()).is_some_and(|at| *at > delivery.since)
            {
                complain(place, format!("accepted at {at}, delivered again: {delivery:?}"));
            }
        }
        for (place, text) in self.unaccepted(&accepted) {
            complain(place, text);
        }
        complaints
    }

    /// Time of the first confirmed acceptance of each record. A delivery count says nothing about
    /// the order of deliveries: a new leader does not know deliveries without an acknowledgement.
    /// Brokers also confirm acknowledgements of records before the start of the partition, by
    /// members whose locks have expired.
    fn accepted(&self) -> HashMap<Place, u64> {
        let mut accepted = HashMap::new();
        let confirmed = |one: &&Acknowledged| one.is_accept && one.is_confirmed();
        for one in self.acknowledgements.iter().filter(confirmed) {
            let at = accepted.entry(one.place).or_insert(one.at);
            *at = one.at.min(*at);
        }
        accepted
    }

    /// Time of the last confirmed acknowledgement of each delivery. A leader that does not know yet
    /// that it has lost the partition delivers records from memory, and confirms nothing.
    fn confirmed(&self) -> HashMap<(&str, Place, u16), u64> {
        let mut confirmed = HashMap::new();
        for one in self.acknowledgements.iter().filter(|one| one.is_confirmed()) {
            let at = confirmed.entry((one.member.as_str(), one.place, one.count)).or_insert(one.at);
            *at = one.at.max(*at);
        }
        confirmed
    }

    /// A complaint about a delivery that is none of a record that the writer has written there.
    fn stranger(&self, delivery: &Delivered) -> Option<String> {
        let Some(written) = self.written.get(&delivery.value) else {
            return Some(format!("never written: {delivery:?}"));
        };
        let (partition, offset) = delivery.place;
        if written.outcome == Outcome::Aborted {
            return Some(format!("aborted, but delivered: {delivery:?}"));
        }
        let is_there = written.partition == partition && written.offset.is_none_or(|known| known == offset);
        (!is_there).then(|| format!("not where it was written ({written:?}): {delivery:?}"))
    }

    /// Complaints about committed records that no member has accepted.
    fn unaccepted(&self, accepted: &HashMap<Place, u64>) -> Vec<(Option<Place>, String)> {
        let places: HashMap<&str, Place> =
            self.deliveries.iter().map(|delivery| (delivery.value.as_str(), delivery.place)).collect();
        let mut complaints = Vec::new();
        let committed = self.written.iter().filter(|(_, written)| written.outcome == Outcome::Committed);
        for (value, written) in committed {
            let place = places.get(value.as_str()).copied();
            match place {
                None => complaints.push((None, format!("never delivered: {value} {written:?}"))),
                Some(found) if !accepted.contains_key(&found) && !self.may_be_accepted(found) => {
                    complaints.push((place, format!("not accepted: {value}")));
                }
                Some(_) => {}
            }
        }
        complaints
    }

    /// True if a member has sent an acceptance and does not know the result.
    fn may_be_accepted(&self, place: Place) -> bool {
        let of_it = || self.acknowledgements.iter().filter(|one| one.is_accept && one.place == place);
        let starts = of_it().filter(|one| one.result.is_none()).count();
        let ends = of_it().filter(|one| one.result.is_some()).count();
        let is_unclear = |one: &Acknowledged| {
            one.result.as_deref().is_some_and(|result| !WITHOUT_EFFECT.contains(&result))
        };
        starts > ends || of_it().any(is_unclear)
    }
}

/// Whole lines of a file whose writer may have been killed.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

fn number<T: std::str::FromStr>(line: &str, word: Option<&str>) -> T {
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}: {word:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::Journals;

    #[track_caller]
    fn check(written: &[&str], work: &[&str], expected: &[&str]) {
        let mut journals = Journals::default();
        written.iter().for_each(|line| journals.add_written(line));
        work.iter().for_each(|line| journals.add_work(line));
        let found = journals.complaints(3, 100);
        let fine = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| found.text.starts_with(expected));
        assert!(fine, "{found:?}");
    }

    #[test]
    fn share_ledger_detects_each_delivery_fault() {
        let written = ["committed 0 7:r0", "aborted 0 8:r1", "unknown 0 -1:r2"];
        let accepted = ["d m 10 0 7 1 r0", "s m 11 0 7 1 accept", "a m 20 0 7 1 accept ok"];
        let with = |lines: &[&'static str]| [&accepted[..], lines].concat();
        check(&written, &accepted, &[]);
        check(&written, &with(&["d n 90 0 7 1 r0", "d n 30 0 12 1 r2"]), &[]);
        let again = ["d n 121 0 7 1 r0", "s n 122 0 7 1 accept"];
        let and = |line: &'static str| with(&[again[0], again[1], line]);
        check(&written, &and("a n 123 0 7 1 accept ok"), &["accepted at 20"]);
        check(&written, &and("a n 123 0 7 1 accept NotLeaderOrFollowerException"), &[]);
        check(&written, &with(&again), &[]);
        check(&written, &with(&["d n 15 0 7 1 r0", "s n 121 0 7 1 accept", "a n 121 0 7 1 accept ok"]), &[]);
        check(&written, &with(&["d n 30 0 8 1 r1"]), &["aborted"]);
        check(&written, &with(&["d n 30 0 9 1 r9"]), &["never written"]);
        check(&written, &with(&["d n 30 1 12 1 r2"]), &["not where"]);
        check(&written, &with(&["d n 30 0 12 4 r2"]), &["count out of range"]);
        check(&written, &with(&["d n 30 0 12 0 r2"]), &["count out of range"]);
    }

    #[test]
    fn share_ledger_detects_lost_records() {
        let written = ["committed 0 7:r0"];
        check(&written, &[], &["never delivered"]);
        check(&written, &["d m 10 0 7 1 r0"], &["not accepted"]);
        check(
            &written,
            &["d m 10 0 7 1 r0", "s m 11 0 7 1 release", "a m 12 0 7 1 release ok"],
            &["not accepted"],
        );
        let sent = ["d m 10 0 7 1 r0", "s m 11 0 7 1 accept"];
        check(&written, &sent, &[]);
        let with = |line: &'static str| [&sent[..], &[line]].concat();
        check(&written, &with("a m 12 0 7 1 accept TimeoutException"), &[]);
        check(&written, &with("a m 12 0 7 1 accept InvalidRecordStateException"), &["not accepted"]);
    }

    #[test]
    fn results_of_two_acknowledgements_accept_nothing() {
        let written = ["committed 0 7:r0"];
        let both = ["d m 10 0 7 1 r0", "s m 11 0 7 1 accept", "d m 12 0 7 1 r0", "s m 13 0 7 1 release"];
        let results = ["a m 20 0 7 1 unclear ok", "a m 20 0 7 1 unclear InvalidRecordStateException"];
        check(&written, &[&both[..], &results].concat(), &[]);
        let again = ["d m 150 0 7 2 r0", "s m 151 0 7 2 accept", "a m 152 0 7 2 accept ok"];
        check(&written, &[&both[..], &results, &again].concat(), &[]);
    }
}
