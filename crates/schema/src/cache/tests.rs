//! Tests of the cache.

use super::*;
use crate::registry::RegistryError;
use crate::schemas::tests::known;

fn id(number: usize) -> SchemaId {
    SchemaId::Number(u32::try_from(number).unwrap())
}

fn missing() -> Result<Arc<Known>, Arc<Fault>> {
    let (url, what, reason) = (String::new(), String::new(), String::new());
    Err(Arc::new(RegistryError::Missing { url, what, reason }.into()))
}

fn outage() -> Result<Arc<Known>, Arc<Fault>> {
    Err(Arc::new(RegistryError::Unreachable { urls: String::new(), reason: String::new() }.into()))
}

#[test]
fn cached_schemas_stay_and_errors_expire() {
    let (mut cache, start) = (Cache::default(), Instant::now());
    cache.keep(id(1), &Ok(known(10)), start);
    cache.keep(id(2), &missing(), start);
    let late = start + MISSING;
    assert!(cache.find(id(1), late).unwrap().is_ok());
    assert!(cache.find(id(2), late - Duration::from_millis(1)).unwrap().is_err());
    assert!(cache.find(id(2), late).is_none());
    assert!(cache.find(id(3), start).is_none());
}

#[test]
fn registry_outage_pauses_all_requests() {
    let (mut cache, start) = (Cache::default(), Instant::now());
    cache.keep(id(1), &Ok(known(10)), start);
    cache.keep(id(2), &outage(), start);
    assert!(cache.find(id(1), start).unwrap().is_ok(), "a schema that is known");
    assert!(cache.find(id(3), start).unwrap().unwrap_err().is_outage());
    assert!(cache.find(id(3), start + OUTAGE).is_none());
    cache.keep(id(3), &Ok(known(10)), start);
    assert!(cache.find(id(4), start).is_none(), "the registry has answered");
}

#[test]
fn entries_and_bytes_are_bounded() {
    let (mut cache, now) = (Cache::default(), Instant::now());
    for number in 0..2 * ENTRIES_MAX.get() {
        cache.keep(id(number), &missing(), now);
    }
    assert_eq!(cache.entries.len(), ENTRIES_MAX.get());
    for number in 0..10 {
        cache.keep(id(number), &Ok(known(TEXT_BYTES_MAX / 4)), now);
        assert!(cache.text_bytes <= TEXT_BYTES_MAX);
    }
    assert!(cache.find(id(9), now).unwrap().is_ok() && cache.find(id(0), now).is_none());
    cache.keep(id(9), &Ok(known(TEXT_BYTES_MAX / 4)), now);
    let kept: usize =
        cache.entries.iter().filter_map(|(_, entry)| Some(entry.as_ref().ok()?.text_bytes)).sum();
    assert_eq!(cache.text_bytes, kept, "a schema that was read twice counts once");
}
