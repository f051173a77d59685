//! Tests of the search for transactional ids.

use super::*;

fn listed(id: String, state: &str) -> ListedTransaction {
    let mut one = ListedTransaction::default();
    (one.transactional_id, one.transaction_state) = (id.into(), StrBytes::from(state));
    one
}

#[test]
fn transaction_search_finds_ids_beyond_page_limit() {
    let all = || {
        let ids = (0..300).map(|number| listed(format!("Id-{number:03}"), "Empty"));
        ids.chain([listed("open".to_owned(), ONGOING)]).collect::<Vec<_>>()
    };
    assert_eq!(found(all(), ("id-299", "all")), (vec!["Id-299".into()], false));
    assert_eq!(found(all(), ("id-299", "")), (Vec::new(), false));
    assert_eq!(found(all(), ("", "")), (vec!["open".into()], false));
    let (ids, is_cut) = found(all(), ("", "all"));
    assert_eq!((ids.len(), ids[0].as_str(), is_cut), (IDS_MAX, "open", true));
}
