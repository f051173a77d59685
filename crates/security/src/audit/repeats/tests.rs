//! Floods of one origin, and of very many.

use super::*;

fn origin(host: &str) -> AuditOrigin {
    AuditOrigin::new("authentication", None, host)
}

#[test]
fn audit_flood_from_one_origin_hides_no_other() {
    let (mut repeats, start) = (Repeats::default(), Instant::now());
    let written = (0..1_000).filter(|_| repeats.admit(origin("10.0.0.1"), start)).count();
    assert_eq!(written, 100);
    assert!(repeats.admit(origin("10.0.0.2"), start));
    assert!(repeats.admit(AuditOrigin::new("authorization", None, "10.0.0.1"), start));
    assert_eq!(repeats.left_out(start), [(origin("10.0.0.1"), 900)]);
    assert_eq!(repeats.left_out(start), []);
    let later = start + Duration::from_secs(3);
    let written = (0..10).filter(|_| repeats.admit(origin("10.0.0.1"), later)).count();
    assert_eq!(written, 3, "one a second");
    assert_eq!(repeats.left_out(later + Duration::from_secs(1_000)), [(origin("10.0.0.1"), 7)]);
    assert_eq!((repeats.0.len(), repeats.0.capacity()), (0, 0));
}

#[test]
fn excess_audit_origins_share_one_counter() {
    let (mut repeats, start) = (Repeats::default(), Instant::now());
    for at in 0..ORIGINS_MAX {
        assert!(repeats.admit(origin(&format!("host-{at}")), start));
    }
    let written = (0..5_000).filter(|at| repeats.admit(origin(&format!("more-{at}")), start)).count();
    assert_eq!(written, 100);
    assert!(repeats.admit(origin("host-7"), start));
    let others = AuditOrigin { host: None, ..origin("") };
    assert_eq!(repeats.left_out(start), [(others, 4_900)]);
    assert!(repeats.0.len() <= ORIGINS_MAX + 1);
}

#[test]
fn refused_logins_from_many_addresses_hide_no_user() {
    let (mut repeats, start) = (Repeats::default(), Instant::now());
    let login = |host: String, user: &str| (origin(&host), AuditOrigin::of_user("authentication", user));
    for at in 0..ORIGINS_MAX + 5_000 {
        repeats.admit_either(login(format!("host-{at}"), "User:alice"), start);
    }
    let written = (0..500).filter(|_| repeats.admit_either(login("new".to_owned(), "User:admin"), start));
    assert_eq!(written.count(), 100);
    let left_out = repeats.left_out(start);
    let of_admin = left_out.iter().find(|(origin, _)| origin.principal.as_deref() == Some("User:admin"));
    assert_eq!(of_admin.map(|(_, count)| *count), Some(400));
    // Origins without recent entries make room before the next one is counted together with others.
    let later = start + EVERY * 200;
    let written = (0..150).filter(|_| repeats.admit(origin("another"), later)).count();
    assert_eq!((written, repeats.left_out(later)), (100, vec![(origin("another"), 50)]));
}

#[test]
fn long_principals_are_truncated_in_memory() {
    let cut = AuditOrigin::new("authorization", Some(&"ü".repeat(10_000)), "::1").principal.unwrap();
    assert_eq!(cut.len(), 256);
}
