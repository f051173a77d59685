//! Lists of groups by many filters.

use levada_testing::growth;

use crate::group::coordinator::{ListFilter, ListedGroup};

#[test]
fn group_filters_cost_same_for_100000_as_few() {
    let group = ListedGroup {
        group_id: "g".to_owned(),
        protocol_type: "consumer".to_owned(),
        state: "Stable",
        group_type: "classic",
    };
    let growth = growth(16_384, |filters| {
        let names: Vec<String> = (0..filters).map(|number| format!("{number:06}")).collect();
        let names = || names.iter().map(String::as_str);
        let (without, with) = (ListFilter::of(names(), []), ListFilter::of(names().chain([" stable "]), []));
        let group = &group;
        move || {
            for _ in 0..20_000 {
                assert!(!without.lets_through(group) && with.lets_through(group));
            }
            // Dropped outside of the measured time.
            (without, with)
        }
    });
    // A look at each filter would make it 8.
    assert!(growth < 6.0, "{growth}");
}
